"""Products by constant matrices whose rows share sums: what they compute, and how much they save."""

import numpy as np
import pytest
from every import every

from stepwell.dialects.packed.integer_winograd import INTEGER_POINTS, integer_matrices
from stepwell.dialects.packed.winograd import POINTS, matrices
from stepwell.passes.linalg_to_affine.shared_sums import SharedSums

RNG = np.random.default_rng(3)


def computed(sums: SharedSums, x: np.ndarray) -> np.ndarray:
    """The product with a column, as `sums` say to compute it."""
    values = list(x)
    for terms in sums.sums:
        values.append(sum(factor * values[n] for factor, n in terms))
    return np.array([0.0 if row is None else values[row] for row in sums.rows])


def plain(matrix: np.ndarray) -> int:
    """Operations of the product row by row; a row begins for nothing with a number that it takes as it is."""
    return int(np.count_nonzero(matrix) - np.any(matrix == 1, axis=1).sum())


@pytest.mark.parametrize("tile", POINTS)
@pytest.mark.parametrize("which", range(3), ids=["result", "filters", "image"])
def test_transforms_of_winograd(tile: int, which: int) -> None:
    matrix = matrices(tile)[which].astype(np.float32).astype(np.float64)
    sums, x = SharedSums.from_matrix(matrix), RNG.standard_normal(matrix.shape[1])
    np.testing.assert_allclose(computed(sums, x), matrix @ x, rtol=0, atol=1e-13 * np.abs(matrix).sum())
    assert sums.operations <= plain(matrix)
    assert sums.operations < plain(matrix) or tile == 2


def test_operations_for_tiles_of_six() -> None:
    assert [SharedSums.from_matrix(m.astype(np.float32).astype(np.float64)).operations for m in matrices(6)] == [20, 16, 24]


@every("seed", range(40))
def test_any_matrix(seed: int) -> None:
    """Few different magnitudes, so that rows and columns often are pairs, the same, or of zeros."""
    r = np.random.default_rng(seed)
    matrix = r.choice([-2.0, -1.0, -0.3, 0.0, 0.0, 0.3, 1.0, 2.0], r.integers(1, 9, 2))
    if seed % 2:
        matrix = np.concatenate([matrix, matrix * r.choice([-1.0, 1.0], matrix.shape[1])])
    if seed % 3:
        matrix = np.concatenate([matrix, matrix * r.choice([-1.0, 1.0], (len(matrix), 1))], axis=1)
    sums, x = SharedSums.from_matrix(matrix), r.standard_normal(matrix.shape[1])
    np.testing.assert_allclose(computed(sums, x), matrix @ x, rtol=0, atol=1e-14 * matrix.size)
    assert sums.operations <= plain(matrix)
    assert [row is None for row in sums.rows] == [not row.any() for row in matrix]


@every("seed", range(40))
def test_whole_factors_of_whole_matrices(seed: int) -> None:
    r = np.random.default_rng(seed)
    matrix = r.choice([-8.0, -4.0, -3.0, -2.0, 0.0, 2.0, 3.0, 4.0, 6.0], r.integers(1, 9, 2))
    matrix = np.concatenate([matrix, matrix * r.choice([-1.0, 1.0], matrix.shape[1])])
    sums, x = SharedSums.from_matrix(matrix, whole=True), r.integers(-99, 99, matrix.shape[1])
    assert all(float(factor).is_integer() for terms in sums.sums for factor, _ in terms)
    np.testing.assert_array_equal(computed(sums, x), matrix @ x)
    assert sums.operations <= plain(matrix)


def test_operations_of_integer_tiles() -> None:
    """Of A^T, G and B^T; a product by a power of two is a shift."""
    matrices = {tile: integer_matrices(tile)[:3] for tile in INTEGER_POINTS}
    made = {tile: [SharedSums.from_matrix(m.astype(np.float64), whole=True).operations for m in found] for tile, found in matrices.items()}
    assert made == {2: [4, 5, 4], 4: [10, 10, 12]}
