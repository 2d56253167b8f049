"""Convolutions on channel-blocked data: images (N, C / b, spatial…, b), so that the b channels of a block lie side by side."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from stepwell.dialects.errors import InferenceError
from stepwell.dialects.graph.base import GraphOp, InferredTypes, Operand, Pure, Result
from stepwell.dialects.graph.inference import expect_dim, expect_dtype, expect_rank, expect_same_dtype
from stepwell.dialects.graph.numerics import narrow, wide
from stepwell.dialects.graph.windows import expect_window, window_counts, window_sizes, windows
from stepwell.dialects.mlir import ir
from stepwell.dialects.types import FLOATS, TensorType


def unblocked(x: np.ndarray) -> np.ndarray:
    """An image (N, C / b, spatial…, b) as (N, C, spatial…)."""
    moved = np.moveaxis(x, -1, 2)
    return moved.reshape(x.shape[0], -1, *x.shape[2:-1])


def blocked(x: np.ndarray, block: int) -> np.ndarray:
    """An image (N, C, spatial…) as (N, C / block, spatial…, block); C is a multiple of the block."""
    return np.moveaxis(x.reshape(x.shape[0], -1, block, *x.shape[2:]), 2, -1)


class BlockedConvOp(GraphOp, name="blocked_conv", traits=[Pure]):
    """The convolution of `x` with filters `w`, to a blocked result (N, M / b, spatial…, b).

    `x` is blocked (N, C / a, spatial…, a) and `w` is (M / b, C / a, taps…, a, b); or `x` is plain (N, C, spatial…), as where an image
    of three colours comes in, and `w` is (M / b, C, taps…, b). There is no padding: it is an op of its own.
    """

    x: Operand
    w: Operand
    result: Result
    strides: ir.DenseI64ArrayAttr
    dilations: ir.DenseI64ArrayAttr

    @staticmethod
    def infer(x: TensorType, w: TensorType, *, strides: Sequence[int], dilations: Sequence[int]) -> InferredTypes:
        expect_dtype("x", x, FLOATS)
        expect_same_dtype(x=x, w=w)
        spatial = len(strides)
        expect_window(spatial, strides=strides, pads=[0] * 2 * spatial, dilations=dilations)
        inner = x.rank - 2 - spatial
        if inner not in (0, 1):
            raise InferenceError(f"operand 'x' must have {spatial} spatial dimensions (N, C, …) or (N, C / a, …, a), got {x}")
        expect_rank("w", w, 3 + spatial + inner)
        expect_dim("w", w, 1, x.shape[1], f"dimension 1 of operand 'x' ({x})")
        if inner:
            expect_dim("w", w, w.rank - 2, x.shape[-1], f"the block of operand 'x' ({x})")
        sizes = window_sizes(x.shape[2 : 2 + spatial], w.shape[2 : 2 + spatial], strides=strides, pads=[0] * 2 * spatial, dilations=dilations)
        return TensorType(x.dtype, (x.shape[0], w.shape[0], *sizes, w.shape[-1]))

    @staticmethod
    def reference(x: np.ndarray, w: np.ndarray, *, strides: Sequence[int], dilations: Sequence[int]) -> np.ndarray:
        spatial = len(strides)
        is_blocked = x.ndim == 3 + spatial
        image, filters = wide(unblocked(x) if is_blocked else x), wide(w)
        # (M / b, C / a, taps…, a, b) -> (M / b, b, C / a, a, taps…) -> (M, C, taps…)
        filters = np.moveaxis(filters, -1, 1)
        if is_blocked:
            filters = np.moveaxis(filters, -1, 3)
        taps = w.shape[2 : 2 + spatial]
        filters = filters.reshape(w.shape[0] * w.shape[-1], -1, *taps)
        counts = window_counts(image.shape[2:], taps, strides=strides, pads=[0] * 2 * spatial, dilations=dilations)
        view = windows(image, taps, counts, strides=strides, dilations=dilations)
        axes = [*range(2, 2 + spatial)]
        product = np.tensordot(view, filters, axes=([1, *(t + spatial for t in axes)], [1, *axes]))
        return narrow(np.ascontiguousarray(blocked(np.moveaxis(product, -1, 1), w.shape[-1])), x.dtype)

    @staticmethod
    def flops(x: TensorType, w: TensorType, *, result: TensorType, **attributes: Any) -> int:
        return 2 * result.elements * math.prod(w.static_shape[1:-1])


class BlockedDepthwiseConvOp(GraphOp, name="blocked_depthwise_conv", traits=[Pure]):
    """The convolution of each channel of blocked `x` (N, C / b, spatial…, b) with a filter of its own in `w` (C / b, taps…, b)."""

    x: Operand
    w: Operand
    result: Result
    strides: ir.DenseI64ArrayAttr
    dilations: ir.DenseI64ArrayAttr

    @staticmethod
    def infer(x: TensorType, w: TensorType, *, strides: Sequence[int], dilations: Sequence[int]) -> InferredTypes:
        expect_dtype("x", x, FLOATS)
        expect_same_dtype(x=x, w=w)
        spatial = len(strides)
        expect_rank("x", x, 3 + spatial)
        expect_rank("w", w, 2 + spatial)
        expect_window(spatial, strides=strides, pads=[0] * 2 * spatial, dilations=dilations)
        expect_dim("w", w, 0, x.shape[1], f"dimension 1 of operand 'x' ({x})")
        expect_dim("w", w, w.rank - 1, x.shape[-1], f"the block of operand 'x' ({x})")
        sizes = window_sizes(x.shape[2:-1], w.shape[1:-1], strides=strides, pads=[0] * 2 * spatial, dilations=dilations)
        return TensorType(x.dtype, (*x.shape[:2], *sizes, x.shape[-1]))

    @staticmethod
    def reference(x: np.ndarray, w: np.ndarray, *, strides: Sequence[int], dilations: Sequence[int]) -> np.ndarray:
        spatial, taps = len(strides), w.shape[1:-1]
        image = wide(unblocked(x))
        filters = np.moveaxis(wide(w), -1, 1).reshape(-1, *taps)
        counts = window_counts(image.shape[2:], taps, strides=strides, pads=[0] * 2 * spatial, dilations=dilations)
        view = windows(image, taps, counts, strides=strides, dilations=dilations)
        filters = filters.reshape(1, filters.shape[0], *[1] * spatial, *taps)
        product = np.sum(view * filters, axis=tuple(range(2 + spatial, 2 + 2 * spatial)))
        return narrow(np.ascontiguousarray(blocked(product, x.shape[-1])), x.dtype)

    @staticmethod
    def flops(x: TensorType, w: TensorType, *, result: TensorType, **attributes: Any) -> int:
        return 2 * result.elements * math.prod(w.static_shape[1:-1])
