"""Competitions on the simulated device: blocks, faults, disturbed runs, clocks that step back, deadlines."""

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from simulated_contests import contest, regret

from stepwell.database.records import Phase, State
from stepwell.dialects.support.errors import InputError
from stepwell.tuning.blame import find_faults, halving
from stepwell.tuning.blocks import Entry, draw_turns
from stepwell.tuning.compete import BARREN, Competition, Outcome, Pace, Stage, compete
from stepwell.tuning.device import Built, Contest, Fault, Measurement, Sample, Turns
from stepwell.tuning.race import Rules
from stepwell.tuning.simulated import SimulatedDevice, SimulatedSite

BAD = {"crash": State.CRASHED, "hang": State.TIMED_OUT}
DEVICE = SimulatedDevice({"a": SimulatedSite(0.003, log_ratios={"fast": -0.1, "near": -0.09, "slow": 0.3, "even": 0.0}, faults=BAD),
                          "b": SimulatedSite(0.002, log_ratios={"fast": -0.2}, faults=BAD)}, rest=0.003)  # fmt: skip


class Watched:
    """A device that records the measurements, and may change what comes back."""

    def __init__(self, device: SimulatedDevice, faults: Sequence[int] = (), clocks: bool = True) -> None:
        self.device, self.faults, self.clocks = device, faults, clocks
        self.seen: list[Measurement] = []

    def build(self, requests: Sequence[object], timeout: float) -> list[Built | Fault]:
        return self.device.build(requests, timeout)

    def check(self, contests: Sequence[Contest], timeout: float) -> dict[str, list[Fault | None]]:
        return self.device.check(contests, timeout)

    def measure(self, measurement: Measurement) -> Turns | Fault:
        self.seen.append(measurement)
        if len(self.seen) in self.faults:
            return Fault(State.CRASHED, "for once")
        turns = self.device.measure(measurement)
        if self.clocks or isinstance(turns, Fault):
            return turns
        return replace(turns, samples=[dict.fromkeys(samples, Sample(None, None)) for samples in turns.samples])


def race(device: SimulatedDevice | Watched, contests: Sequence[Contest], threads: int = 1, most: int = 15) -> dict[str, Outcome]:
    return compete(device, contests, deadline=math.inf, random=random.Random(1), threads=threads, pace=Pace(seconds=0.4), most=most)


def test_blocks_are_random_and_independent() -> None:
    turns = draw_turns({"a": 3, "b": 4, "c": 1}, 50, random.Random(1))
    assert turns == draw_turns({"a": 3, "b": 4, "c": 1}, 50, random.Random(1)) != draw_turns({"a": 3, "b": 4, "c": 1}, 50, random.Random(2))
    for name, size in (("a", 3), ("b", 4)):
        column = [turn[name] for turn in turns]
        blocks = [tuple(column[start : start + size]) for start in range(0, 50 - 50 % size, size)]
        assert {frozenset(block) for block in blocks} == {frozenset(range(size))}
        assert len(set(blocks)) > 4
        assert column[50 - 50 % size :] == [0] * (50 % size)
    assert {turn["c"] for turn in turns} == {0}
    pairs = [(turn["a"], turn["b"]) for turn in draw_turns({"a": 3, "b": 3}, 3000, random.Random(3))]
    assert all(pairs.count(pair) == pytest.approx(1000 / 3, rel=0.2) for pair in itertools.product(range(3), repeat=2))


def test_winners_samples_and_what_is_measured() -> None:
    device = Watched(DEVICE)
    contests = [contest(DEVICE, "a", ["slow", "fast", "near"]), contest(DEVICE, "b", ["fast"])]
    outcomes = race(device, contests)
    assert {name: (outcome.best, outcome.decided, outcome.notes) for name, outcome in outcomes.items()} == {"a": (3, True, ()), "b": (2, True, ())}
    for outcome, place, ratio in ((outcomes["a"], 3, -0.1), (outcomes["b"], 2, -0.2)):
        estimate, twin = outcome.estimates[place], outcome.estimates[1]
        assert estimate is not None
        assert twin is not None
        assert estimate.low < math.exp(ratio) < estimate.high < 1
        assert twin.low < 1 < twin.high
    samples = {(samples.text, samples.clock): samples for samples in outcomes["a"].samples}
    assert list(samples) == [(text, clock) for text in ("default", "slow", "fast", "near") for clock in ("cpu", "wall")]
    fast = samples["fast", "cpu"]
    assert (fast.against, fast.phase, fast.discarded) == ("default", Phase.SEARCH, 0)
    assert np.median(fast.log_ratios) == pytest.approx(-0.1, abs=0.02)
    assert fast.seconds == pytest.approx(0.003 * math.exp(-0.1), rel=0.05)
    # Losers are not loaded any more; a decided contest runs its incumbent; the first measurement, whose time is unknown, is short.
    assert len(samples["slow", "cpu"].log_ratios) < len(fast.log_ratios)
    assert [arm.text for arm in device.seen[-1].contests[0].arms] == ["default", "default", "fast", "near"]
    decided = [{turn["b"] for turn in seen.turns} for seen in device.seen]
    assert decided[0] == {0, 1, 2}
    assert decided[-1] == {0}
    assert len(device.seen[0].turns) == 15 < len(device.seen[1].turns) < 80


