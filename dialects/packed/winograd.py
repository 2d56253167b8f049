"""Convolution by Winograd's minimal filtering on channel-blocked data, and its matrices."""

from collections.abc import Collection, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Dim, divides, holds
from stepwell.dialects.core.types import FLOATS, TensorType
from stepwell.dialects.graph.base import Fusion, GraphOp, InferredTypes, Operand, Pure, Result
from stepwell.dialects.graph.inference import expect_dim, expect_dtype, expect_rank, expect_same_dtype
from stepwell.dialects.graph.numerics import narrow, wide
from stepwell.dialects.graph.traits import ComputesRows
from stepwell.dialects.packed.dialect import Packed
from stepwell.dialects.support.errors import InferenceError

TAPS = 3
PARTS = {2: 512, 4: 512, 6: 128}
"""By tile, the number of products that are summed separately before they are added to the rest. There are no registers for both sums, so parts
cost time, and only F(6, 3) needs them for the numbers of channels in real networks."""
ROUNDING = 2.0**-24  # the largest relative rounding error of one operation in f32
SPREAD = 1.3  # the ratio of the largest error among many results to the standard deviation, both relative to the results


def both_signs(*positive: str) -> tuple[Fraction, ...]:
    """0, and the given numbers with both signs."""
    return (Fraction(0), *(sign * Fraction(p) for p in positive for sign in (1, -1)))


POINTS = {2: both_signs("1"), 4: both_signs("3/4", "3/2"), 6: both_signs("1/2", "1", "2")}
"""The evaluation points of the polynomials of F(m, 3), besides infinity: 0 and those pairs of multiples of 1/4 with the least `growth`.

A point and its negative have the same powers up to the sign, which halves the products of a transform (`SharedSums`).
"""


