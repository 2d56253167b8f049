"""Histograms of values that arrive in parts, whose range is not known in advance."""

import math
from dataclasses import dataclass, field

import numpy as np

BINS = 4096
"""The largest number of bins of a histogram; at least about half as many span its range."""
_LEAST_EXPONENT = -126  # of a bin's width


@dataclass
class Histogram:
    """Counts of values in bins `[i * 2^exponent, (i + 1) * 2^exponent)`, for `i` from `first` on.

    Bins widen to the next power of two when the range outgrows `BINS` of them. Since they begin at multiples of their width, two bins merge without
    interpolation, and the counts depend neither on how the values were split into parts nor on their order.
    """

    exponent: int = _LEAST_EXPONENT
    first: int = 0
    counts: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    low: float = math.inf
    high: float = -math.inf

    @property
    def width(self) -> float:
        """The width of a bin."""
        return math.ldexp(1.0, self.exponent)

    @property
    def total(self) -> int:
        """The number of counted values."""
        return int(self.counts.sum())

    @property
    def edges(self) -> np.ndarray:
        """The edges of the bins: one more than there are bins."""
        return (self.first + np.arange(len(self.counts) + 1)) * self.width

    @property
    def centres(self) -> np.ndarray:
        """The centres of the bins, within the range that was seen."""
        edges = np.clip(self.edges, self.low, self.high)
        return (edges[:-1] + edges[1:]) / 2

    def add(self, values: np.ndarray) -> None:
        """Count finite values. An array without elements changes nothing."""
        if values.size == 0:
            return
        self._include(float(values.min()), float(values.max()))
        # Exact: the width is a power of two, and f64 holds every quotient.
        bins = np.floor(values.reshape(-1).astype(np.float64) * math.ldexp(1.0, -self.exponent)).astype(np.int64)
        self.counts += np.bincount(bins - self.first, minlength=len(self.counts))

    def _include(self, low: float, high: float) -> None:
        """Extend the bins to the range from `low` to `high`."""
        self.low, self.high = min(self.low, low), max(self.high, high)
        exponent = self.exponent
        if self.low < self.high:
            exponent = max(exponent, math.frexp((self.high - self.low) / BINS)[1] - 1)
        elif self.low:
            exponent = max(exponent, math.frexp(self.low)[1] - 52)  # finer than any range of two numbers in f32
        while math.floor(math.ldexp(self.high, -exponent)) - math.floor(math.ldexp(self.low, -exponent)) >= BINS:
            exponent += 1
        self._widen(exponent)
        first, last = (math.floor(math.ldexp(bound, -exponent)) for bound in (self.low, self.high))
        if len(self.counts):
            first, last = min(first, self.first), max(last, self.first + len(self.counts) - 1)
        counts = np.zeros(last - first + 1, np.int64)
        counts[self.first - first : self.first - first + len(self.counts)] = self.counts if len(self.counts) else 0
        self.first, self.counts = first, counts

    def _widen(self, exponent: int) -> None:
        shift = min(exponent - self.exponent, 62)
        if shift > 0 and len(self.counts):
            bins = (self.first + np.arange(len(self.counts))) >> shift
            counts = np.zeros(int(bins[-1] - bins[0]) + 1, np.int64)
            np.add.at(counts, bins - bins[0], self.counts)
            self.first, self.counts = int(bins[0]), counts
        self.exponent = exponent
