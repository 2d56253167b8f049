"""Histograms that grow: their counts are numpy's, whatever parts the values come in."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from stepwell.quantizer.histogram import BINS, Histogram


def counted(parts: list[np.ndarray]) -> Histogram:
    found = Histogram()
    for part in parts:
        found.add(part)
    return found


def same(a: Histogram, b: Histogram) -> bool:
    return (a.exponent, a.first, a.low, a.high) == (b.exponent, b.first, b.low, b.high) and np.array_equal(a.counts, b.counts)


def test_counts_are_those_of_numpy():
    rng = np.random.default_rng(0)
    parts = [rng.normal(0.3, scale, (3, 50)).astype(np.float32) for scale in (0.01, 5, 0.2)]
    found, every = counted(parts), np.concatenate([part.reshape(-1) for part in parts]).astype(np.float64)
    assert (found.low, found.high, found.total) == (every.min(), every.max(), 450)
    assert BINS / 2 - 1 <= len(found.counts) <= BINS
    # numpy counts what lies on the last edge in the last bin; nothing does here.
    np.testing.assert_array_equal(found.counts, np.histogram(every, found.edges)[0])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.floats(-1e6, 1e6, width=32), max_size=5), min_size=1, max_size=5))
def test_neither_order_nor_parts_matter(lists: list[list[float]]):
    parts = [np.array(values, np.float32) for values in lists]
    whole = counted([np.concatenate(parts)])
    assert same(counted(parts), whole)
    assert same(counted(parts[::-1]), whole)
    assert whole.total == sum(map(len, lists))


@pytest.mark.parametrize("value", [0.0, 1.0, -3.5, 1e30, 1e-38])
def test_one_value_over_and_over(value: float):
    found = counted([np.full(5, value, np.float32)] * 2)
    assert found.total == 10
    assert found.low == found.high == np.float32(value)
    assert found.centres[np.argmax(found.counts)] == pytest.approx(value, rel=1e-6)


def test_nothing_at_all():
    found = counted([np.zeros((0, 3), np.float32)])
    assert (found.total, len(found.counts)) == (0, 0)
