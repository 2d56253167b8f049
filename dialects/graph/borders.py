"""Windows over images with zeros around them: which taps of which positions reach what is inside."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from stepwell.dialects.core.sizes import static_sizes
from stepwell.dialects.core.types import TensorType

STRETCH_START = 1
"""More positions that a stretch of them costs, for loops of its own."""


@dataclass(frozen=True)
class Stretch:
    """Neighbouring positions of one dimension, from `low` up to `high`, and the taps from `first` up to `end` that reach the inside from there."""

    low: int
    high: int
    first: int
    end: int

    @property
    def positions(self) -> int:
        return self.high - self.low

    @property
    def taps(self) -> int:
        return self.end - self.first

    def seen(self, stride: int, dilation: int) -> tuple[int, int]:
        """The first place and the number of places of the image that these taps read at these positions."""
        return self.low * stride + self.first * dilation, (self.positions - 1) * stride + (self.taps - 1) * dilation + 1

    @property
    def cost(self) -> int:
        """Taps of all positions, and what a stretch costs beside."""
        return (self.positions + STRETCH_START) * self.taps


@dataclass(frozen=True)
class Border:
    """One dimension of a convolution: `inside` elements after `before` zeros, some zeros after them, and windows over these."""

    before: int
    inside: int
    positions: int
    taps: int
    stride: int
    dilation: int

    def reaching(self, low: int, high: int) -> Stretch:
        """The positions from `low` up to `high` as one stretch. If no tap reaches the inside, it has the first one, which reads a zero."""
        ranges = [self._reaching(p) for p in (low, high - 1)]
        first, end = ranges[1][0], ranges[0][1]  # both fall, or stay, from position to position
        return Stretch(low, high, first, end) if first < end else Stretch(low, high, 0, 1)

    def _reaching(self, position: int) -> tuple[int, int]:
        start = self.before - position * self.stride
        return min(max(0, -(-start // self.dilation)), self.taps), min(self.taps, max(0, (start + self.inside - 1) // self.dilation + 1))

    @property
    def whole(self) -> Stretch:
        """All positions and taps."""
        return Stretch(0, self.positions, 0, self.taps)

    @property
    def reached(self) -> float:
        """The part of all products of positions and taps that reach the inside."""
        return sum(max(0, end - first) for first, end in map(self._reaching, range(self.positions))) / (self.positions * self.taps)

    def alike(self) -> list[Stretch]:
        """The positions in stretches from all of which the same taps reach the inside."""
        return [self.reaching(low, high) for low, high in pairwise(self._ends())]

    def _ends(self) -> list[int]:
        ranges = [self._reaching(p) for p in range(self.positions)]
        return [0, *(p for p in range(1, self.positions) if ranges[p] != ranges[p - 1]), self.positions]

    @property
    def reached_from_all(self) -> bool:
        """Whether some tap reaches the inside from every position."""
        return all(first < end for first, end in map(self._reaching, range(self.positions)))

    def stretches(self) -> list[Stretch]:
        """The positions in the stretches that together cost least: those with other taps are apart, unless they are few."""
        if not self.positions:
            return []
        ends = self._ends()
        best: list[tuple[int, list[int]]] = [(0, [0])]  # for each end, the least cost of what lies before it, and where to cut that
        for i, end in enumerate(ends[1:], 1):
            best.append(min((best[k][0] + self.reaching(ends[k], end).cost, [*best[k][1], end]) for k in range(i)))
        return [self.reaching(low, high) for low, high in pairwise(best[-1][1])]


def borders(
    x: TensorType, w: TensorType, result: TensorType, *, strides: Sequence[int], dilations: Sequence[int], zeros: Sequence[int]
) -> list[Border]:
    """Each spatial dimension of such a convolution, whose sizes are numbers."""
    spatial = len(strides)
    sizes, positions = (static_sizes(t.shape[2 : 2 + spatial]) for t in (x, result))
    numbers = zip(sizes, zeros[:spatial], zeros[spatial:], positions, w.static_shape[2:], strides, dilations, strict=False)
    return [Border(before, size - before - after, n, taps, stride, step) for size, before, after, n, taps, stride, step in numbers]
