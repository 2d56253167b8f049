"""A matrix in panels means the matrix."""

import numpy as np
import pytest

from stepwell.dialects.core.types import TensorType
from stepwell.dialects.packed import LowBitMatmulOp, PackedMatmulOp
from stepwell.dialects.packed.matmul import ROWS_AT_ONCE, in_blocks, in_groups, in_panels, neighbours_of
from stepwell.dialects.support.errors import InferenceError

RNG = np.random.default_rng(12)


def test_panels_hold_neighbouring_columns_and_end_with_zeros():
    matrix = RNG.standard_normal((5, 7))
    panels = np.stack(list(in_panels(matrix, 3)))
    assert panels.shape == (3, 5, 3)
    np.testing.assert_array_equal(panels[1], matrix[:, 3:6])
    np.testing.assert_array_equal(panels[2], np.pad(matrix[:, 6:], ((0, 0), (0, 2))))


def test_panels_end_with_rows_of_zeros():
    matrix = RNG.standard_normal((ROWS_AT_ONCE + 5, 7))
    whole, filled = (np.stack(list(in_panels(matrix, 4, filling))) for filling in (0, 3))
    np.testing.assert_array_equal(filled, np.pad(whole, ((0, 0), (0, 3), (0, 0))))


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


def test_words_hold_neighbours_of_a_column_from_the_lowest_bits():
    matrix = RNG.integers(0, 16, (32, 5)).astype(np.uint8)
    words = in_blocks(matrix, 16, 3, 4)
    assert (words.shape, words.dtype) == ((2, 2, 2, 3), np.uint32)
    assert int(words[1, 1, 0, 0]) == sum(int(matrix[16 + i, 3]) << 4 * i for i in range(8))
    assert not words[1, :, :, 2].any()


def test_groups_of_bytes_hold_four_neighbours_in_each_half():
    matrix = RNG.integers(0, 16, (32, 5)).astype(np.uint8)
    groups = in_blocks(matrix, 16, 3, 4, grouped=True)
    assert (groups.shape, groups.dtype) == ((2, 2, 2, 3, 4), np.uint8)
    np.testing.assert_array_equal(groups[1, 1, 1, 0], matrix[24:28, 3] + 16 * matrix[28:32, 3])
    np.testing.assert_array_equal(neighbours_of(groups), neighbours_of(in_blocks(matrix, 16, 3, 4)))


@pytest.mark.parametrize(("bits", "grouped"), [(4, False), (4, True), (8, False)])
@pytest.mark.parametrize("one", [False, True])
def test_product_of_bits(bits, grouped, one):
    x, numbers = RNG.standard_normal((2, 3, 48)).astype(np.float32), RNG.integers(0, 1 << bits, (48, 7)).astype(np.uint8)
    scale = RNG.uniform(0.5, 2, (3, 7)).astype(np.float32)
    zero = np.array(5, np.uint8) if one else RNG.integers(0, 1 << bits, (3, 7)).astype(np.uint8)
    matrix = (numbers.astype(np.float64) - np.repeat(np.broadcast_to(zero, scale.shape), 16, 0)) * np.repeat(scale, 16, 0)
    scales, zeros = np.stack(list(in_panels(scale, 4))), zero if one else np.stack(list(in_panels(zero, 4)))
    got = LowBitMatmulOp.reference(x, in_blocks(numbers, 16, 4, bits, grouped=grouped), scales, zeros, bits=bits)
    np.testing.assert_allclose(got.reshape(2, 3, 8)[..., :7], x @ matrix, rtol=1e-5, atol=1e-5 * np.abs(matrix).sum())


@pytest.mark.parametrize(
    ("types", "bits", "said"),
    [
        ((("f32", (3, 32)), ("ui8", (2, 2, 8, 4)), ("f32", (2, 2, 4)), ("ui8", ())), 4, "element type"),
        ((("f32", (3, 32)), ("ui32", (2, 2, 2, 4)), ("f32", (2, 2, 4)), ("i8", ())), 4, "element type"),
        ((("f16", (3, 32)), ("ui32", (2, 2, 2, 4)), ("f16", (2, 2, 4)), ("ui8", ())), 4, "element type"),
        ((("f32", (3, 16)), ("ui32", (2, 2, 2, 4)), ("f32", (2, 2, 4)), ("ui8", ())), 4, "32"),
        ((("f32", (3, 32)), ("ui8", (2, 2, 16, 4)), ("f32", (2, 3, 4)), ("ui8", ())), 8, "'scale'"),
        ((("f32", (3, 32)), ("ui8", (2, 2, 16, 4)), ("f32", (2, 2, 4)), ("ui8", (2, 1, 4))), 8, "'zero_point'"),
        ((("f32", (3, 32)), ("ui8", (2, 2, 16, 4)), ("f32", (2, 2, 4)), ("ui8", ())), 2, "'bits'"),
        ((("f32", (3, 32)), ("ui8", (2, 2, 2, 4, 3)), ("f32", (2, 2, 4)), ("ui8", ())), 4, "'w'"),
        ((("f32", (3, 32)), ("ui32", (2, 2, 2, 4, 4)), ("f32", (2, 2, 4)), ("ui8", ())), 4, "element type"),
    ],
)
def test_bits_that_do_not_fit(types, bits, said):
    with pytest.raises(InferenceError, match=said):
        LowBitMatmulOp.infer(*(TensorType(*t) for t in types), bits=bits)
