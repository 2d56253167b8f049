"""Splits a dimension into whole steps and a remainder."""

from collections.abc import Sequence
from dataclasses import dataclass

from stepwell.dialects.core.sizes import Size, known_sizes


@dataclass(frozen=True)
class Segment:
    """A stretch of one dimension walked with one step, of which each round covers `step` iterations."""

    low: int | Size
    high: int | Size
    step: int
    once: bool = False
    """Whether it is known to be one round where it is walked at all."""
    masked: bool = False
    """Whether it is shorter than a step, and walked in one vector whose last lanes are switched off, or in none if it is empty."""
    optional: bool = False
    """Whether it is one round or none, as a run decides."""

    @property
    def rounds(self) -> int | Size:
        return 1 if self.once else (self.high - self.low) // self.step


@dataclass(frozen=True)
class Rest:
    """A last stretch of a dimension, of a length known only at run time: one of `lengths`, each of which is a tile of its own, or 0."""

    low: int | Size
    high: int | Size
    lengths: Sequence[int]

    def of(self, length: int) -> Segment:
        """The stretch if it has that length."""
        return Segment(self.low, self.high, length, once=True)


Cut = list[Segment | Rest]
MOST_LENGTHS = 7
"""Lengths of a remainder that get code of their own; a longer remainder is shortened by half a step first."""


def segments(size: int | Size, step: int) -> Cut:
    """Cut 0..size into a stretch of whole steps and a shorter last one: full tiles first, then the remainder as a tile of its own.

    Of a size that is known only at run time the last one is a `Rest`, before which comes a tile of half the step if it can be long.
    """
    if not isinstance(size, int):
        return resting_segments(size, step)
    whole = size // step * step
    cut: Cut = [Segment(0, whole, step)] if whole else []
    return [*cut, Segment(whole, size, size - whole)] if whole < size else cut


def resting_segments(size: Size, step: int) -> Cut:
    """Cut 0..size into whole steps, at most one tile of half a step (and of half of that), and a rest."""
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
    """The numbers other than 0 that may be left of a size after whole steps: fewer than all below `step` where more is known of it."""
    for unit in range(step, 1, -1):
        left = size % unit if step % unit == 0 else None
        if isinstance(left, int):
            return [n for n in range(1, step) if n % unit == left]
    return list(range(1, step))


def halving_segments(size: Size, step: int) -> list[Segment]:
    """Cut 0..size into whole steps, then one of each smaller power of two, or none, as what is left asks for; of none more than once."""
    out: list[Segment] = []
    at: int | Size = 0
    while True:
        high = at + (size - at) // step * step
        if high != at:
            out.append(Segment(at, high, step, optional=len(out) > 0))
        if step == 1:
            return out
        at, step = high, 1 << ((step - 1).bit_length() - 1)


def masked_segments(size: Size, width: int, lanes: int) -> list[Segment]:
    """Cut 0..size into vectors of `width`, at most one of each half of it down to `lanes`, and one of those in which lanes are switched off."""
    out: list[Segment] = []
    at: int | Size = 0
    while True:
        high = at + (size - at) // width * width
        if high != at:
            out.append(Segment(at, high, width, optional=len(out) > 0))
        at = high
        if width <= lanes:
            return out if at == size else [*out, Segment(at, size, width, masked=True, optional=True)]
        width //= 2


def vector_segments(size: int | Size, width: int) -> list[Segment]:
    """Cut 0..size into stretches of vectors: `width` first, then halves of it for what is left, down to single elements."""
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
    """As `vector_segments`, with one vector, which begins inside the stretch before, where these would take several for what is left."""
    cut = vector_segments(size, width)
    left = size - known_sizes([cut[0].high])[0] if cut else 0
    last = 1 << (left - 1).bit_length() if left else 0  # not wider than the vectors before, of which what is left is less than one
    return cut if len(cut) <= 2 else [cut[0], Segment(size - last, size, last)]