@cache
def matrices(tile: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A^T, G and B^T of F(tile, 3) at its `POINTS`. Raises KeyError for a tile without points."""
    return toom_cook(POINTS[tile])


def toom_cook(points: Sequence[Fraction]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A^T, G and B^T of F(m, 3) at m + 1 points and infinity, in f64, rounded once: `y = A^T ((G g) * (B^T d))` filters d by g.

    Each row of B^T ends in 1. Other scales of rows, compensated in G or A^T, would round alike.
    """
    a, b, c = (np.array([[float(v) for v in row] for row in m]) for m in constructed(points))
    return a, b, c


def constructed(points: Sequence[Fraction]) -> tuple[list[list[Fraction]], ...]:
    """The rows of A^T, G and B^T of F(m, 3) at m + 1 points and infinity.

    Constructed from evaluation points by Toom and Cook's method (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks",
    CVPR 2016; Blahut, "Fast Algorithms for Signal Processing", chapter 5).
    """
    tile = len(points) + 2 - TAPS

    def product(roots: Sequence[Fraction]) -> list[Fraction]:
        """The coefficients of the polynomial with the given roots, lowest first."""
        out = [Fraction(1)]
        for root in roots:
            out = [a - root * b for a, b in zip([Fraction(0), *out], [*out, Fraction(0)], strict=True)]
        return out

    a_t = [[p**k for p in points] + [Fraction(int(k == tile - 1))] for k in range(tile)]
    g, b_t = [], []
    for i, p in enumerate(points):
        others = [*points[:i], *points[i + 1 :]]
        scale = Fraction(1)
        for other in others:
            scale *= p - other
        g.append([p**k / scale for k in range(TAPS)])
        b_t.append([*product(others), Fraction(0)])
    g.append([Fraction(int(k == TAPS - 1)) for k in range(TAPS)])
    b_t.append(product(points))
    return a_t, g, b_t


def growth(points: Sequence[Fraction]) -> float:
    """The factor by which F(m, 3) along both axes at these points rounds more than a sum of products, for the worst result.

    A product of transformed numbers has an error proportional to its size, which enters result p with the factor `A_pi`. For random data, the error
    along one axis is the root of the sum over i of `(A_pi |G_i| |B_i|)^2`, divided by 3 for the taps of a direct sum. The points determine
    it (Barabasz, Anderson, Soodhalter and Gregg, "Error Analysis and Improving the Accuracy of Winograd Convolution for Deep Neural Networks",
    ACM Transactions on Mathematical Software 46, 2020).
    """
    a_t, g, b_t = toom_cook(points)
    products = np.sum(g**2, axis=1) * np.sum(b_t**2, axis=1)
    return float(np.max(a_t**2 @ products) / TAPS)


def error_bound(tile: int) -> float:
    """The largest rounding error of F(tile, 3) along both axes in f32 for random data, relative to the results' largest magnitude.

    A sum of n terms of similar size has a rounding error of about `sqrt(n / 6)` times that of one operation; n is at most the entry of `PARTS`. The
    four transforms add about the square root of 8 operations, and the sum of the few parts that of 1.
    """
    return SPREAD * ROUNDING * growth(POINTS[tile]) * float(np.sqrt(PARTS[tile] / 6 + 8 + 1))


class WinogradConvolution(GraphOp, dialect=Packed, fusion=Fusion.COMPLEX, traits=[Pure, ComputesRows]):
    """A 3x3 convolution with stride 1 of blocked `x` (N, C / a, H + 2, W + 2, a) with filters `u`, by F(tile, 3) along both axes."""

    x: Operand
    u: Operand
    result: Result
    tile: ir.IntegerAttr
    group: ir.IntegerAttr
    transformed: ir.BoolAttr

    @staticmethod
    def flops(x: TensorType, u: TensorType, *, result: TensorType, transformed: bool, **attributes: object) -> int:
        """The arithmetic of the direct convolution: savings show up as speed, not as less work."""
        return 2 * result.elements * TAPS * TAPS * u.static_shape[block_axes(transformed)[1]] * x.static_shape[4]


class WinogradConvOp(WinogradConvolution, dialect=Packed, name="winograd_conv"):
    """The 3x3 convolution with stride 1 of blocked `x` (N, C / a, H + 2, W + 2, a), with result (N, M / b, H, W, b), by F(tile, 3) along both
    axes; H and W are multiples of `tile`.

    `u` is the `transformed` filters G w G^T as (n, n, M / b, K, a, b) with n = tile + 2, or plain ones as (M / b, K, 3, 3, a, b), which
    are transformed in each run. The blocks of channels and of filters are divided into `group` equal parts each; the filters of a group read its
    K = C / a / group blocks.
    """

    @staticmethod
    def infer(x: TensorType, u: TensorType, *, tile: int, group: int, transformed: bool) -> InferredTypes:
        expect_dtype("x", x, FLOATS)
        expect_same_dtype(x=x, u=u)
        shape = result_shape(x, u, POINTS, 6, tile=tile, group=group, transformed=transformed)
        expect_dim("u", u, 4, x.shape[4], f"the block of operand 'x' ({x})")
        return TensorType(x.dtype, shape)

    @staticmethod
    def reference(x: np.ndarray, u: np.ndarray, *, tile: int, group: int, transformed: bool) -> np.ndarray:
        if not transformed:
            u = transformed_filters(u, tile)
        a_t, _, b_t = (m.astype(wide(x).dtype) for m in matrices(tile))
        return narrow(by_tiles(wide(x), wide(u), a_t, b_t, group), x.dtype)


def result_shape(
    x: TensorType, u: TensorType, tiles: Collection[int], rank: int, *, tile: int, group: int, transformed: bool
) -> tuple[Dim, ...]:  # fmt: skip
    """The shape of a Winograd convolution by one of `tiles` with filters of `rank`. Raises InferenceError if these, lanes aside, do not fit."""
    if tile not in tiles:
        raise InferenceError(f"attribute 'tile' must be one of {list(tiles)}, got {tile}")
    expect_rank("x", x, 5)
    expect_rank("u", u, rank)
    filters, channels = block_axes(transformed)
    for axis in set(range(4)) - {filters, channels}:
        expect_dim("u", u, axis, tile + TAPS - 1 if transformed else TAPS, f"tile {tile} and {TAPS} taps")
    if group < 1 or not all(divides(group, size) for size in (x.shape[1], u.shape[filters])):
        raise InferenceError(f"attribute 'group' must divide the blocks of operands 'x' ({x}) and 'u' ({u}), got {group}")
    if x.shape[1] is not None:
        expect_dim("u", u, channels, x.shape[1] // group, f"dimension 1 of operand 'x' ({x}) over {group} groups")
    sizes = tuple(None if s is None else s - TAPS + 1 for s in x.shape[2:4])
    if not all(holds(s, ">=", 1) and divides(tile, s) for s in sizes):
        raise InferenceError(f"operand 'x' ({x}) must have an image of a multiple of {tile}, and {TAPS - 1} more along each axis")
    return (x.shape[0], u.shape[filters], *sizes, u.shape[5])


def by_tiles(
    x: np.ndarray, u: np.ndarray, a_t: np.ndarray, b_t: np.ndarray, group: int, *, held: Any = None, summed: Any = None
) -> np.ndarray:  # fmt: skip
    """A^T [sum over channels of U * (B^T d B)] A for all tiles d of blocked images (N, C / a, H + 2, W + 2, a), as (N, M / b, H, W, b).

    U are transformed filters (n, n, M / b, K, a, b). All is computed in the type of `x`; transformed data are stored as `held`, sums as `summed`.
    """
    (tile, size), own = a_t.shape, x.dtype
    view = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(2, 3))[:, :, ::tile, ::tile]
    v = np.einsum("ik,jl,nchwakl->ijnchwa", b_t, b_t, view, optimize=True).astype(held or own).astype(own)
    parts = zip(np.split(u, group, axis=2), np.split(v, group, axis=3), strict=True)
    m = np.concatenate([np.einsum("ijmcab,ijnchwa->ijnmhwb", *part, optimize=True) for part in parts], axis=3).astype(summed or own).astype(own)
    y = np.einsum("pi,qj,ijnmhwb->nmhpwqb", a_t, a_t, m, optimize=True)
    n, blocks, rows, _, columns, _, block = y.shape
    return np.ascontiguousarray(y.reshape(n, blocks, rows * tile, columns * tile, block))


def block_axes(transformed: bool) -> tuple[int, int]:
    """The dimensions of filters, transformed or plain, that are the blocks of filters and of channels."""
    return (2, 3) if transformed else (0, 1)


def transformed_filters(w: np.ndarray, tile: int) -> np.ndarray:
    """Filters (M / b, K, 3, 3, a, b) transformed for WinogradConvOp, computed in f64 and rounded once."""
    return along_both(matrices(tile)[1], w, w.dtype)


def along_both(g: np.ndarray, w: np.ndarray, dtype: Any) -> np.ndarray:
    """G w G^T of filters (M / b, K, 3, 3, …), computed in the type of G, as (n, n, M / b, K, …) of `dtype`."""
    size, (filters, channels, _, _, *rest) = len(g), w.shape
    out = np.empty((size, size, filters, channels, *rest), dtype)
    # Sums of whole arrays, block by block so that they stay in the cache: a matrix product this thin gains nothing from BLAS threads.
    for block in range(filters):
        taps = np.moveaxis(w[block].astype(g.dtype), 0, 2)
        by_rows = [_combined(g[i], taps) for i in range(size)]
        for i in range(size):
            for j in range(size):
                out[i, j, block] = _combined(g[j], by_rows[i])
    return out


def _combined(factors: np.ndarray, arrays: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
    """The sum of arrays times factors; zero factors are skipped."""
    return sum((f * a for f, a in zip(factors, arrays, strict=True) if f), start=np.zeros((), factors.dtype))
