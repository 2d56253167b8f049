"""Time a kernel with a schedule and with the chosen one, in turns, so that both see the same state of the machine."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress

from stepwell.analysis.estimates import ONE, Statistic, ratio_of_rounds
from stepwell.analysis.replay import Replay

__all__ = ["SAME", "Timing", "alone", "in_place", "take_turns"]

RUNS = 3
"""Timed runs in one turn, after one run that warms up the caches."""


@dataclass(frozen=True)
class Timing:
    """Seconds with a schedule and with the chosen one, measured in turns: for each round, the median of a turn's runs."""

    seconds: tuple[float, ...]
    chosen: tuple[float, ...]
    same_code: bool
    """Whether both are the same machine code. Then there is nothing to compare: the ratio is 1.

    Nothing is timed then, unless the chosen schedule itself was requested.
    """

    @property
    def time(self) -> Statistic | None:
        """The median of the rounds, and their quartiles; None if nothing was timed."""
        return Statistic.from_values(self.seconds)

    @property
    def ratio(self) -> Statistic:
        """The time relative to that with the chosen schedule, below 1 if it is faster: the median of the rounds' ratios, and their quartiles."""
        found = None if self.same_code else ratio_of_rounds(self.seconds, self.chosen)
        return ONE if found is None else found

    def __str__(self) -> str:
        time = "not timed" if self.time is None else f"{self.time.value * 1e6:.4g} us"
        if self.same_code:
            return f"{time}, the same code as with the chosen schedule"
        return f"{time}, {self.ratio.value:.3f} ({self.ratio.low:.3f} to {self.ratio.high:.3f}) of the time with the chosen schedule"


SAME = Timing((), (), same_code=True)
"""The timing of a schedule with the same code as the chosen one."""

Turn = Callable[[], Sequence[tuple[float, ...]]]
"""Runs a program a few times, and returns the seconds of each timed run: one number for each timed item."""


def take_turns(ours: Turn, chosen: Turn | None, rounds: int) -> list[Timing]:
    """Time two programs in `rounds` turns each, alternating which begins; returns a `Timing` for each item that a turn times.

    Without `chosen`, `ours` is the chosen one itself.
    """
    turns = [ours] if chosen is None else [ours, chosen]
    samples: list[list[tuple[float, ...]]] = [[] for _ in turns]
    for number in range(max(1, rounds)):
        for which in range(len(turns)) if number % 2 else reversed(range(len(turns))):
            runs = turns[which]()
            samples[which].append(tuple(statistics.median(times) for times in zip(*runs, strict=True)))
    sides = [list(zip(*side, strict=True)) for side in samples]
    return [Timing(times, before, same_code=chosen is None) for times, before in zip(sides[0], sides[-1], strict=True)]


def alone(replay: Replay) -> Turn:
    """Turns of the first launch, run repeatedly, with its inputs in the caches."""
    return lambda: [(seconds,) for seconds in replay.alone(0, RUNS)]


def in_place(replay: Replay, kernel: str) -> Turn:
    """Turns of the whole model; for each run, the seconds of all launches of a kernel, and of all launches of all kernels."""

    def turn() -> list[tuple[float, ...]]:
        samples, _ = replay.times(RUNS + 1)
        rounds = list(zip(*samples, strict=True))[1:]  # the first warms up
        is_own = [launch.kernel == kernel for launch in replay.launches]
        return [(sum(compress(times, is_own)), sum(times)) for times in rounds]

    return turn
