"""Randomised blocks: draws which arm runs in which run of the network, and reads the times of the blocks out of a measurement."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from stepwell.database.records import Phase, Samples
from stepwell.tuning.device import Contest, Measurement, Turn, Turns
from stepwell.tuning.statistics import FloatArray

__all__ = ["Blocks", "Entry", "draw_turns", "measurement_of", "read_blocks", "samples_of"]


@dataclass(frozen=True)
class Entry:
    """A contest in a measurement, with the arms that take part."""

    contest: Contest
    arms: tuple[int, ...]
    """Their indices in the contest, the incumbent first. Other arms are not loaded."""
    idle: bool = False
    """Whether the incumbent alone runs, because the contest is decided."""


def draw_turns(sizes: Mapping[str, int], count: int, random: Random) -> tuple[Turn, ...]:
    """`count` runs of the network. `sizes` has the number of arms of each contest; with one arm, it runs in all of them.

    Each contest has blocks of its own: as many consecutive runs as it has arms, one for each, in a random order that does not depend on other
    contests. In the last runs, too few for a block, its first arm runs.
    """
    columns: dict[str, list[int]] = {}
    for name, size in sizes.items():
        orders = np.random.default_rng(random.getrandbits(64)).permuted(np.tile(np.arange(size), (count // size, 1)), axis=1)
        columns[name] = [*orders.ravel().tolist(), *[0] * (count % size)]
    return tuple(dict(zip(columns, turn, strict=True)) for turn in zip(*columns.values(), strict=True))


def measurement_of(entries: Sequence[Entry], count: int, random: Random, threads: int, timeout: float) -> Measurement:
    """A measurement of `count` runs in blocks; `timeout` in seconds."""
    turns = draw_turns({entry.contest.name: 1 if entry.idle else len(entry.arms) for entry in entries}, count, random)
    contests = tuple(Contest(entry.contest.name, tuple(entry.contest.arms[arm] for arm in entry.arms)) for entry in entries)
    return Measurement(contests, turns, threads, timeout=timeout)


@dataclass(frozen=True)
class Blocks:
    """The times of a contest in one process: natural logarithms of seconds, a row for each block and a column for each arm of the contest.

    NaN: the arm did not take part, or a clock stepped back.
    """

    cpu: FloatArray
    """CPU time of the thread; all NaN if several threads ran."""
    wall: FloatArray
    disturbed: NDArray[np.bool_]
    """For each block and arm, whether other processes took cores away during that run."""

    @property
    def undisturbed(self) -> FloatArray:
        """The wall times, NaN where the run was disturbed. The block keeps its other times: a long block is hardly ever undisturbed as a whole."""
        return np.where(self.disturbed, np.nan, self.wall)

    def deciding(self, threads: int) -> FloatArray:
        """The times that decide: CPU time for one thread, which other processes hardly change, else the wall time of undisturbed runs."""
        return self.cpu if threads == 1 else self.undisturbed


def read_blocks(entry: Entry, measurement: Measurement, turns: Turns) -> Blocks:
    """The blocks of a contest out of a measurement that `measurement_of` made."""
    name, size = entry.contest.name, len(entry.arms)
    count = min(len(turns.samples), len(measurement.turns)) // size
    order = np.array([turn[name] for turn in measurement.turns[: count * size]], dtype=np.intp).reshape(count, size)
    samples = [samples[name] for samples in turns.samples[: count * size]]
    rows, columns = np.arange(count)[:, None], np.array(entry.arms, dtype=np.intp)[order]
    cpu = np.full((count, len(entry.contest.arms)), np.nan)
    wall = cpu.copy()
    cpu[rows, columns] = _logarithms(sample.cpu for sample in samples).reshape(count, size)
    wall[rows, columns] = _logarithms(sample.wall for sample in samples).reshape(count, size)
    disturbed = np.zeros(cpu.shape, dtype=np.bool_)
    disturbed[rows, columns] = np.array(turns.disturbed[: count * size], dtype=np.bool_).reshape(count, size)
    return Blocks(cpu, wall, disturbed)


def _logarithms(seconds: Iterable[float | None]) -> FloatArray:
    """Natural logarithms; NaN for None and for times that no clock resolves, zero or less."""
    values = np.array([np.nan if value is None or value <= 0 else value for value in seconds], dtype=np.float64)
    return np.log(values)


def samples_of(contest: Contest, blocks: Sequence[Blocks], phase: Phase, threads: int) -> list[Samples]:
    """The samples of each arm but the incumbent, as records, relative to the incumbent: by CPU time and wall for one thread, else by wall alone."""
    if not blocks:
        return []
    undisturbed = np.concatenate([block.undisturbed for block in blocks])
    disturbed = np.concatenate([block.disturbed for block in blocks])
    found = []
    for arm in range(1, len(contest.arms)):
        if threads == 1:
            found.append(_samples(contest, arm, np.concatenate([block.cpu for block in blocks]), phase, "cpu", 0))
        found.append(_samples(contest, arm, undisturbed, phase, "wall", int((disturbed[:, arm] | disturbed[:, 0]).sum())))
    return [samples for samples in found if samples.log_ratios]


def _samples(contest: Contest, arm: int, log_times: FloatArray, phase: Phase, clock: str, discarded: int) -> Samples:
    """The samples of one arm by one clock."""
    ratios = log_times[:, arm] - log_times[:, 0]
    ratios = ratios[~np.isnan(ratios)]
    times = log_times[:, arm][~np.isnan(log_times[:, arm])]
    seconds = float(np.exp(np.median(times))) if len(times) else 0.0
    return Samples(contest.arms[arm].text, contest.arms[0].text, phase, tuple(ratios.tolist()), seconds, clock, discarded)