def test_an_arm_that_crashes_or_hangs_costs_itself_only() -> None:
    contests = [contest(DEVICE, "a", ["slow", "crash", "fast", "x", "y", "hang"]), contest(DEVICE, "b", ["hang", "fast"])]
    device = Watched(DEVICE)
    outcomes = race(device, contests)
    assert {name: {arm: fault.state for arm, fault in outcome.faults.items()} for name, outcome in outcomes.items()} == {
        "a": {3: State.CRASHED, 7: State.TIMED_OUT}, "b": {2: State.TIMED_OUT},
    }  # fmt: skip
    assert [outcomes[contest.name].best for contest in contests] == [4, 3]
    assert all(outcome.failed is None and outcome.decided for outcome in outcomes.values())


def test_a_contest_whose_incumbent_fails_is_given_up() -> None:
    contests = [contest(DEVICE, "a", ["fast"]), contest(DEVICE, "b", ["fast"])]
    device = replace(DEVICE, sites={**DEVICE.sites, "b": replace(DEVICE.sites["b"], faults={"default": State.CRASHED})})
    outcomes = race(device, contests)
    assert (outcomes["a"].best, outcomes["a"].failed) == (2, None)
    assert (outcomes["b"].best, outcomes["b"].failed and outcomes["b"].failed.state) == (0, State.CRASHED)
    assert outcomes["b"].samples == ()


def test_a_fault_that_does_not_come_back_costs_nothing_and_one_that_stays_ends_the_race() -> None:
    contests = [contest(DEVICE, "a", ["fast", "x", "y"])]
    outcome = race(Watched(DEVICE, faults=(1, 4)), contests)["a"]
    assert (outcome.best, outcome.faults, outcome.notes) == (2, {}, ())
    # Each fourth process fails: one measurement, then incumbents and two halves without fault.
    outcome = race(Watched(DEVICE, faults=range(1, 1000, 4)), contests, most=1000)["a"]
    assert (outcome.best, outcome.decided, outcome.faults) == (0, False, {})
    assert str(BARREN) in outcome.notes[0]


def test_clocks_that_step_back() -> None:
    contests = [contest(DEVICE, "a", ["fast", "slow"])]
    outcome = race(replace(DEVICE, steps_back=0.2), contests)["a"]
    assert (outcome.best, outcome.decided) == (2, True)
    # Only the times themselves are lost: with one in five, two of three pairs are left, of those in 25 blocks.
    pace, generator = Pace(seconds=0.8, turn=0.008), random.Random(1)
    first = compete(replace(DEVICE, steps_back=0.2), contests, deadline=math.inf, random=generator, pace=pace, most=1)["a"]
    assert all(10 <= len(samples.log_ratios) <= 22 for samples in first.samples)
    assert len(first.samples) == 6
    # Clocks that never work end the race.
    device = Watched(DEVICE, clocks=False)
    outcome = race(device, contests, most=1000)["a"]
    assert (outcome.best, len(outcome.notes), len(device.seen)) == (0, 1, BARREN)


def test_disturbed_runs_of_several_threads_are_thrown_away() -> None:
    contests = [contest(DEVICE, "a", ["fast", "slow", "even"])]
    calm, busy = race(DEVICE, contests, threads=2)["a"], race(replace(DEVICE, load=0.4), contests, threads=2)["a"]
    assert (calm.best, calm.discarded, calm.notes) == (2, 0, ())
    assert busy.best == 2
    assert busy.discarded > 0
    assert "thrown away" in busy.notes[0]
    assert {samples.clock for samples in busy.samples} == {"wall"}
    assert all(samples.discarded > 0 and len(samples.log_ratios) > 0 for samples in busy.samples)
    estimate = busy.estimates[2]
    assert estimate is not None
    assert estimate.low < math.exp(-0.1) < estimate.high
    # With one thread CPU time decides, which counts in disturbed runs too.
    alone = race(replace(DEVICE, load=1.0), contests)["a"]
    assert (alone.best, alone.decided, alone.discarded, alone.notes) == (2, True, 0, ())
    assert {samples.clock for samples in alone.samples} == {"cpu"}


