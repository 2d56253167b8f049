"""Splits a dimension into whole steps and a remainder."""

from dataclasses import dataclass

from stepwell.dialects.core.sizes import Size, known_sizes


@dataclass(frozen=True)
class Segment:
    """A stretch of one dimension walked with one step, of which each round covers `step` iterations."""

    low: int | Size
    high: int | Size
    step: int

    @property
    def rounds(self) -> int | Size:
        return (self.high - self.low) // self.step


def segments(size: int | Size, step: int) -> list[Segment]:
    """Cut 0..size into a stretch of whole steps and a shorter last one: full tiles first, then the remainder as a tile of its own.

    Of a size that is known only at run time, what is left over is cut into halves of the step, as vectors are.
    """
    if not isinstance(size, int):
        return halving_segments(size, step)
    whole = size // step * step
    cut = [Segment(0, whole, step)] if whole else []
    return [*cut, Segment(whole, size, size - whole)] if whole < size else cut


def halving_segments(size: Size, step: int) -> list[Segment]:
    """Cut 0..size into whole steps, then one of each smaller power of two, or none, as what is left asks for; of none more than once."""
    out: list[Segment] = []
    at: int | Size = 0
    while True:
        high = at + (size - at) // step * step
        if high != at:
            out.append(Segment(at, high, step))
        if step == 1:
            return out
        at, step = high, 1 << ((step - 1).bit_length() - 1)


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
