"""Offsets in the workspace: nothing that lives together overlaps, and the total is near the bound."""

from hypothesis import given
from hypothesis import strategies as st

from stepwell.passes.linalg_to_affine.packing import ALIGNMENT, Lifetime, aligned, lower_bound, pack

steps = st.integers(0, 30)
lifetimes = st.lists(st.builds(lambda size, a, b: Lifetime(size, min(a, b), max(a, b)), st.integers(0, 5000), steps, steps), max_size=40)


@given(lifetimes)
def test_buffers_that_live_together_do_not_overlap(buffers):
    offsets, total = pack(buffers)
    for i, a in enumerate(buffers):
        assert offsets[i] % ALIGNMENT == 0
        assert offsets[i] + a.size <= total
        for j in range(i):
            b = buffers[j]
            together = a.first <= b.last and b.first <= a.last
            apart = offsets[i] + a.size <= offsets[j] or offsets[j] + b.size <= offsets[i]
            assert apart or not together or not a.size or not b.size
    assert lower_bound(buffers) <= total <= sum(aligned(b.size) for b in buffers)


def test_a_chain_takes_two_buffers():
    chain = [Lifetime(1000, i, i + 1) for i in range(10)]
    assert pack(chain)[1] == lower_bound(chain) == 2 * aligned(1000)


def test_a_gap_is_filled_by_what_fits_it_best():
    buffers = [Lifetime(640, 0, 9), Lifetime(640, 0, 1), Lifetime(128, 0, 9), Lifetime(320, 2, 9), Lifetime(64, 2, 9)]
    assert pack(buffers)[1] == lower_bound(buffers) == 640 + 640 + 128
