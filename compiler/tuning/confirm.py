"""Confirms winners: fresh samples from fresh processes, a test for each contest, and a correction for their number."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from stepwell.analysis.estimates import Statistic
from stepwell.database.records import Decision, Phase, Samples
from stepwell.dialects.support.errors import InputError, shown
from stepwell.tuning.blocks import Blocks, Entry, read_blocks, samples_of
from stepwell.tuning.compete import BARREN, Outcome, Pace, Stage, discarded, disturbance
from stepwell.tuning.device import Contest, Device, Fault
from stepwell.tuning.statistics import block_effects, holm, processes_needed, t_test

__all__ = ["ALPHA", "CONFIRMING", "Confirmation", "confirm", "confirm_whole", "finals", "processes_for"]

ALPHA = 0.05
"""The probability that a run accepts any candidate that is not faster."""
CONFIRMING = Pace(seconds=1.0)
"""Many short processes are better than few long ones: it is processes that count."""


@dataclass(frozen=True)
class Confirmation:
    """The result of a confirmation."""

    text: str
    """The candidate that was tested."""
    default: str
    """The incumbent's text, against which it was tested."""
    ratio: Statistic
    """Its time relative to the incumbent's, with the confidence interval at 95 %."""
    p: float
    """The p-value of the hypothesis that it is not faster."""
    adjusted: float
    """The p-value after Holm's correction for the contests of the same call."""
    accepted: bool
    """Whether it is faster: the adjusted p-value is at most alpha."""
    twin: Statistic
    """The same for the twin of the incumbent, whose true ratio is 1: how well the measurement works."""
    processes: int
    """The number of processes with usable times."""
    samples: tuple[Samples, ...]
    discarded: int
    """The number of times that were thrown away, because other processes took cores during the run."""
    fault: Fault | None = None
    """The fault of the candidate or of the incumbent; then it is not accepted."""
    notes: tuple[str, ...] = ()

    @property
    def decision(self) -> Decision:
        """The decision as a record: the candidate if it is accepted, else the default with the ratio that the candidate had."""
        return Decision(self.text if self.accepted else self.default, self.default, self.ratio.value, self.ratio.low, self.ratio.high, self.p)


def finals(contests: Sequence[Contest], outcomes: Mapping[str, Outcome]) -> list[Contest]:
    """For each contest with a winner other than the incumbent, a contest of the incumbent, its twin and the winner."""
    return [
        Contest(contest.name, (*contest.arms[:2], contest.arms[outcome.best]))
        for contest in contests
        if (outcome := outcomes[contest.name]).best > 1
    ]  # fmt: skip


def processes_for(outcomes: Mapping[str, Outcome], *, least: int = 6, most: int = 20, alpha: float = ALPHA) -> int:
    """How many processes `confirm` needs to accept the winners of races with probability 90 %, between `least` and `most`.

    It depends on the races alone, so that the test stays valid: no look at the fresh samples decides how many there are.
    """
    needed = [0.0]
    winners = [outcome for outcome in outcomes.values() if outcome.best > 1]
    for outcome in winners:
        estimate = outcome.estimates[outcome.best]
        if estimate is not None:
            needed.append(processes_needed(math.log(estimate.value), outcome.deviation, alpha / len(winners)))
    return round(min(most, max(least, math.ceil(min(most, max(needed))))))


