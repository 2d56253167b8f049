"""Convolution by Winograd's minimal filtering on channel-blocked data, and the matrices that it takes."""

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import divides, holds
from stepwell.dialects.core.types import FLOATS, TensorType
from stepwell.dialects.graph.base import Fusion, GraphOp, InferredTypes, Operand, Pure, Result
from stepwell.dialects.graph.inference import expect_dim, expect_dtype, expect_rank, expect_same_dtype
from stepwell.dialects.graph.numerics import narrow, wide
from stepwell.dialects.support.errors import InferenceError

TAPS = 3
POINTS = {2: (0, 1, -1), 4: (0, 1, -1, 2, -2), 6: (0, 1, -1, 2, -2, Fraction(1, 2), Fraction(-1, 2))}  # where the polynomials of F(m, 3) are evaluated, beside infinity


@cache
def matrices(tile: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A^T, G and B^T of F(tile, 3), exact in f64 up to one rounding: `y = A^T ((G g) * (B^T d))` filters d by g.

    Made by Toom and Cook's construction from evaluation points (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks",
    CVPR 2016; Blahut, "Fast Algorithms for Signal Processing", chapter 5). Raises KeyError for a tile without points.
    """
    points = [Fraction(p) for p in POINTS[tile]]
    size = tile + TAPS - 1

    def product(roots: Sequence[Fraction]) -> list[Fraction]:
        """The coefficients of the polynomial with these roots, lowest first."""
        out = [Fraction(1)]
        for root in roots:
            out = [a - root * b for a, b in zip([Fraction(0), *out], [*out, Fraction(0)], strict=True)]
        return out

    a_t = [[p**k for p in points] + [Fraction(int(k == tile - 1))] for k in range(tile)]
    g, b_t = [], []
    for i, p in enumerate(points):
        others = points[:i] + points[i + 1 :]
        scale = Fraction(1)
        for other in others:
            scale *= p - other
        g.append([p**k / scale for k in range(TAPS)])
        b_t.append([*product(others), Fraction(0)])
    g.append([Fraction(int(k == TAPS - 1)) for k in range(TAPS)])
    b_t.append(product(points))
    a, b, c = (np.array([[float(v) for v in row] for row in m]) for m in (a_t, g, b_t))
    assert a.shape == (tile, size)
    assert c.shape == (size, size)
    return a, b, c


class WinogradConvOp(GraphOp, name="winograd_conv", traits=[Pure]):
    """The 3x3 convolution with stride 1 of blocked `x` (N, C / a, H + 2, W + 2, a), to (N, M / b, H, W, b), by F(tile, 3) along both
    axes; H and W are multiples of `tile`.

    `u` is the `transformed` filters G w G^T as (n, n, M / b, K, a, b) with n = tile + 2, or plain ones as (M / b, K, 3, 3, a, b), which
    are transformed each time. The blocks of channels and of filters fall into `group` equal parts each; the filters of a group read its
    K = C / a / group blocks.
    """

    fusion = Fusion.COMPLEX

    x: Operand
    u: Operand
    result: Result
    tile: ir.IntegerAttr
    group: ir.IntegerAttr
    transformed: ir.BoolAttr

    @staticmethod
    def infer(x: TensorType, u: TensorType, *, tile: int, group: int, transformed: bool) -> InferredTypes:
        expect_dtype("x", x, FLOATS)
        expect_same_dtype(x=x, u=u)
        if tile not in POINTS:
            raise InferenceError(f"attribute 'tile' must be one of {list(POINTS)}, got {tile}")
        expect_rank("x", x, 5)
        expect_rank("u", u, 6)
        filters, channels = block_axes(transformed)
        for axis in set(range(4)) - {filters, channels}:
            expect_dim("u", u, axis, tile + TAPS - 1 if transformed else TAPS, f"tile {tile} and {TAPS} taps")
        if group < 1 or not all(divides(group, size) for size in (x.shape[1], u.shape[filters])):
            raise InferenceError(f"attribute 'group' must divide the blocks of operands 'x' ({x}) and 'u' ({u}), got {group}")
        if x.shape[1] is not None:
            expect_dim("u", u, channels, x.shape[1] // group, f"dimension 1 of operand 'x' ({x}) over {group} groups")
        expect_dim("u", u, 4, x.shape[4], f"the block of operand 'x' ({x})")
        sizes = tuple(None if s is None else s - TAPS + 1 for s in x.shape[2:4])
        if not all(holds(s, ">=", 1) and divides(tile, s) for s in sizes):
            raise InferenceError(f"operand 'x' ({x}) must have an image of a multiple of {tile}, and {TAPS - 1} more along each axis")
        return TensorType(x.dtype, (x.shape[0], u.shape[filters], *sizes, u.shape[5]))

    @staticmethod
    def reference(x: np.ndarray, u: np.ndarray, *, tile: int, group: int, transformed: bool) -> np.ndarray:
        if not transformed:
            u = transformed_filters(u, tile)
        a_t, _, b_t = (m.astype(wide(x).dtype) for m in matrices(tile))
        size = tile + TAPS - 1
        view = np.lib.stride_tricks.sliding_window_view(wide(x), (size, size), axis=(2, 3))[:, :, ::tile, ::tile]
        v = np.einsum("ik,jl,nchwakl->ijnchwa", b_t, b_t, view, optimize=True)
        parts = zip(np.split(wide(u), group, axis=2), np.split(v, group, axis=3), strict=True)
        m = np.concatenate([np.einsum("ijmcab,ijnchwa->ijnmhwb", *part, optimize=True) for part in parts], axis=3)
        y = np.einsum("pi,qj,ijnmhwb->nmhpwqb", a_t, a_t, m, optimize=True)
        n, blocks, rows, _, columns, _, block = y.shape
        return narrow(np.ascontiguousarray(y.reshape(n, blocks, rows * tile, columns * tile, block)), x.dtype)

    @staticmethod
    def flops(x: TensorType, u: TensorType, *, result: TensorType, transformed: bool, **attributes: Any) -> int:
        """The arithmetic of the direct convolution: savings show up as speed, not as less work."""
        return 2 * result.elements * TAPS * TAPS * u.static_shape[block_axes(transformed)[1]] * u.static_shape[4]


class VersionedWinogradConvOp(GraphOp, name="versioned_winograd_conv", traits=[Pure]):
    """The convolution that `winograd_conv` computes of `x` and transformed filters: by F(few_tile, 3) with those in `few` for at most `most` images,
    by F(tile, 3) with those in `u`, which are the same ones, for more.
    """

    fusion = Fusion.COMPLEX

    x: Operand
    u: Operand
    few: Operand
    result: Result
    tile: ir.IntegerAttr
    few_tile: ir.IntegerAttr
    most: ir.IntegerAttr
    group: ir.IntegerAttr

    @staticmethod
    def infer(x: TensorType, u: TensorType, few: TensorType, *, tile: int, few_tile: int, most: int, group: int) -> InferredTypes:
        if most < 1:
            raise InferenceError(f"attribute 'most' must be a number of images, at least 1, got {most}")
        result = WinogradConvOp.infer(x, u, tile=tile, group=group, transformed=True)
        WinogradConvOp.infer(x, few, tile=few_tile, group=group, transformed=True)
        for axis in (block_axes(transformed=True)[0], 5):
            expect_dim("few", few, axis, u.shape[axis], f"for as many filters as in operand 'u' ({u})")
        return result

    @staticmethod
    def reference(x: np.ndarray, u: np.ndarray, few: np.ndarray, *, tile: int, few_tile: int, most: int, group: int) -> np.ndarray:
        filters, size = (few, few_tile) if len(x) <= most else (u, tile)
        return WinogradConvOp.reference(x, filters, tile=size, group=group, transformed=True)

    @staticmethod
    def flops(x: TensorType, u: TensorType, few: TensorType, *, result: TensorType, **attributes: Any) -> int:
        """The arithmetic of the direct convolution."""
        return WinogradConvOp.flops(x, u, result=result, transformed=True)


def block_axes(transformed: bool) -> tuple[int, int]:
    """Which dimensions of filters, transformed or plain, are the blocks of filters and of channels."""
    return (2, 3) if transformed else (0, 1)


def transformed_filters(w: np.ndarray, tile: int) -> np.ndarray:
    """Filters (M / b, K, 3, 3, a, b) as WinogradConvOp takes them, computed in f64 and rounded once."""
    _, g, _ = matrices(tile)
    size = tile + TAPS - 1
    filters, channels, _, _, inner, outer = w.shape
    out = np.empty((size, size, filters, channels, inner, outer), w.dtype)
    # Sums of whole arrays, block by block so that they stay in the cache: a matrix product this thin gains nothing from BLAS's threads.
    for block in range(filters):
        taps = np.moveaxis(w[block].astype(np.float64), 0, 2)
        by_rows = [_combined(g[i], taps) for i in range(size)]
        for i in range(size):
            for j in range(size):
                out[i, j, block] = _combined(g[j], by_rows[i])
    return out


def _combined(factors: np.ndarray, arrays: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
    """The sum of arrays times factors, those that are zero left out."""
    return sum((f * a for f, a in zip(factors, arrays, strict=True) if f), start=np.zeros(()))