def test_a_twin_that_differs_is_said_so() -> None:
    honest = contest(DEVICE, "a", ["fast", "slow"])
    planted = Contest("a", (honest.arms[0], replace(honest.arms[1], built=honest.arms[3].built), *honest.arms[2:]))
    assert race(DEVICE, [honest])["a"].notes == ()
    assert "Two copies" in race(DEVICE, [planted])["a"].notes[0]


def test_measurements_are_neither_too_long_nor_too_short() -> None:
    entry = Entry(contest(DEVICE, "a", ["fast", "slow"]), (0, 1, 2, 3))
    now = 0.0
    for turn, count, timeout in ((0.0, 12, 60.0), (0.01, 150, 37.5), (1e-6, 400, 30.002), (10.0, 12, 105.0)):
        device = Watched(DEVICE)
        stage = Stage(device, deadline=100, random=random.Random(1), threads=1, pace=Pace(turn=turn), clock=lambda: now)
        stage.measure([entry])
        assert len(device.seen[0].turns) == count
        assert device.seen[0].timeout == pytest.approx(timeout)
        assert stage.turn_seconds == pytest.approx(0.0064, rel=0.1)
    # A device that does not say how long runs took: the times of the contests, without the rest of the network.
    turns = DEVICE.measure(device.seen[0])
    assert isinstance(turns, Turns)
    device.measure = lambda _: replace(turns, seconds=0.0)
    stage.measure([entry])
    assert stage.turn_seconds == pytest.approx(0.0034, rel=0.1)


def test_the_deadline_ends_a_race_and_an_interrupt_loses_no_sample() -> None:
    contests = [contest(DEVICE, "a", ["near", "fast", "x"])]
    seconds = itertools.count(0.0, 1.0)
    progress: list[int] = []
    outcome = compete(
        DEVICE, contests, deadline=5, random=random.Random(1), pace=Pace(seconds=0.4), rules=Rules(useful=1e-6, tie=1e-6),
        clock=lambda: next(seconds), on_progress=lambda competition: progress.append(competition.races["a"].processes),
    )["a"]  # fmt: skip
    assert (outcome.best, outcome.decided) == (3, False)
    assert progress == [1, 2, 3]  # each process looks at the clock twice, for the deadline and for its time-out
    competition = Competition(contests, Rules(), 1)
    stage = Stage(DEVICE, deadline=math.inf, random=random.Random(1), threads=1, pace=Pace(), clock=lambda: 0.0)

    def interrupt(_: Competition) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        competition.run(stage, interrupt, None)
    assert competition.outcomes()["a"].best == 3
    assert len(competition.outcomes()["a"].samples) == 8
    with pytest.raises(InputError, match="different names"):
        race(DEVICE, contests * 2)


def test_halving_finds_few_among_many_with_few_tests() -> None:
    generator = random.Random(1)
    for guilty in range(4):
        wrong, tests = set(generator.sample(range(64), guilty)), []

        def fault_of(group: Sequence[int], wrong: set[int] = wrong, tests: list[int] = tests) -> Fault | None:
            tests.append(len(group))
            return Fault(State.CRASHED, "") if wrong & set(group) else None

        assert set(halving(range(64), fault_of, lambda: False)) == wrong
        assert len(tests) <= 2 * max(1, guilty * 6)
    assert halving(range(64), fault_of, lambda: True) == {}
    # The hunt leaves out what is not in the race.
    entry = Entry(contest(DEVICE, "a", ["crash", "hang", "x"]), (0, 1, 3, 4))
    blame = find_faults(DEVICE, [entry], generator, 1, 60, lambda: False)
    assert {arm: fault.state for arm, fault in blame.arms.items()} == {("a", 3): State.TIMED_OUT}


def test_decisions_do_not_depend_on_the_process_that_measures() -> None:
    """Nor on the order of other requests: each answer is a function of the request."""
    contests = [contest(DEVICE, "a", ["fast", "x", "crash"]), contest(DEVICE, "b", ["fast", "y"])]
    undisturbed = race(DEVICE, contests)
    device = Watched(DEVICE)
    assert race(device, contests) == undisturbed
    for measurement in reversed(device.seen):
        device.measure(measurement)
    assert race(device, contests) == undisturbed
    assert all(regret(DEVICE, contest, undisturbed[contest.name].best) <= 0.005 for contest in contests)
