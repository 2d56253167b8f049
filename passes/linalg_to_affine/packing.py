"""Offsets of buffers in one block of memory, by lifetimes."""

from collections.abc import Sequence
from dataclasses import dataclass

ALIGNMENT = 64  # bytes: a cache line, and the widest vector register


@dataclass(frozen=True)
class Lifetime:
    """A buffer of `size` bytes that holds data from step `first` to step `last`, both included."""

    size: int
    first: int
    last: int


def aligned(size: int) -> int:
    """`size` bytes rounded up to whole cache lines."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def pack(buffers: Sequence[Lifetime]) -> tuple[list[int], int]:
    """An offset for each buffer such that none that live together overlap, and the total size in bytes.

    Greedy by size: the largest first, each in the smallest gap that fits between those placed that live at the same time
    (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020, algorithm 3).
    """
    offsets = [0] * len(buffers)
    placed: list[int] = []
    for index in sorted(range(len(buffers)), key=lambda i: (-buffers[i].size, buffers[i].first)):
        buffer = buffers[index]
        size = aligned(buffer.size)
        alive = sorted((i for i in placed if buffers[i].first <= buffer.last and buffer.first <= buffers[i].last), key=lambda i: offsets[i])
        best, best_gap, at = None, 0, 0
        for other in alive:
            gap = offsets[other] - at
            if gap >= size and (best is None or gap < best_gap):
                best, best_gap = at, gap
            at = max(at, offsets[other] + aligned(buffers[other].size))
        offsets[index] = at if best is None else best
        placed.append(index)
    return offsets, max((offsets[i] + aligned(b.size) for i, b in enumerate(buffers)), default=0)


def lower_bound(buffers: Sequence[Lifetime]) -> int:
    """The bytes that live at the busiest step: no layout can be smaller."""
    changes: dict[int, int] = {}
    for b in buffers:
        changes[b.first] = changes.get(b.first, 0) + aligned(b.size)
        changes[b.last + 1] = changes.get(b.last + 1, 0) - aligned(b.size)
    peak = total = 0
    for step in sorted(changes):
        total += changes[step]
        peak = max(peak, total)
    return peak