class _Trial:
    """The test of one contest while its processes are measured."""

    def __init__(self, contest: Contest) -> None:
        if len(contest.arms) != 3:
            raise InputError(f"contests: expected three arms (incumbent, twin, candidate), got {len(contest.arms)} for {shown(contest.name)}")
        self.contest = contest
        self.blocks: list[Blocks] = []
        self.gains: list[float] = []
        self.twins: list[float] = []
        self.fault: Fault | None = None

    def add(self, blocks: Blocks, threads: int) -> None:
        """Reduce the blocks of a process to one log ratio; nothing if an arm has no usable time."""
        self.blocks.append(blocks)
        incumbent, twin, candidate = block_effects(blocks.deciding(threads)).means.tolist()
        if not np.isnan(incumbent + twin + candidate):
            self.gains.append(candidate - (incumbent + twin) / 2)  # two copies of the same code: where one of them lies matters less
            self.twins.append(twin - incumbent)

    def result(self, adjusted: float, alpha: float, phase: Phase, threads: int) -> Confirmation:
        """The result, given the p-value after the correction."""
        test = t_test(self.gains)
        return Confirmation(
            text=self.contest.arms[2].text,
            default=self.contest.arms[0].text,
            ratio=test.ratio,
            p=1.0 if self.fault else test.p,
            adjusted=adjusted,
            accepted=self.fault is None and adjusted <= alpha,
            twin=t_test(self.twins).ratio,
            processes=len(self.gains),
            samples=tuple(samples_of(self.contest, self.blocks, phase, threads)),
            discarded=discarded(self.blocks, threads),
            fault=self.fault,
            notes=tuple(disturbance(self.blocks, threads)),
        )


def confirm(
    device: Device, contests: Sequence[Contest], *, processes: int, deadline: float, random: Random, threads: int = 1,
    alpha: float = ALPHA, pace: Pace = CONFIRMING, phase: Phase = Phase.CONFIRM, clock: Callable[[], float] = time.monotonic,
    on_progress: Callable[[int, int], None] = lambda done, of: None,
) -> dict[str, Confirmation]:  # fmt: skip
    """Test whether the candidates of some contests (see `finals`) are faster than their incumbents, in fresh processes.

    The mean log ratio of each process is one observation, because code lies elsewhere in each process and all blocks of a process share that. A
    one-sided t test decides; Holm's correction keeps the probability of any wrong acceptance in this call at `alpha`. A run with several calls
    has to divide `alpha` among them, or to correct the p-values of all of them together (`holm`).

    The number of processes is fixed before the first (see `processes_for`), so it does not depend on the samples. Past the `deadline` (a time of
    `clock`) the test uses the processes so far. Processes without usable times are repeated, up to twice `processes` in all. Calls `on_progress`
    with the number of measured processes and `processes`. Raises InputError unless each contest has three arms.
    """
    trials = {contest.name: _Trial(contest) for contest in contests}
    stage = Stage(device, deadline=deadline, random=random, threads=threads, pace=pace, clock=clock)
    while stage.measurements < 2 * processes and not stage.over and stage.barren < BARREN:
        open_trials = {name: trial for name, trial in trials.items() if trial.fault is None}
        if all(len(trial.gains) >= processes for trial in open_trials.values()):
            break
        _measure(stage, open_trials)
        on_progress(stage.measurements, processes)
    tests = [1.0 if trial.fault else t_test(trial.gains).p for trial in trials.values()]
    return {name: trial.result(p, alpha, phase, threads) for (name, trial), p in zip(trials.items(), holm(tests), strict=True)}


def _measure(stage: Stage, trials: Mapping[str, _Trial]) -> None:
    """Measure the contests in one more process."""
    entries = [Entry(trial.contest, (0, 1, 2)) for trial in trials.values()]
    measurement, result = stage.measure(entries)
    if isinstance(result, Fault):
        arms, failed = stage.hunt(entries)
        for (name, _), fault in [*arms.items(), *(((name, 0), fault) for name, fault in failed.items())]:
            trials[name].fault = fault
        return
    before = sum(len(trial.gains) for trial in trials.values())
    for entry in entries:
        trials[entry.contest.name].add(read_blocks(entry, measurement, result), stage.threads)
    stage.barren = 0 if sum(len(trial.gains) for trial in trials.values()) > before else stage.barren + 1


def confirm_whole(
    device: Device, contest: Contest, *, processes: int, deadline: float, random: Random, threads: int = 1, alpha: float = ALPHA,
    pace: Pace = CONFIRMING, clock: Callable[[], float] = time.monotonic,
) -> Confirmation:  # fmt: skip
    """Test whether the whole tuned network is faster than the untuned one, as `confirm` does. The arms are networks: untuned, twin, tuned."""
    return confirm(
        device, [contest], processes=processes, deadline=deadline, random=random, threads=threads, alpha=alpha, pace=pace, phase=Phase.WHOLE,
        clock=clock,
    )[contest.name]  # fmt: skip
