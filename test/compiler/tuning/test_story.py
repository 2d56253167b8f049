"""The story of a run as JSON, and made from records; short texts."""

import json
import math

import numpy as np
import pytest
from tuning_stories import HOSTILE, PROVENANCE, failed_story, story

from stepwell.database.records import Candidate, Decision, Phase, Run, Samples, State, Workload, WorkloadInfo
from stepwell.dialects.sched.plan_file import Plan
from stepwell.tuning.recorded import SiteRecords, mean_ratio, story_from_records
from stepwell.tuning.story import Outcome, Ratio, SelfTest, Story
from stepwell.tuning.texts import count_of, duration, percent, shortened, time_text


def test_json_holds_the_story() -> None:
    told = story(12)
    data = json.loads(told.text(), parse_constant=pytest.fail)
    assert [site["name"] for site in data["sites"]] == [site.name for site in told.sites]
    assert data["run"]["ratio"] == told.run.ratio
    assert data["sites"][0]["best"] == {"value": told.sites[0].best.value, "low": told.sites[0].best.low, "high": told.sites[0].best.high}
    assert len(data["attempts"]) == len(told.attempts)
    assert [fault["state"] for fault in json.loads(failed_story().text())["faults"]] == ["crashed"] * 3
    odd = Story(Run("net", "", "", 1, 0, math.inf, float(np.float32(0.5))), PROVENANCE, untuned=np.float32(0.25), self_tests=[
        SelfTest("schedule", HOSTILE[3], "search", Ratio(0.5)),
    ])  # fmt: skip
    data = json.loads(odd.text(), parse_constant=pytest.fail)
    assert (data["run"]["budget"], data["untuned"], data["self_tests"][0]["ratio"]["high"]) == (None, 0.25, None)
    assert odd.whole is None


def records() -> list[SiteRecords]:
    """A site that was confirmed, one that was rolled back, one in which nothing was faster, one that was not searched."""

    def workload(kind: str, content: str) -> Workload:
        return Workload(kind, content, "", "target", 1)

    def info(name: str) -> WorkloadInfo:
        return WorkloadInfo(name, "net", (name,))

    def samples(text: str, against: str, ratios: list[float], phase: Phase = Phase.SEARCH, seconds: float = 0.001, discarded: int = 0) -> Samples:
        return Samples(text, against, phase, tuple(map(math.log, ratios)), seconds, "cpu", discarded)

    confirmed = SiteRecords(
        workload("schedule", "a"), info("conv1"),
        [
            Candidate("slow=0", "default", State.BUILT, predicted=0.002), Candidate("fast=1", "random", State.BUILT, predicted=0.001),
            Candidate("fast=2", "annealing", State.BUILT), Candidate("bad=1", "random", State.DIFFERS, "output 0 differs"),
            Candidate("no=1", "random", State.REFUSED, "a tile exceeds the registers"),
        ],
        [
            samples("slow=0", "slow=0", [1.0, 1.01, 0.99], seconds=0.004), samples("fast=1", "slow=0", [0.9, 0.91, 0.9], discarded=3),
            samples("fast=2", "fast=1", [0.8, 0.81, 0.8]), samples("fast=2", "slow=0", [0.74, 0.75], Phase.CONFIRM),
        ],
        Decision("fast=2", "slow=0", 0.75, 0.74, 0.76, 0.0001), space=100, at={"fast=1": 1.0, "fast=2": 5.0},
    )  # fmt: skip
    rolled_back = SiteRecords(
        workload("fusion", "b"), info("relu1"), [Candidate("fused", "default", State.BUILT), Candidate("apart", "random", State.BUILT)],
        [samples("apart", "fused", [0.97, 0.98, 0.97]), samples("apart", "fused", [1.01, 1.02], Phase.CONFIRM)], share=0.1, at={"apart": 3.0},
    )  # fmt: skip
    kept = SiteRecords(
        workload("fusion", "c"), info("relu2"), [Candidate("apart", "random", State.BUILT)], [samples("apart", "fused", [0.5])],
        default="fused", share=0.2,
    )  # fmt: skip
    return [confirmed, rolled_back, kept, SiteRecords(workload("panels", "d"), info("gemm"), [], site="gemm1")]


