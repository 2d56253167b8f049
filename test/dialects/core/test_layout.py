"""The layout of a workspace for all sizes: whatever the sizes are, no two buffers that live at the same time overlap."""

from hypothesis import given, strategies as st
from size_reference import Layout

from stepwell.dialects.core.layout import ALIGNMENT, aligned
from stepwell.dialects.core.sizes import Size, evaluated, maximum, symbol
from stepwell.passes.bufferize.packing import Lifetime, pack, slots

n, m = symbol("n"), symbol("m")
sizes = st.sampled_from([4 * n, 40 * n * m, 64, 1000, 8 * m, 4 * (n // 2), 4 * maximum(n - 3, 0), 4 * n + 12])
spans = st.tuples(st.integers(0, 12), st.integers(0, 5))
buffers = st.lists(st.tuples(sizes, spans), max_size=14)


@given(buffers, st.integers(0, 50), st.integers(0, 50))
def test_what_lives_together_lies_apart(made: list[tuple[int | Size, tuple[int, int]]], first: int, second: int) -> None:
    values = {"n": 17, "m": 5}
    lifetimes = [Lifetime(evaluated(size, values), start, start + length) for size, (start, length) in made]
    offsets, total = pack(lifetimes)
    layout = Layout(slots([size for size, _ in made], lifetimes, offsets))
    at_likely, total_at_likely = layout.placed(values)
    assert total_at_likely <= total
    assert all(mine <= theirs for mine, theirs in zip(at_likely, offsets, strict=True))
    values = {"n": first, "m": second}
    offsets, total = layout.placed(values)
    assert all(offset % ALIGNMENT == 0 for offset in offsets)
    numbers = [aligned(evaluated(size, values)) for size, _ in made]
    assert all(offset + size <= total for offset, size in zip(offsets, numbers, strict=True))
    for i, one in enumerate(lifetimes):
        for j, other in enumerate(lifetimes[:i]):
            if one.first <= other.last and other.first <= one.last:
                assert offsets[i] + numbers[i] <= offsets[j] or offsets[j] + numbers[j] <= offsets[i]
