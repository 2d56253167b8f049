"""Lets the arms of several contests compete: all contests are measured in the same runs of the network, process after process."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from stepwell.analysis.estimates import Statistic
from stepwell.database.records import Phase, Samples
from stepwell.dialects.support.errors import InputError, shown
from stepwell.tuning.blame import find_faults
from stepwell.tuning.blocks import Blocks, Entry, measurement_of, read_blocks, samples_of
from stepwell.tuning.device import Contest, Device, Fault, Measurement, Turns
from stepwell.tuning.race import Race, Rules

__all__ = ["Competition", "Outcome", "Pace", "Stage", "compete", "disturbance"]

BARREN = 5
"""Measurements in a row without a usable block or with a fault that does not come back, after which a stage gives up."""
LEAST_BLOCKS, MOST_BLOCKS = 3, 100
"""Bounds of the number of blocks of the largest contest in a process. Two blocks cannot tell which one has an outlier; after a hundred, the place
of the code matters more than the noise of the samples, and only another process helps."""
GRACE = 5.0
"""Seconds that a process may go on after the deadline before it is stopped."""


@dataclass(frozen=True)
class Pace:
    """How long measurements are."""

    seconds: float = 1.5
    """The seconds that the runs of one process take together, unless a few blocks take longer."""
    start: float = 30.0
    """The seconds within which a process must have loaded the network and its arms."""
    turn: float = 0.0
    """The seconds of one run of the network; 0 if unknown. The first measurement is then short."""
    slack: float = 5.0
    """How many times longer than expected runs may take before the process counts as hanging."""


@dataclass(frozen=True)
class Outcome:
    """How a contest ended."""

    best: int
    """The index of the fastest arm; 0 if no candidate is faster than the incumbent."""
    decided: bool
    """Whether the race ended by its rules, not by the deadline."""
    estimates: tuple[Statistic | None, ...]
    """For each arm, its time relative to the incumbent's, and an interval at 95 % that holds at all times; None for an arm without times.

    The second one, of the twin, contains 1 unless the noise is underestimated.
    """
    faults: Mapping[int, Fault]
    """The faults of arms, by their index."""
    samples: tuple[Samples, ...]
    """All blocks, to be stored: for each arm but the incumbent by each clock."""
    deviation: float
    """The standard deviation of the log ratio of two arms in a process."""
    discarded: int
    """The number of times that were thrown away, because other processes took cores during the run."""
    failed: Fault | None = None
    """The fault of the incumbent itself, for which the contest was given up."""
    notes: tuple[str, ...] = ()
    """Sentences for the user."""


class Stage:
    """Measures contests, one process after the other: chooses lengths and time-outs, and hunts for the arms that make a process fail."""

    def __init__(self, device: Device, *, deadline: float, random: Random, threads: int, pace: Pace, clock: Callable[[], float]) -> None:
        self.device, self.deadline, self.random, self.threads, self.pace, self.clock = device, deadline, random, threads, pace, clock
        self.turn_seconds = pace.turn
        self.measurements = 0
        """The number of processes that were measured, without those that hunted for faults."""
        self.barren = 0
        """The number of measurements in a row that brought nothing."""

    @property
    def over(self) -> bool:
        """Whether the deadline has passed."""
        return self.clock() >= self.deadline

    def measure(self, entries: Sequence[Entry]) -> tuple[Measurement, Turns | Fault]:
        """Measure blocks of these contests in a fresh process."""
        largest = max(1 if entry.idle else len(entry.arms) for entry in entries)
        count = LEAST_BLOCKS * largest
        if self.turn_seconds:
            count = max(count, min(MOST_BLOCKS * largest, int(self.pace.seconds / self.turn_seconds)))
        measurement = measurement_of(entries, count, self.random, self.threads, self._timeout(count))
        result = self.device.measure(measurement)
        self.measurements += 1
        if isinstance(result, Turns):
            self.turn_seconds = _seconds(result) / max(1, len(result.samples)) or self.turn_seconds
        return measurement, result

    def hunt(self, entries: Sequence[Entry]) -> tuple[dict[tuple[str, int], Fault], dict[str, Fault]]:
        """After a fault: the faults of arms, and of contests whose incumbent fails. Counts as barren if there are none."""
        timeout = self._timeout(max(len(entry.arms) for entry in entries))
        blame = find_faults(self.device, entries, self.random, self.threads, timeout, lambda: self.over)
        self.barren = 0 if blame else self.barren + 1
        return blame.arms, blame.contests

    def _timeout(self, count: int) -> float:
        """Seconds for a process with `count` runs: generous if the time of a run is unknown, but not far past the deadline."""
        runs = self.pace.slack * count * self.turn_seconds if self.turn_seconds else self.pace.start
        return min(self.pace.start + runs, max(0.0, self.deadline - self.clock()) + GRACE)


def _seconds(turns: Turns) -> float:
    """How long the runs of a measurement took together; at least the times of the contests, if the device does not say."""
    return turns.seconds or sum(sample.wall or 0.0 for samples in turns.samples for sample in samples.values())


class Competition:
    """Races of several contests. `run` measures until all are decided; what `outcomes` returns is valid at any time, also after an interrupt."""

    def __init__(self, contests: Sequence[Contest], rules: Rules, threads: int) -> None:
        names = [contest.name for contest in contests]
        if len(set(names)) < len(names):
            raise InputError(f"contests: expected different names, got {shown(names)}")
        self.contests = {contest.name: contest for contest in contests}
        self.races = {contest.name: Race(len(contest.arms), rules) for contest in contests}
        self.threads = threads
        self.failed: dict[str, Fault] = {}
        self.faults: dict[str, dict[int, Fault]] = {name: {} for name in names}
        self.blocks: dict[str, list[Blocks]] = {name: [] for name in names}
        self.notes: list[str] = []

    @property
    def undecided(self) -> tuple[str, ...]:
        """The contests whose races go on."""
        return tuple(name for name, race in self.races.items() if not race.decided and name not in self.failed)

    def entries(self) -> list[Entry]:
        """The contests that are not given up, with their live arms; decided ones run their incumbent."""
        alive = [contest for name, contest in self.contests.items() if name not in self.failed]
        return [Entry(contest, (0, 1), True) if (race := self.races[contest.name]).decided else Entry(contest, race.live) for contest in alive]

    def step(self, stage: Stage) -> None:
        """Measure all contests in one more process, and let the races drop losers."""
        entries = self.entries()
        measurement, result = stage.measure(entries)
        if isinstance(result, Fault):
            arms, contests = stage.hunt(entries)
            for (name, arm), fault in arms.items():
                self.faults[name][arm] = fault
                self.races[name].drop(arm)
            self.failed.update(contests)
            return
        before = sum(race.processes for race in self.races.values())
        for entry in entries:
            if not entry.idle:
                name = entry.contest.name
                self.blocks[name].append(read_blocks(entry, measurement, result))
                self.races[name].add(self.blocks[name][-1].deciding(self.threads))
        stage.barren = 0 if sum(race.processes for race in self.races.values()) > before else stage.barren + 1

    def run(self, stage: Stage, on_progress: Callable[["Competition"], None], most: int | None) -> None:
        """Measure until all contests are decided, at most `most` processes, or until the deadline. Calls `on_progress` after each process."""
        while self.undecided and not stage.over and (most is None or stage.measurements < most):
            self.step(stage)
            on_progress(self)
            if stage.barren >= BARREN:
                self.notes.append(f"The race was given up, because {BARREN} measurements in a row failed or had no usable time.")
                break

    def outcomes(self) -> dict[str, Outcome]:
        """The outcome of each contest as of now."""
        return {name: self._outcome(name) for name in self.contests}

    def _outcome(self, name: str) -> Outcome:
        race, blocks, failed = self.races[name], self.blocks[name], self.failed.get(name)
        rows = [len(block.wall) for block in blocks]
        return Outcome(
            best=0 if failed else race.best(),
            decided=race.decided,
            estimates=race.estimates(),
            faults=self.faults[name],
            samples=tuple(samples_of(self.contests[name], blocks, Phase.SEARCH, self.threads)),
            deviation=race.deviation(max(1.0, sum(rows) / max(1, len(rows)))),
            discarded=discarded(blocks, self.threads),
            failed=failed,
            notes=(*self.notes, *disturbance(blocks, self.threads), *self._twin_differs(name)),
        )

    def _twin_differs(self, name: str) -> list[str]:
        """A sentence if the twin is not as fast as the incumbent."""
        twin = self.races[name].estimates()[1]
        if twin is None or twin.low <= 1 <= twin.high:
            return []
        return [f"Two copies of the same code differ: the ratio of their times is {twin.low:.3f} to {twin.high:.3f}. Trust no gain of that size."]


def discarded(blocks: Sequence[Blocks], threads: int) -> int:
    """The number of times that decide nothing because their runs were disturbed: with one thread none, as CPU time decides."""
    return 0 if threads == 1 else sum(int(block.disturbed.sum()) for block in blocks)


def disturbance(blocks: Sequence[Blocks], threads: int) -> list[str]:
    """A sentence if more than a third of the times were thrown away."""
    total = sum(int((~np.isnan(block.wall)).sum()) for block in blocks)
    lost = discarded(blocks, threads)
    if 3 * lost <= total:
        return []
    return [f"Other processes took cores away: {lost} of {total} times were thrown away. Tune on an idle machine, or with fewer threads."]


def ignore(_: Competition) -> None:
    """The default of `on_progress`."""


def compete(
    device: Device, contests: Sequence[Contest], *, deadline: float, random: Random, threads: int = 1, rules: Rules | None = None,
    pace: Pace | None = None, most: int | None = None, on_progress: Callable[[Competition], None] = ignore,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Outcome]:  # fmt: skip
    """Race the arms of all contests against each other until each contest is decided.

    Every run of the network is a sample for all contests at once, each with randomised blocks of its own. `deadline` is a time of `clock` in
    seconds; a measurement that has begun is finished. `most` bounds the number of processes, for results that do not depend on how fast the machine
    is. A process that crashes or hangs costs the guilty arm only: it is found by halving. To keep the samples of an interrupted race, make a
    `Competition` and a `Stage`, and call `run`. Raises InputError for contests of equal names or without a twin.
    """
    competition = Competition(contests, rules or Rules(), threads)
    stage = Stage(device, deadline=deadline, random=random, threads=threads, pace=pace or Pace(), clock=clock)
    competition.run(stage, on_progress, most)
    return competition.outcomes()
