"""Outcomes: times from chains of comparisons, and what belongs to the fastest tenth."""

import math
from dataclasses import replace
from random import Random

import pytest
from tuning_records import records

from stepwell.database.records import Candidate, Phase, Samples, State, Workload, WorkloadInfo
from stepwell.tuning.outcomes import Record, log_times, tried


def compared(text: str, against: str, *ratios: float, phase: Phase = Phase.SEARCH) -> Samples:
    return Samples(text, against, phase, ratios, 1.0, "cpu")


def test_times_are_relative_to_the_default_although_others_were_compared_with_later_incumbents() -> None:
    samples = [
        compared("a", "default", -0.1, -0.2, -0.1), compared("b", "a", -0.3), compared("c", "b", 0.5, 0.5), compared("a", "a", 0.01, -0.01),
        compared("x", "y", -1.0), compared("b", "default", -3.0, phase=Phase.WHOLE), compared("d", "default"),
    ]  # fmt: skip
    times = log_times(samples, "default")
    assert times == pytest.approx({"default": 0.0, "a": -0.1, "b": -0.4, "c": 0.1})
    assert log_times(reversed(samples), "default") == times
    assert log_times([], None) == {}
    assert log_times([], "default") == {"default": 0.0}
    assert log_times([compared("a", "b", 1.0), compared("c", "b", 2.0)], None) == pytest.approx({"b": 0.0, "a": 1.0, "c": 2.0})


def test_contradicting_comparisons_are_weighed_by_their_blocks() -> None:
    times = log_times([compared("a", "default", 0.0, 0.0, 0.0), compared("b", "a", 0.0), compared("b", "default", 0.4)], "default")
    # The cycle says 0.4 too much, and gives way in proportion to 1 / weight: of the pair with three blocks by a seventh.
    assert times == pytest.approx({"default": 0.0, "a": 0.4 / 7, "b": 1.6 / 7})
    random = Random(3)
    truth = {f"c{i}": random.gauss(0, 1) for i in range(20)} | {"default": 0.0}
    pairs = [(a, b) for a in truth for b in truth if random.random() < 0.3 and a != b]
    noisy = [compared(a, b, *(truth[a] - truth[b] + random.gauss(0, 0.02) for _ in range(9))) for a, b in pairs]
    assert log_times(noisy, "default") == pytest.approx(truth, abs=0.03)


def made(*rows: tuple[str, State, float | None, str], default: str = "default") -> list[Record]:
    """Records of a workload: text, state, log time, and code of each candidate."""
    workload, info = Workload("schedule", "k:0", "", "t", 1), WorkloadInfo("k", "net")
    found: list[Record] = []
    for text, state, time, code in rows:
        samples = [] if time is None else [compared(text, default, time)]
        found.append((workload, info, Candidate(text, "default" if text == default else "random", state, code=code), samples, "net"))
    return found


def test_failures_are_outcomes_and_refusals_are_none() -> None:
    (one,) = tried(
        made(
            ("default", State.BUILT, None, "d"), ("a", State.BUILT, -0.5, "a"), ("b", State.SAME_CODE, None, "a"), ("c", State.CRASHED, None, ""),
            ("d", State.TIMED_OUT, None, ""), ("e", State.FAILED, None, ""), ("f", State.DIFFERS, -2.0, "f"), ("g", State.REFUSED, None, ""),
            ("h", State.BUILT, None, "h"), ("i", State.SAME_CODE, None, "elsewhere"), ("j", State.SAME_CODE, None, ""),
        )
    )  # fmt: skip
    assert {outcome.candidate.text: outcome.log_time for outcome in one.outcomes} == {
        "a": -0.5, "b": -0.5, "c": None, "d": None, "default": 0.0, "e": None, "f": None,
    }  # fmt: skip
    assert dict(zip([outcome.candidate.text for outcome in one.outcomes], one.fast(), strict=True)) == {
        "a": True, "b": True, "c": False, "d": False, "default": False, "e": False, "f": False,
    }  # fmt: skip


def test_a_tenth_of_all_that_were_tried_is_fast() -> None:
    rows = [("default", State.BUILT, None, ""), *((f"c{i:02}", State.BUILT, -0.01 * i, "") for i in range(1, 20))]
    failed = [(f"x{i}", State.CRASHED, None, "") for i in range(10)]
    for added, fast in (([], {"c19", "c18"}), (failed, {"c19", "c18", "c17"})):
        (one,) = tried(made(*rows, *added))
        assert {outcome.candidate.text for outcome, is_fast in zip(one.outcomes, one.fast(), strict=True) if is_fast} == fast
    (two,) = tried(made(rows[0], rows[1]))
    assert two.fast() == [True, False]
    (none,) = tried(made(*failed, default="gone"))
    assert none.fast() == [False] * 10


def test_equal_workloads_share_their_records_in_any_order() -> None:
    plain = list(records(networks=2, kernels=2, candidates=5))
    shared = [*plain, *((w, info, candidate, samples, "other") for w, info, candidate, samples, network in plain if network == "net0")]
    shuffled = Random(1).sample(shared, len(shared))
    found = tried(shared)
    assert [one.networks for one in found] == [{"net0", "other"}] * 2 + [{"net1"}] * 2
    assert tried(shuffled) == found
    assert [one.outcomes for one in tried(plain)] == [one.outcomes for one in found]
    assert all(one.default is not None and one.default.strategy == "default" for one in found)
    single = [(replace(plain[0][0], content="alone"), *plain[0][1:])]
    assert tried(single) == [], "one candidate teaches nothing"
    assert math.isclose(sum(outcome.log_time or 0.0 for outcome in found[0].outcomes if outcome.candidate.strategy == "default"), 0.0)