def test_story_from_records() -> None:
    run = Run("net", "0a5c", "target", 2, 0, 60.0, 42.0, "finished", 0.9, 0.89, 0.91)
    told = story_from_records(run, PROVENANCE, records(), untuned=0.01)
    conv, relu1, relu2, gemm = told.sites
    assert [site.outcome for site in told.sites] == [Outcome.CONFIRMED, Outcome.ROLLED_BACK, Outcome.KEPT, Outcome.UNTRIED]
    assert [site.name for site in told.sites] == ["conv1", "relu1", "relu2", "gemm1"]
    assert (conv.default, conv.chosen, conv.best, conv.tried, conv.space) == ("slow=0", "fast=2", Ratio(0.75, 0.74, 0.76), 4, 100)
    assert conv.share == pytest.approx(0.4)  # 4 ms of 10 ms
    assert conv.saved == pytest.approx(0.001)  # a quarter of 4 ms
    assert (relu1.saved, gemm.best, gemm.tried) == (None, None, 0)
    assert relu1.best is not None
    assert relu1.best.value > 1, "the confirmation counts, not the search"
    assert (relu2.chosen, relu2.best) == ("apart", Ratio(pytest.approx(0.5))), "one block proves nothing, so this is no milestone"
    assert [attempt.text for attempt in told.attempts] == ["fast=1", "apart", "fast=2", "bad=1", "no=1", "apart"], "by time, if it is known"
    by_text = {attempt.text: attempt for attempt in told.attempts if attempt.site == "conv1"}
    assert by_text["fast=1"].predicted == 0.5
    assert by_text["fast=2"].measured is not None
    assert by_text["fast=2"].measured.value == pytest.approx(0.9 * 0.8, rel=0.02), "relative to the default, by way of the incumbent"
    assert by_text["bad=1"].measured is None
    assert [(test.site, test.phase) for test in told.self_tests] == [("conv1", "search")]
    assert [(fault.text, fault.state) for fault in told.faults] == [("bad=1", "differs")], "a refused candidate is no fault"
    assert Plan.parse(told.faults[0].plan).choices == {"schedule": {"conv1": "bad=1"}}
    assert [(stone.at, stone.attempts, stone.confirmed) for stone in told.milestones] == [
        (0.0, 0, False), (1.0, 1, False), (3.0, 2, False), (5.0, 3, False), (42.0, 6, True),
    ]  # fmt: skip
    assert told.milestones[-1].ratio.value == pytest.approx(1 - 0.4 * 0.25)
    assert told.milestones[3].ratio.value == pytest.approx(1 - 0.4 * 0.28 - 0.1 * 0.027, abs=0.005)
    assert told.whole == Ratio(0.9, 0.89, 0.91)
    assert told.notes == ["3 blocks of measurements were thrown away, because other processes took cores."]
    empty = story_from_records(run, PROVENANCE, [])
    assert (empty.sites, empty.attempts, len(empty.milestones)) == ([], [], 1)


def test_intervals_of_means() -> None:
    ratio = mean_ratio([0.0, 0.1, 0.2])
    # Student's t at 97.5 % with 2 degrees of freedom is 4.3027; the standard error is 0.1 / sqrt(3).
    assert (ratio.value, ratio.high) == (pytest.approx(math.exp(0.1)), pytest.approx(math.exp(0.1 + 4.3027 * 0.1 / math.sqrt(3)), rel=1e-4))
    assert mean_ratio([0.5]) == Ratio(pytest.approx(math.exp(0.5)))
    assert not mean_ratio([0.5]).excludes_one()
    assert [Ratio(0.9, 0.8, 0.99).excludes_one(), Ratio(1.1, 1.01, 1.2).excludes_one(), Ratio(1, 0.9, 1.1).excludes_one()] == [True, True, False]
    assert [str(Ratio(0.96249, 0.9511, 0.973)), str(Ratio(0.5))] == ["0.962 [0.951, 0.973]", "0.500"]


def test_short_texts() -> None:
    assert [shortened(name, 9) for name in ("short", "beginning_end", "a\nb", "")] == ["short", "begi…_end", "a\\nb", ""]
    assert all(len(shortened(name, length)) <= length for name in HOSTILE for length in (1, 2, 3, 20))
    assert [*map(time_text, (0, 1.5, 0.035, 2e-6, 4.25e-9))] == ["0 s", "1.50 s", "35.0 ms", "2.00 µs", "4.25 ns"]
    assert [time_text(12345.6), time_text(-0.002)] == ["12346 s", "-2.00 ms"]
    assert [*map(duration, (7.6, 60, 150, 3900, -1))] == ["8 s", "1 min", "2 min 30 s", "1 h 05 min", "0 s"]
    assert [*map(percent, (None, 0.0423, 0.0003))] == ["", "4.2 %", "0.03 %"]
    assert [count_of(1, "site"), count_of(2000, "site")] == ["1 site", "2,000 sites"]
