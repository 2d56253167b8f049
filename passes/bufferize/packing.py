"""Offsets of buffers in one block of memory, by lifetimes."""

import random
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import factorial

from stepwell.dialects.core.layout import Slot, aligned
from stepwell.dialects.core.sizes import Size

FEW = 6
"""The most buffers for which all orders (720) are tried: that takes fewer steps than the limit."""
SEARCH_EFFORT = 400_000
"""Steps of the search for a layout: about 0.1 s, and the same layout on every machine."""


@dataclass(frozen=True)
class Lifetime:
    """A buffer of `size` bytes that holds data from launch `first` to launch `last`, both included. In a kernel, ops stand for launches."""

    size: int
    first: int
    last: int
    pieces: tuple["Piece", ...] = ()
    """Its pieces in order, if it is written piece by piece like the result of a concatenation. Other buffers may use a piece before it is written."""

    @property
    def stretches(self) -> tuple["Piece", ...]:
        """Its pieces, or the whole buffer as one."""
        return self.pieces or (Piece(0, aligned(self.size), self.first),)


@dataclass(frozen=True)
class Piece:
    """`size` bytes at `offset` in a buffer that hold data from launch `first` on."""

    offset: int
    size: int
    first: int


def pack(buffers: Sequence[Lifetime]) -> tuple[list[int], int]:
    """An offset for each buffer such that buffers with overlapping lifetimes do not overlap, and the total size, in bytes.

    This is dynamic storage allocation with known lifetimes, which is NP-hard (Garey and Johnson, problem SR2). Buffers are placed one
    by one, each in the smallest gap that fits between placed buffers with overlapping lifetimes, so the order decides. We try
    greedy by size and by breadth (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020) and both
    directions of time; if the best of these is above the lower bound, a local search over orders continues from it. If so many buffers
    are live together that a single order would take longer than that search, they are placed in order of time.
    """
    if _meetings(buffers) > SEARCH_EFFORT:
        return _pack_in_time(buffers)
    placer, load = _Placer(buffers), loads(buffers)
    bound = max(load.values(), default=0)
    first, *others = _orders(buffers, load)
    best = placer.place(first)
    for order in others:
        if best.total > bound:
            best = min(best, placer.place(order), key=lambda layout: layout.total)
    best = _search(placer, best, bound)
    return best.offsets, best.total


def slots(sizes: Sequence[int | Size], buffers: Sequence[Lifetime], offsets: Sequence[int]) -> list[Slot]:
    """A layout that stacks buffers in the order of these offsets, whatever their sizes: each above those that it meets and that lie lower.

    A slot need not list a buffer that is below another one in its list, if those two meet.
    """
    below: list[set[int]] = []
    for i, own in enumerate(buffers):
        # Empty buffers may share an offset with others: the first of two at one offset is the lower one.
        lower = [j for j, b in enumerate(buffers) if (offsets[j], j) < (offsets[i], i) and b.first <= own.last and own.first <= b.last]
        below.append(set(lower))
    found = []
    for i, lower_set in enumerate(below):
        implied = {k for j in lower_set for k in below[j] if k in lower_set}
        found.append(Slot(sizes[i], tuple(sorted(lower_set - implied))))
    return found


def _meetings(buffers: Sequence[Lifetime]) -> int:
    """The number of pairs of buffers with overlapping lifetimes."""
    begins, ends = sorted(b.first for b in buffers), sorted(b.last for b in buffers)
    # The i-th buffer to begin meets those before it, except those that have ended by then.
    return sum(i - bisect_left(ends, first) for i, first in enumerate(begins))


def _pack_in_time(buffers: Sequence[Lifetime]) -> tuple[list[int], int]:
    """Like `pack`, in order of time: each in the smallest gap that fits between live buffers, otherwise above them. Ignores pieces.

    Best fit, as in allocators (Knuth, "The Art of Computer Programming", volume 1, section 2.5).
    """
    offsets, total = [0] * len(buffers), 0
    gaps: list[tuple[int, int]] = []  # begin and end, in order; everything above the last one is free
    end = 0
    alive: list[tuple[int, int]] = []  # last launch and index
    for index in sorted(range(len(buffers)), key=lambda i: (buffers[i].first, -buffers[i].size)):
        size = aligned(buffers[index].size)
        while alive and alive[0][0] < buffers[index].first:
            _, dead = heappop(alive)
            end = _free(gaps, offsets[dead], offsets[dead] + aligned(buffers[dead].size), end)
        fitting = [(high - low, k) for k, (low, high) in enumerate(gaps) if high - low >= size]
        if fitting:
            _, k = min(fitting)
            offsets[index], high = gaps[k]
            gaps[k : k + 1] = [(offsets[index] + size, high)] if offsets[index] + size < high else []
        else:
            offsets[index] = end
            end += size
        total = max(total, end)
        heappush(alive, (buffers[index].last, index))
    return offsets, total


def _free(gaps: list[tuple[int, int]], low: int, high: int, end: int) -> int:
    """Add a gap, merged with its neighbours; returns the offset above which everything is free."""
    if low == high:
        return end
    k = bisect_left(gaps, (low, high))
    if k < len(gaps) and gaps[k][0] == high:
        high = gaps.pop(k)[1]
    if k > 0 and gaps[k - 1][1] == low:
        k -= 1
        low = gaps.pop(k)[0]
    if high == end:
        return low
    gaps.insert(k, (low, high))
    return end


