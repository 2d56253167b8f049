"""A matrix in panels means the matrix."""

import numpy as np
import pytest

from stepwell.dialects.core.types import TensorType
from stepwell.dialects.graph import PackedMatmulOp
from stepwell.dialects.graph.packed_matmul import in_groups, in_panels
from stepwell.dialects.support.errors import InferenceError

RNG = np.random.default_rng(12)


def test_panels_hold_neighbouring_columns_and_end_with_zeros():
    matrix = RNG.standard_normal((5, 7))
    panels = np.stack(list(in_panels(matrix, 3)))
    assert panels.shape == (3, 5, 3)
    np.testing.assert_array_equal(panels[1], matrix[:, 3:6])
    np.testing.assert_array_equal(panels[2], np.pad(matrix[:, 6:], ((0, 0), (0, 2))))


def test_product():
    x, matrix = RNG.standard_normal((2, 3, 5)), RNG.standard_normal((5, 8))
    got = PackedMatmulOp.reference(x, np.stack(list(in_panels(matrix, 4))))
    np.testing.assert_allclose(got.reshape(2, 3, 8), x @ matrix, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(("x", "w"), [((5,), (2, 5, 4)), ((3, 5), (5, 8)), ((3, 6), (2, 5, 4))])
def test_shapes_that_do_not_fit(x, w):
    with pytest.raises(InferenceError):
        PackedMatmulOp.infer(TensorType("f32", x), TensorType("f32", w))


def test_operands_of_two_types_do_not_fit():
    with pytest.raises(InferenceError, match="element type"):
        PackedMatmulOp.infer(TensorType("f32", (3, 4)), TensorType("f64", (2, 4, 8)))


def test_groups_hold_neighbours_of_a_column_side_by_side():
    matrix = RNG.integers(-128, 128, (12, 7)).astype(np.int32)
    panels = in_groups(matrix, 4, 3)
    assert panels.shape == (3, 3, 3, 4)
    np.testing.assert_array_equal(panels[1, 2, 1], matrix[8:12, 4])
    assert not panels[2, :, 1:].any()
    x = RNG.integers(0, 256, (2, 5, 12)).astype(np.int32)
    np.testing.assert_array_equal(PackedMatmulOp.reference(x, panels).reshape(2, 5, 9)[..., :7], x @ matrix)
    assert PackedMatmulOp.infer(TensorType("i32", x.shape), TensorType("i32", panels.shape)) == TensorType("i32", (2, 5, 3, 3))


@pytest.mark.parametrize(("x", "w"), [((3, 12), (2, 3, 4)), ((3, 10), (2, 3, 8, 4)), ((3, 12), (2, 4, 8, 4)), ((3, 12), (2, 3, 8, 0))])
def test_groups_that_do_not_fit(x, w):
    with pytest.raises(InferenceError):
        PackedMatmulOp.infer(TensorType("i32", x), TensorType("i32", w))
