"""Pooling over sliding windows. Pooling over whole dimensions is a reduction."""

import math
from collections.abc import Callable, Sequence
from typing import Unpack

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import FLOATS, NUMERIC, TensorType, to_numpy
from stepwell.dialects.graph.base import Fusion, InferredTypes, KeepsChannels, Pure, SingleOperand
from stepwell.dialects.graph.inference import expect_at_least, expect_dtype, expect_rank_at_least
from stepwell.dialects.graph.numerics import lowest, narrow, summing, wide
from stepwell.dialects.graph.traits import ChoosesData, Pools
from stepwell.dialects.graph.windows import (
    Window,
    blocked,
    expect_window,
    overhang,
    padded,
    steps_of,
    unblocked,
    unpadded,
    window_counts,
    window_sizes,
    windows,
)
from stepwell.dialects.support.errors import InferenceError


def over_channels(pool: Callable[[np.ndarray], np.ndarray], x: np.ndarray, spatial: int) -> np.ndarray:
    """Apply a pooling function for (N, C, spatial…) to such an `x` or to a channel-blocked one."""
    return pool(x) if x.ndim == 2 + spatial else np.ascontiguousarray(blocked(pool(unblocked(x)), x.shape[-1]))


def pooling_windows(x: np.ndarray, value: object, kernel: Sequence[int], ceil_mode: bool, window: Window) -> np.ndarray:
    """The windows over `x` padded with `value`, as (N, C, positions…, taps…)."""
    counts = window_counts(x.shape[2:], kernel, ceil_mode=ceil_mode, **window)
    high = overhang(x.shape[2:], kernel, counts, **window)
    return windows(padded(x, window["pads"][: len(kernel)], high, value), kernel, counts, **steps_of(window))


class Pooling(SingleOperand, fusion=Fusion.COMPLEX):
    """An op on each window over `x` (N, C, spatial…), or channel-blocked `x` (N, C / b, spatial…, b)."""

    kernel: ir.DenseI64ArrayAttr
    strides: ir.DenseI64ArrayAttr
    pads: ir.DenseI64ArrayAttr
    dilations: ir.DenseI64ArrayAttr
    ceil_mode: ir.BoolAttr

    @staticmethod
    def check(x: TensorType, dtypes: Sequence[str], kernel: Sequence[int], ceil_mode: bool, window: Window) -> TensorType:
        """The result type. Raises InferenceError for an operand, of one of `dtypes`, and attributes that do not fit."""
        expect_dtype("x", x, dtypes)
        expect_rank_at_least("x", x, 3)
        if not kernel or len(kernel) not in (x.rank - 2, x.rank - 3):
            raise InferenceError(f"attribute 'kernel' must have a size for each spatial dimension of operand 'x' ({x}), got {list(kernel)}")
        end = 2 + len(kernel)
        expect_at_least("kernel", kernel, 1)
        expect_window(len(kernel), **window)
        sizes = window_sizes(x.shape[2:end], kernel, ceil_mode=ceil_mode, **window)
        return x.with_shape((*x.shape[:2], *sizes, *x.shape[end:]))

    @staticmethod
    def flops(x: TensorType, *, result: TensorType, kernel: Sequence[int], **attributes: object) -> int:
        """One operation for each element of each window."""
        return result.elements * math.prod(kernel)


class MaxPoolOp(Pooling, name="max_pool", traits=[Pure, KeepsChannels, Pools, ChoosesData]):
    """The maximum of each window over `x` (N, C, spatial…) or blocked (N, C / b, spatial…, b); padding is ignored, NaN propagates.

    With `ceil_mode`, the last window may extend past the end.
    """

    @staticmethod
    def infer(x: TensorType, *, kernel: Sequence[int], ceil_mode: bool, **window: Unpack[Window]) -> InferredTypes:
        return Pooling.check(x, NUMERIC, kernel, ceil_mode, window)

    @staticmethod
    def reference(x: np.ndarray, *, kernel: Sequence[int], ceil_mode: bool, **window: Unpack[Window]) -> np.ndarray:
        def pool(w: np.ndarray) -> np.ndarray:
            view = pooling_windows(w, lowest(w.dtype), kernel, ceil_mode, window)
            return np.asarray(np.max(view, axis=tuple(range(w.ndim, view.ndim))))

        return narrow(over_channels(pool, wide(x), len(kernel)), x.dtype)

    def padding_value(self) -> float:
        """Minus infinity, because nothing is less."""
        return float(lowest(to_numpy(self.result_types()[0].dtype)))


def separable(kernel: Sequence[int]) -> bool:
    """Whether pooling such windows along the last dimension at the end reads fewer elements; the intermediate result counts as one more read."""
    outer, last = math.prod(kernel[:-1]), kernel[-1]
    return outer * last > outer + last + 1


class AvgPoolOp(Pooling, name="avg_pool", traits=[Pure, KeepsChannels, Pools]):
    """The mean of each window over `x`, taken over its elements inside `x`, and over the zeros of `pads` if `count_include_pad`.

    `x` is (N, C, spatial…), or channel-blocked (N, C / b, spatial…, b). Positions past the end, with `ceil_mode`, never count. The mean of an empty
    window is NaN.
    """

    count_include_pad: ir.BoolAttr

    @staticmethod
    def infer(x: TensorType, *, kernel: Sequence[int], ceil_mode: bool, count_include_pad: bool, **window: Unpack[Window]) -> InferredTypes:
        return Pooling.check(x, FLOATS, kernel, ceil_mode, window)

    @staticmethod
    def reference(x: np.ndarray, *, kernel: Sequence[int], ceil_mode: bool, count_include_pad: bool, **window: Unpack[Window]) -> np.ndarray:
        pads, spatial = window["pads"], len(kernel)

        def pool(w: np.ndarray) -> np.ndarray:
            view = pooling_windows(w, 0, kernel, ceil_mode, window)
            counts = view.shape[2 : 2 + spatial]
            inside = padded(np.ones((1, 1, *w.shape[2:])), pads[:spatial], pads[spatial:], int(count_include_pad))
            reached = overhang(inside.shape[2:], kernel, counts, **unpadded(steps_of(window)))
            counted = windows(padded(inside, [0] * spatial, reached, 0), kernel, counts, **steps_of(window))
            taps = tuple(range(w.ndim, view.ndim))
            return np.asarray(np.sum(view, axis=taps) / np.sum(counted, axis=taps))

        return narrow(over_channels(pool, summing(x), spatial), x.dtype)

    def padding_value(self) -> float:
        """Zero, because zeros add nothing to the sum."""
        return 0.0
