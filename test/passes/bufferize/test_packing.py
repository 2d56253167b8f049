"""Offsets in the workspace: nothing that lives together overlaps, and the total is near the bound."""

import pytest
from hypothesis import given, settings, strategies as st

from stepwell.dialects.core.layout import ALIGNMENT, aligned
from stepwell.passes.bufferize import packing
from stepwell.passes.bufferize.packing import (
    Lifetime,
    Piece,
    _meetings,
    _orders,
    _pack_in_time,
    _Placer,
    loads,
    lower_bound,
    pack,
)

launches = st.integers(0, 30)
whole = st.builds(lambda size, a, b: Lifetime(size, min(a, b), max(a, b)), st.integers(0, 5000), launches, launches)
lifetimes = st.lists(whole, max_size=40)


@pytest.mark.parametrize("method", [pack, _pack_in_time])
@given(buffers=lifetimes)
def test_buffers_that_live_together_do_not_overlap(method, buffers):
    offsets, total = method(buffers)
    for i, a in enumerate(buffers):
        assert offsets[i] % ALIGNMENT == 0
        assert offsets[i] + a.size <= total
        for j in range(i):
            b = buffers[j]
            together = a.first <= b.last and b.first <= a.last
            apart = offsets[i] + a.size <= offsets[j] or offsets[j] + b.size <= offsets[i]
            assert apart or not together or not a.size or not b.size
    assert lower_bound(buffers) <= total <= sum(aligned(b.size) for b in buffers)


@st.composite
def in_pieces(draw: st.DrawFn) -> Lifetime:
    sizes, last = draw(st.lists(st.integers(1, 2000), min_size=2, max_size=4)), draw(launches)
    firsts = [draw(st.integers(0, last)) for _ in sizes]
    pieces = [Piece(sum(sizes[:i]), size, first) for i, (size, first) in enumerate(zip(sizes, firsts, strict=True))]
    return Lifetime(sum(sizes), min(firsts), last, tuple(pieces))


@pytest.mark.parametrize("method", [pack, _pack_in_time])
@settings(max_examples=20)
@given(divided=st.lists(in_pieces(), max_size=6), others=st.lists(whole, max_size=12))
def test_pieces_that_hold_data_together_do_not_overlap(method, divided, others):
    buffers = [*divided, *others]
    offsets, total = method(buffers)
    assert all(offset % ALIGNMENT == 0 and offset + b.size <= total for offset, b in zip(offsets, buffers, strict=True))
    for i, a in enumerate(buffers):
        for j, b in enumerate(buffers[:i]):
            for p in a.pieces or [Piece(0, a.size, a.first)]:
                for q in b.pieces or [Piece(0, b.size, b.first)]:
                    apart = offsets[i] + p.offset + p.size <= offsets[j] + q.offset or offsets[j] + q.offset + q.size <= offsets[i] + p.offset
                    assert apart or p.first > b.last or q.first > a.last or not p.size or not q.size
    assert lower_bound(buffers) <= total


def test_others_lie_where_a_piece_is_not_written_yet():
    line = ALIGNMENT
    joined = Lifetime(8 * line, 2, 9, (Piece(0, 3 * line, 2), Piece(3 * line, 5 * line, 6)))
    before, beside = Lifetime(6 * line, 0, 3), Lifetime(2 * line, 7, 8)
    offsets, total = pack([joined, before, beside])
    assert total == lower_bound([joined, before, beside]) == 10 * line
    assert offsets[1] - offsets[0] in (3 * line, -6 * line)
    assert pack([Lifetime(8 * line, 2, 9), before, beside])[1] == 14 * line


# The busiest part of a residual network: blocks that live long, and scratch beside them for one launch (sizes in cache lines).
RESIDUAL = [
    (56, 145, 183), (15, 151, 157), (14, 157, 161), (63, 157, 157), (56, 167, 173), (15, 173, 179), (14, 179, 183), (63, 179, 179),
    (56, 183, 219), (56, 189, 195), (15, 195, 201), (14, 201, 209), (63, 201, 201), (28, 213, 251), (30, 219, 225),
]  # fmt: skip


def test_where_no_greedy_order_is_good_the_search_finds_the_bound():
    buffers = [Lifetime(size * ALIGNMENT, first, last) for size, first, last in RESIDUAL]
    placer = _Placer(buffers)
    assert min(placer.place(order).total for order in _orders(buffers, loads(buffers))) > 1.15 * lower_bound(buffers)
    assert pack(buffers)[1] == lower_bound(buffers)
    assert pack(buffers) == pack(buffers)  # the cache depends on it: what chance there is, is always the same


@given(lifetimes)
def test_the_bound_is_the_busiest_launch(buffers):
    at = [sum(aligned(b.size) for b in buffers if b.first <= launch <= b.last) for launch in range(31)]
    assert lower_bound(buffers) == max(at)


@pytest.mark.parametrize("method", [pack, _pack_in_time])
def test_a_chain_takes_two_buffers(method):
    chain = [Lifetime(1000, i, i + 1) for i in range(10)]
    assert method(chain)[1] == lower_bound(chain) == 2 * aligned(1000)


@pytest.mark.parametrize("method", [pack, _pack_in_time])
def test_a_gap_is_filled_by_what_fits_it_best(method):
    buffers = [Lifetime(640, 0, 9), Lifetime(640, 0, 1), Lifetime(128, 0, 9), Lifetime(320, 2, 9), Lifetime(64, 2, 9)]
    assert method(buffers)[1] == lower_bound(buffers) == 640 + 640 + 128


def test_the_smallest_gap_that_fits_is_taken_as_time_goes_by():
    buffers = [Lifetime(640, 0, 4), Lifetime(64, 1, 9), Lifetime(320, 2, 4), Lifetime(64, 3, 9), Lifetime(256, 5, 9), Lifetime(384, 6, 9)]
    assert _pack_in_time(buffers) == ([0, 640, 704, 1024, 704, 0], 1088)


@given(lifetimes)
def test_pairs_that_meet_are_counted(buffers):
    pairs = sum(a.first <= b.last and b.first <= a.last for i, a in enumerate(buffers) for b in buffers[:i])
    assert _meetings(buffers) == pairs


def test_thousands_that_live_together_are_placed_without_looking_at_each_pair(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(packing, "_Placer", None)
    buffers = [Lifetime(64 + 64 * (i % 7), i, 9000 + i) for i in range(9000)]
    assert pack(buffers)[1] == lower_bound(buffers)
