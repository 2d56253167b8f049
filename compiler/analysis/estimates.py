"""Estimates from repeated timings: one number, and an interval that contains it."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["ONE", "Statistic", "quartiles", "ratio_of_rounds"]


@dataclass(frozen=True)
class Statistic:
    """One number for many runs, and an interval from `low` to `high`: the middle half of the runs, or a confidence interval where that is stated."""

    value: float
    low: float
    high: float

    @staticmethod
    def from_values(values: Sequence[float]) -> "Statistic | None":
        """The median of some values and their quartiles; None if there are none."""
        return Statistic(statistics.median(values), *quartiles(values)) if values else None


ONE = Statistic(1.0, 1.0, 1.0)
"""The ratio of a time to itself."""


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """The first and the third quartile; for a single value, that value twice."""
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def ratio_of_rounds(times: Sequence[float], to: Sequence[float]) -> Statistic | None:
    """The ratio of `times` to the times `to`, measured in turns: the median of the ratio over the rounds, and its quartiles.

    None without a round of both. A machine that slows down for a while slows both sides of a round, so the ratios of rounds spread less than the
    times do, and the interval contains the value, which need not hold for the ratio of two medians.
    """
    return Statistic.from_values([a / b for a, b in zip(times, to, strict=False)])
