"""Exact convolution of integers by Winograd's minimal filtering, and its matrices of whole numbers."""

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from math import gcd, lcm
from typing import NamedTuple

import numpy as np

from stepwell.dialects.core.dtypes import BYTES
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.graph.base import InferredTypes
from stepwell.dialects.graph.inference import expect_dtype
from stepwell.dialects.graph.value_range import Range
from stepwell.dialects.packed.dialect import Packed
from stepwell.dialects.packed.winograd import WinogradConvolution, along_both, both_signs, by_tiles, constructed, result_shape
from stepwell.dialects.support.errors import InferenceError

INTEGER_POINTS = {2: both_signs("1"), 4: both_signs("1", "2")}
"""The evaluation points of the polynomials of F(m, 3), besides infinity: the smallest whole numbers. Data of F(6, 3) would exceed 16 bits."""
MOST = 15  # the largest sum of magnitudes in a row of G: its square times 128, the largest weight, still fits 16 bits
TRANSFORMED = (*BYTES, "i16")  # the types of transformed data
SUMS = 32  # the bits of sums


class Matrices(NamedTuple):
    """A^T, G and B^T of whole numbers, with `divisor * y = A^T ((G g) * (B^T d))`; along both axes the result is divided by `divisor` squared."""

    a_t: np.ndarray
    g: np.ndarray
    b_t: np.ndarray
    divisor: int

    @property
    def shift(self) -> int:
        """The exponent of 2 in the square of the divisor."""
        square = self.divisor**2
        return (square & -square).bit_length() - 1

    @property
    def inverse(self) -> int:
        """The inverse modulo 2**32 of the odd part of the divisor's square; multiplying by it divides exact multiples."""
        return pow(self.divisor**2 >> self.shift, -1, 1 << SUMS)


@cache
def integer_matrices(tile: int) -> Matrices:
    """The matrices of F(tile, 3) at its `INTEGER_POINTS`. Raises KeyError for a tile without points.

    G is scaled until its rows are whole. If the magnitudes of a row then sum to more than `MOST`, a common factor moves to A^T.
    """
    a_t, g, b_t = constructed(INTEGER_POINTS[tile])
    divisor = lcm(*(v.denominator for row in g for v in row))
    rows = [[int(v * divisor) for v in row] for row in g]
    moved = [next(f for f in range(1, divisor + 1) if gcd(*row) % f == 0 and sum(map(abs, row)) <= MOST * f) for row in rows]
    return Matrices(
        _whole([[v * factor for v, factor in zip(row, moved, strict=True)] for row in a_t]),
        _whole([[Fraction(v, factor) for v in row] for row, factor in zip(rows, moved, strict=True)]),
        _whole(b_t),
        divisor,
    )


def _whole(matrix: Sequence[Sequence[Fraction]]) -> np.ndarray:
    assert all(v.denominator == 1 for row in matrix for v in row)
    return np.array([[int(v) for v in row] for row in matrix], np.int64)


def transformed_range(tile: int, data: Range) -> Range:
    """The range of transformed data B^T d B, for data in a given range."""
    _, _, b_t, _ = integer_matrices(tile)
    low, high = data
    for _ in range(2):
        positive, negative = np.maximum(b_t, 0).sum(axis=1), np.minimum(b_t, 0).sum(axis=1)
        low, high = min(positive * low + negative * high), max(positive * high + negative * low)
    return low, high


def transformed_integers(w: np.ndarray, tile: int) -> np.ndarray:
    """Filters (M / b, K, 3, 3, a / d, b, d) of bytes, transformed for IntegerWinogradConvOp."""
    return along_both(integer_matrices(tile).g, w, np.int16)


def with_depth(w: np.ndarray, depth: int) -> np.ndarray:
    """Filters (…, a / d, b, d) with `depth` contiguous neighbours."""
    *outside, lanes, outer, before = w.shape
    w = np.moveaxis(w, -1, -2).reshape(*outside, lanes * before // depth, depth, outer)
    return np.ascontiguousarray(np.moveaxis(w, -1, -2))


class IntegerWinogradConvOp(WinogradConvolution, dialect=Packed, name="integer_winograd_conv"):
    """The 3x3 convolution with stride 1 of blocked integers `x` (N, C / a, H + 2, W + 2, a), with result (N, M / b, H, W, b) in i32, by F(tile, 3)
    along both axes; H and W are multiples of `tile`.

    `u` is the `transformed` filters G w G^T of 16 bits as (n, n, M / b, K, a / d, b, d) with n = tile + 2, or plain ones as (M / b, K, 3, 3, a / d,
    b, d), which are transformed in each run. The weights of each d neighbouring lanes are contiguous, as dot-product instructions read them. The
    blocks of channels and of filters are divided into `group` equal parts each; the filters of a group read its K = C / a / group blocks.

    All matrices consist of whole numbers (`integer_matrices`), so nothing is rounded: the result is the convolution bit for bit if transformed data
    fit 16 bits (`transformed_range`) and results times 2**`shift` fit 32. Otherwise data wrap around in 16 bits, and sums and the result in 32.
    Products and their sums may wrap around, because the final division is exact modulo 2**32.
    """

    @staticmethod
    def infer(x: TensorType, u: TensorType, *, tile: int, group: int, transformed: bool) -> InferredTypes:
        expect_dtype("x", x, TRANSFORMED)
        expect_dtype("u", u, ("i16",) if transformed else TRANSFORMED)
        shape = result_shape(x, u, INTEGER_POINTS, 7, tile=tile, group=group, transformed=transformed)
        lanes, depth = u.shape[4], u.shape[6]
        if lanes is not None and depth is not None and x.shape[4] is not None and lanes * depth != x.shape[4]:
            raise InferenceError(f"operand 'u' ({u}) must have the lanes of operand 'x' ({x}), in groups: dimensions 4 and 6")
        return TensorType("i32", shape)

    @staticmethod
    def reference(x: np.ndarray, u: np.ndarray, *, tile: int, group: int, transformed: bool) -> np.ndarray:
        matrices = integer_matrices(tile)
        if not transformed:
            u = transformed_integers(u, tile)
        filters = np.moveaxis(u, -1, -2).astype(np.int64)
        filters = filters.reshape(*filters.shape[:4], -1, filters.shape[-1])
        y = by_tiles(x.astype(np.int64), filters, matrices.a_t, matrices.b_t, group, held=np.int16, summed=np.int32)
        return (y.astype(np.uint64) * np.uint64(matrices.inverse)).astype(np.uint32).view(np.int32) >> matrices.shift
