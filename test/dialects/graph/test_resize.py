"""How a dimension is resampled: few taps for each place, the same as the dense matrix that defines them."""

import itertools
import math

import numpy as np
import pytest
from every import every

from stepwell.dialects.graph import resize
from stepwell.dialects.graph.resize import COORDINATES, sampling_taps, source_places, weighted_sums


def keys(d: float, a: float) -> float:
    """Keys' kernel, as in his paper."""
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def dense(places: np.ndarray, have: int, scale: float, mode: str, exclude_outside: bool, antialias: bool) -> np.ndarray:
    """The matrix (result, source) by definition, one element after the other."""
    stretch = max(1.0, 1.0 / scale) if antialias else 1.0
    reach = math.ceil((1 if mode == "linear" else 2) * stretch)
    matrix = np.zeros((len(places), have))
    for row, place in enumerate(places.astype(np.float64)):
        sources = range(math.floor(place) - reach, math.floor(place) + reach + 1)
        distances = [abs(place - s) / stretch for s in sources]
        weights = [max(1 - d, 0) if mode == "linear" else keys(d, -0.75) for d in distances]
        if exclude_outside:
            weights = [w if 0 <= s < have else 0 for s, w in zip(sources, weights, strict=True)]
        total = sum(weights) if exclude_outside or antialias else 1
        for s, w in zip(sources, weights, strict=True):
            matrix[row, min(max(s, 0), have - 1)] += w / total if total else np.nan
    return matrix


@every(("mode", "coordinates"), list(itertools.product(["linear", "cubic"], COORDINATES)))
@every("at_a_time", [1, 40, 1 << 20])
def test_taps_are_those_of_the_dense_matrix(mode: str, coordinates: str, at_a_time: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resize, "TAPS_AT_A_TIME", at_a_time)
    for have, size, exclude_outside, antialias in itertools.product([1, 2, 5, 17], [1, 3, 4, 31], [False, True], [False, True]):
        if coordinates == "tf_crop_and_resize" and exclude_outside:
            continue  # a place with nothing but outside round it has no meaning
        places = source_places(have, size, size / have, coordinates, (0.1, 0.83))
        sources, factors = sampling_taps(places, have, size / have, mode, -0.75, exclude_outside, antialias)
        matrix = np.zeros((size, have))
        np.add.at(matrix, (np.arange(size)[:, np.newaxis], sources), factors)
        np.testing.assert_allclose(matrix, dense(places, have, size / have, mode, exclude_outside, antialias), rtol=1e-9, atol=1e-9)
        x = np.random.default_rng(size).standard_normal((2, have, 3))
        np.testing.assert_allclose(weighted_sums(x, 1, sources, factors), np.einsum("rs,bsc->brc", matrix, x), rtol=1e-9, atol=1e-9)


def test_a_long_dimension_has_few_taps() -> None:
    places = source_places(30_000, 60_000, 2.0, "half_pixel", (0.0, 1.0))
    sources, factors = sampling_taps(places, 30_000, 2.0, "linear", -0.75, False, False)
    assert sources.shape == factors.shape == (60_000, 2)
    assert sampling_taps(places[:0], 30_000, 1e-30, "linear", -0.75, False, True)[0].shape[0] == 0


def test_what_counts_for_nothing_is_not_read() -> None:
    """Every second place is an element itself, beside which another is infinite."""
    sources, factors = sampling_taps(source_places(4, 8, 2.0, "asymmetric", (0.0, 1.0)), 4, 2.0, "linear", -0.75, False, False)
    out = weighted_sums(np.array([1, np.inf, 3, 4]), 0, sources, factors)
    np.testing.assert_array_equal(out, [1, np.inf, np.inf, np.inf, 3, 3.5, 4, 4])