def _orders(buffers: Sequence[Lifetime], load: dict[int, int]) -> list[list[int]]:
    """The orders by size, by the live bytes at the busiest launch of a buffer's lifetime, by its first launch, by its last launch."""
    launches, amounts = list(load), list(load.values())
    breadth = [max(amounts[bisect_left(launches, b.first) : bisect_right(launches, b.last)]) for b in buffers]
    keys = [
        [(-b.size, b.first) for b in buffers],
        [(-width, -b.size) for b, width in zip(buffers, breadth, strict=True)],
        [(b.first, -b.size) for b in buffers],
        [(-b.last, -b.size) for b in buffers],
    ]
    return [sorted(range(len(buffers)), key=key.__getitem__) for key in keys]


def lower_bound(buffers: Sequence[Lifetime]) -> int:
    """The live bytes at the busiest launch: no placement can be smaller."""
    return max(loads(buffers).values(), default=0)


def loads(buffers: Sequence[Lifetime]) -> dict[int, int]:
    """The live bytes at each launch where a buffer or a piece begins; they do not grow until the next such launch."""
    changes: dict[int, int] = {}
    for b in buffers:
        for piece in b.stretches:
            changes[piece.first] = changes.get(piece.first, 0) + piece.size
            changes[b.last + 1] = changes.get(b.last + 1, 0) - piece.size
    total, found = 0, {}
    for launch in sorted(changes):
        total += changes[launch]
        found[launch] = total
    return found


@dataclass(frozen=True)
class _Layout:
    """The offsets of buffers that are placed in some order."""

    order: list[int]
    offsets: list[int]
    total: int


class _Placer:
    """Places the buffers in any order, given their conflicts."""

    def __init__(self, buffers: Sequence[Lifetime]) -> None:
        self.sizes = [aligned(b.size) for b in buffers]
        # For each buffer the others that it meets, and the open interval, relative to the other's offset, in which it must not begin.
        self.neighbours: list[list[tuple[int, int, int]]] = [[] for _ in buffers]
        alive: list[int] = []
        for i in sorted(range(len(buffers)), key=lambda index: buffers[index].first):
            alive = [j for j in alive if buffers[j].last >= buffers[i].first]
            for j in alive:
                for low, high in _conflicts(buffers[i], buffers[j]):
                    self.neighbours[i].append((j, low, high))
                    self.neighbours[j].append((i, -high, -low))
            alive.append(i)
        self.effort = len(buffers) + sum(map(len, self.neighbours))

    def place(self, order: list[int]) -> _Layout:
        """Place each in the smallest gap that fits between its placed neighbours, or above them."""
        sizes, offsets, total = self.sizes, [-1] * len(order), 0
        for index in order:
            best, least, at = -1, 0, 0
            for low, high in sorted((offsets[o] + low, offsets[o] + high) for o, low, high in self.neighbours[index] if offsets[o] >= 0):
                room = low - at
                if room >= 0 and (best < 0 or room < least):
                    best, least = at, room
                at = max(at, aligned(high))
            offsets[index] = best if best >= 0 else at
            total = max(total, offsets[index] + sizes[index])
        return _Layout(order, offsets, total)

    def topmost(self, layout: _Layout) -> list[int]:
        """The buffers that end at the end of the layout."""
        return [i for i, size in enumerate(self.sizes) if layout.offsets[i] + size == layout.total]


def _conflicts(a: Lifetime, b: Lifetime) -> list[tuple[int, int]]:
    """The open intervals, relative to the offset of `b`, in which `a` must not begin: some bytes of both would hold data at once."""
    found = sorted(
        (q.offset - p.offset - p.size, q.offset + q.size - p.offset)
        for p in a.stretches
        for q in b.stretches
        if p.first <= b.last and q.first <= a.last
    )
    merged = found[:1]
    for low, high in found[1:]:
        if low < merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], high)
        else:
            merged.append((low, high))
    return merged


def _search(placer: _Placer, start: _Layout, bound: int) -> _Layout:
    """The best layout found by small changes of the order; a change is kept unless it is worse.

    Most changes place a topmost buffer earlier; the others move any buffer. The sequence of changes is deterministic. It ends at the
    bound, when the effort is spent, or when all orders of few buffers were tried.
    """
    chance, layout, tried = random.Random(0), start, {tuple(start.order)}
    few = len(start.order) <= FEW
    for _ in range(SEARCH_EFFORT // max(1, placer.effort)):
        if layout.total == bound or (few and len(tried) == factorial(len(start.order))):
            break
        order = list(layout.order)
        if chance.random() < 0.7:
            moved = order.index(chance.choice(placer.topmost(layout)))
            place = chance.randrange(moved + 1)
        else:
            moved, place = chance.randrange(len(order)), chance.randrange(len(order))
        order.insert(place, order.pop(moved))
        if few:
            tried.add(tuple(order))
        changed = placer.place(order)
        if changed.total <= layout.total:
            layout = changed
    return layout
