"""Splits a dimension into whole steps and a remainder."""

from collections.abc import Sequence
from dataclasses import dataclass

from stepwell.dialects.core.sizes import Size, static_sizes


@dataclass(frozen=True)
class Segment:
    """A segment of one dimension that is walked with one step; each round covers `step` iterations."""

    low: int | Size
    high: int | Size
    step: int
    once: bool = False
    """Whether it has at most one round."""
    masked: bool = False
    """Whether it is shorter than a step and walked in one vector whose last lanes are masked off, or in none if it is empty."""
    optional: bool = False
    """Whether it has one round or none, decided at run time."""

    @property
    def rounds(self) -> int | Size:
        return 1 if self.once else (self.high - self.low) // self.step


@dataclass(frozen=True)
class Rest:
    """The last segment of a dynamic dimension: its length is one of `lengths`, each of which has a tile of its own, or 0."""

    low: int | Size
    high: int | Size
    lengths: Sequence[int]

    def segment(self, length: int) -> Segment:
        """The segment for a remainder of that length."""
        return Segment(self.low, self.high, length, once=True)


Cut = list[Segment | Rest]
MOST_LENGTHS = 7
"""Lengths of a remainder that get code of their own; a longer remainder is shortened by half a step first."""


def segments(size: int | Size, step: int) -> Cut:
    """Cut 0..size into a segment of whole steps and a shorter last one: full tiles first, then the remainder as a tile of its own.

    For a dynamic size the last segment is a `Rest`, preceded by a tile of half the step if the remainder can be long.
    """
    if not isinstance(size, int):
        return resting_segments(size, step)
    whole = size // step * step
    cut: Cut = [Segment(0, whole, step)] if whole else []
    return [*cut, Segment(whole, size, size - whole)] if whole < size else cut


def resting_segments(size: Size, step: int) -> Cut:
    """Cut 0..size into whole steps, at most one tile of half a step (and one of a quarter), and a rest."""
    out: Cut = []
    at: int | Size = 0
    while True:
        high = at + (size - at) // step * step
        if high != at:
            out.append(Segment(at, high, step, optional=len(out) > 0))
        at, lengths = high, rests(size - at, step)
        if len(lengths) <= MOST_LENGTHS:
            return [*out, Rest(at, size, lengths)] if lengths else out
        step = -(-step // 2)


def rests(size: int | Size, step: int) -> list[int]:
    """The possible remainders of a size after whole steps, without 0: fewer than all below `step` if more is known about the size."""
    for unit in range(step, 1, -1):
        left = size % unit if step % unit == 0 else None
        if isinstance(left, int):
            return [n for n in range(1, step) if n % unit == left]
    return list(range(1, step))


def halving_segments(size: Size, step: int) -> list[Segment]:
    """Cut 0..size into whole steps, then at most one step of each smaller power of two, as the remainder requires."""
    return _in_steps(size, [step, *(1 << power for power in reversed(range((step - 1).bit_length())))])


def masked_segments(size: Size, width: int, lanes: int) -> list[Segment]:
    """Cut 0..size into vectors of `width`, at most one of each half of it down to `lanes`, and one with masked lanes."""
    widths = [width]
    while widths[-1] > lanes:
        widths.append(widths[-1] // 2)
    cut = _in_steps(size, widths)
    end = cut[-1].high if cut else 0
    return cut if end == size else [*cut, Segment(end, size, widths[-1], masked=True, optional=True)]


def _in_steps(size: Size, steps: Sequence[int]) -> list[Segment]:
    """Cut as many whole steps of the first kind off 0..size as fit, then at most one of each other kind."""
    cut: list[Segment] = []
    end: int | Size = 0
    for step in steps:
        low, end = end, end + (size - end) // step * step
        if end != low:
            cut.append(Segment(low, end, step, optional=len(cut) > 0))
    return cut


def vector_segments(size: int | Size, width: int) -> list[Segment]:
    """Cut 0..size into segments of vectors: first `width`, then halves of it for the remainder, down to single elements."""
    if not isinstance(size, int):
        return halving_segments(size, width)
    out, at = [], 0
    while at < size:
        while width > size - at:
            width //= 2
        high = at + (size - at) // width * width
        out.append(Segment(at, high, width))
        at = high
    return out


def overlapping_segments(size: int, width: int) -> list[Segment]:
    """Like `vector_segments`, with one vector that overlaps the previous segment in place of several narrower ones."""
    cut = vector_segments(size, width)
    left = size - static_sizes([cut[0].high])[0] if cut else 0
    last = 1 << (left - 1).bit_length() if left else 0  # not wider than the vectors before; the remainder is less than one of them
    return cut if len(cut) <= 2 else [cut[0], Segment(size - last, size, last)]
