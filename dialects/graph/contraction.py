"""Contractions: matrix products and convolutions, without bias and transposition (these are separate ops that are fused)."""

import math
from collections.abc import Sequence
from typing import Unpack

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Dim, Size, divides, holds, product
from stepwell.dialects.core.types import NUMERIC, TensorType
from stepwell.dialects.graph.base import Fusion, GraphOp, InferredTypes, Operand, Pure, Result, SingleOperand, Sizes, broadcast
from stepwell.dialects.graph.flops import one_per_input, two_per_product
from stepwell.dialects.graph.inference import (
    expect_at_least,
    expect_dim,
    expect_dtype,
    expect_length,
    expect_rank,
    expect_rank_at_least,
    expect_same_dtype,
)
from stepwell.dialects.graph.numerics import contract, narrow, wide
from stepwell.dialects.graph.products import SumOfProducts
from stepwell.dialects.graph.traits import Convolves, Speculatable, SumsProducts
from stepwell.dialects.graph.windows import Window, expect_window, padded, steps_of, unpadded, window_counts, window_sizes, windows
from stepwell.dialects.support.errors import InferenceError


class MatmulOp(GraphOp, name="matmul", fusion=Fusion.COMPLEX, flops=two_per_product, traits=[Pure, SumsProducts, Speculatable]):
    """The matrix product of the last two dimensions; leading dimensions are batch dimensions, which broadcast."""

    lhs: Operand
    rhs: Operand
    result: Result

    @staticmethod
    def infer(lhs: TensorType, rhs: TensorType) -> InferredTypes:
        expect_same_dtype(lhs=lhs, rhs=rhs)
        expect_dtype("lhs", lhs, NUMERIC)
        expect_rank_at_least("lhs", lhs, 2)
        expect_rank_at_least("rhs", rhs, 2)
        expect_dim("rhs", rhs, rhs.rank - 2, lhs.shape[-1], f"as many as the columns of operand 'lhs' ({lhs})")
        try:
            batch = broadcast(lhs.with_shape(lhs.shape[:-2]), rhs.with_shape(rhs.shape[:-2]))
        except InferenceError:
            raise InferenceError(f"the batch dimensions of operands 'lhs' ({lhs}) and 'rhs' ({rhs}) do not broadcast") from None
        return TensorType(lhs.dtype, (*batch, lhs.shape[-2], rhs.shape[-1]))

    @staticmethod
    def reference(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        return narrow(np.matmul(wide(lhs), wide(rhs)), lhs.dtype)

    def sum_of_products(self) -> SumOfProducts:
        """The mapping for rows of `lhs` and columns of `rhs`; batch dimensions align with the result's, counted from the last."""
        (lhs, rhs), rank = self.operand_types(), self.result_types()[0].rank
        left, right = range(rank - lhs.rank, rank - 1), range(rank - rhs.rank, rank - 2)
        return SumOfProducts((*left, None), (*right, None, rank - 1), rank, lhs.shape[-1])


class Convolution(GraphOp, fusion=Fusion.COMPLEX):
    """A convolution in either direction of `x` (N, C, spatial…) with the filters `w`; channels and filters fall into `group` equal parts."""

    x: Operand
    w: Operand
    result: Result
    strides: ir.DenseI64ArrayAttr
    pads: ir.DenseI64ArrayAttr
    dilations: ir.DenseI64ArrayAttr
    group: ir.IntegerAttr

    @staticmethod
    def check(x: TensorType, w: TensorType, group: int, window: Window) -> None:
        """Check the operands and attributes that both directions share."""
        expect_same_dtype(x=x, w=w)
        expect_dtype("x", x, NUMERIC)
        expect_rank_at_least("x", x, 3)
        expect_rank("w", w, x.rank)
        expect_window(x.rank - 2, **window)
        if group < 1:
            raise InferenceError(f"attribute 'group' must be 1 or more, got {group}")
        if 0 in w.shape[2:]:
            raise InferenceError(f"operand 'w' has a window without elements: {w}")
        if not divides(group, x.shape[1]):
            raise InferenceError(f"dimension 1 of operand 'x' must be a multiple of group {group}, got {x}")


class ConvOp(Convolution, name="conv", traits=[Pure, SumsProducts, Convolves]):
    """Cross-correlation of `x` (N, C, spatial…) with the filters `w` (M, C / group, spatial…); `x` is padded with zeros."""

    @staticmethod
    def infer(x: TensorType, w: TensorType, *, group: int, **window: Unpack[Window]) -> InferredTypes:
        Convolution.check(x, w, group, window)
        channels, filters = x.shape[1], w.shape[0]
        if not divides(group, filters):
            raise InferenceError(f"dimension 0 of operand 'w' must be a multiple of group {group}, got {w}")
        expect_dim("w", w, 1, None if channels is None else channels // group, f"the channels of operand 'x' ({x}) by group {group}")
        sizes = window_sizes(x.shape[2:], w.shape[2:], **window)
        return TensorType(x.dtype, (x.shape[0], filters, *sizes))

    @staticmethod
    def reference(x: np.ndarray, w: np.ndarray, *, group: int, **window: Unpack[Window]) -> np.ndarray:
        pads, spatial = window["pads"], x.ndim - 2
        counts = window_counts(x.shape[2:], w.shape[2:], **window)
        image, filters = padded(wide(x), pads[:spatial], pads[spatial:], 0), wide(w)
        view = windows(image, w.shape[2:], counts, **steps_of(window))
        taps = range(2, 2 + spatial)
        parts = []
        for inputs, kernels in zip(np.split(view, group, axis=1), np.split(filters, group, axis=0), strict=True):
            sums = contract(inputs, kernels, axes=([1, *(t + spatial for t in taps)], [1, *taps]))
            parts.append(np.moveaxis(sums, -1, 1))
        return narrow(np.concatenate(parts, axis=1), x.dtype)

    @staticmethod
    def flops(x: TensorType, w: TensorType, *, result: TensorType, **attributes: object) -> int:
        return 2 * result.elements * math.prod(w.static_shape[1:])

    def padding_value(self) -> float:
        """Zero, because zeros add nothing to the sum."""
        return 0.0

    def is_depthwise(self) -> bool:
        """Whether it has one filter for each channel."""
        x, w = self.operand_types()
        channels = x.shape[1]
        return isinstance(channels, int) and channels > 1 and self.attribute_values()["group"] == channels == w.shape[0]

    def channel_groups(self) -> int:
        return 1 if self.is_depthwise() else int(self.attribute_values()["group"])

    def operand_channels(self) -> list[slice | None]:
        return [slice(0, self.result_types()[0].shape[1]) if self.is_depthwise() else None, None]

    def sum_of_products(self) -> SumOfProducts:
        """The mapping for filters, which become channels of the result, and windows along the spatial dimensions."""
        x, w = self.operand_types()
        summed = (None,) * (x.rank - 1)
        return SumOfProducts((0, *summed), (1, *summed), x.rank, product(w.shape[1:]), by_channel=w.shape[1] == 1)


class ConvTransposeOp(Convolution, name="conv_transpose", traits=[Pure, Convolves]):
    """The transpose of a convolution: each element of `x` (N, C, spatial…) adds a multiple of the filters `w` (C, M / group, spatial…).

    `pads` is cut off the result, and `output_padding` is added at its end. The filters are assumed to be finite: compiled code may multiply them by
    zeros between the elements. If they may be infinite, use a matmul and a col2im.
    """

    output_padding: ir.DenseI64ArrayAttr

    @staticmethod
    def infer(x: TensorType, w: TensorType, *, group: int, output_padding: Sequence[int], **window: Unpack[Window]) -> InferredTypes:
        Convolution.check(x, w, group, window)
        expect_length("output_padding", output_padding, x.rank - 2, "one for each spatial dimension")
        expect_at_least("output_padding", output_padding, 0)
        expect_dim("w", w, 0, x.shape[1], f"the channels of operand 'x' ({x})")
        sizes = spread_sizes(x.shape[2:], w.shape[2:], output_padding, window)
        return TensorType(x.dtype, (x.shape[0], None if w.shape[1] is None else w.shape[1] * group, *sizes))

    @staticmethod
    def reference(x: np.ndarray, w: np.ndarray, *, group: int, output_padding: Sequence[int], **window: Unpack[Window]) -> np.ndarray:
        strides, pads, dilations, spatial = window["strides"], window["pads"], window["dilations"], x.ndim - 2
        whole = spread_sizes(x.shape[2:], w.shape[2:], output_padding, unpadded(steps_of(window)))
        parts = []
        for image, filters in zip(np.split(wide(x), group, axis=1), np.split(wide(w), group, axis=0), strict=True):
            out = np.zeros((x.shape[0], w.shape[1], *whole), dtype=image.dtype)
            for tap in np.ndindex(*w.shape[2:]):
                where = tuple(slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, s, n in zip(tap, dilations, strides, x.shape[2:], strict=True))
                sums = contract(image, filters[(..., *tap)], axes=([1], [0]))
                out[(slice(None), slice(None), *where)] += np.moveaxis(sums, -1, 1)
            parts.append(out)
        full = np.concatenate(parts, axis=1)
        kept = tuple(slice(low, size - high) for low, high, size in zip(pads[:spatial], pads[spatial:], full.shape[2:], strict=True))
        return narrow(full[(slice(None), slice(None), *kept)], x.dtype)

    @staticmethod
    def flops(x: TensorType, w: TensorType, *, result: TensorType, **attributes: object) -> int:
        return 2 * x.elements * math.prod(w.static_shape[1:])


class Col2ImOp(SingleOperand, name="col2im", fusion=Fusion.COMPLEX, flops=one_per_input, traits=[Pure]):
    """Adds up windows at their positions in an image: `x` is (N, C * taps, positions), the result (N, C, image…).

    Taps and positions are in row-major order. The windows are those of the image with `pads` around it; this padding is cut off the result.
    """

    image: Sizes
    kernel: ir.DenseI64ArrayAttr
    strides: ir.DenseI64ArrayAttr
    pads: ir.DenseI64ArrayAttr
    dilations: ir.DenseI64ArrayAttr

    @staticmethod
    def infer(x: TensorType, *, image: Sequence[int | Size], kernel: Sequence[int], **window: Unpack[Window]) -> InferredTypes:
        expect_dtype("x", x, NUMERIC)
        expect_rank("x", x, 3)
        expect_at_least("image", image, 0)
        expect_length("kernel", kernel, len(image), "one for each spatial dimension")
        expect_at_least("kernel", kernel, 1)
        expect_window(len(image), **window)
        taps, channels = math.prod(kernel), x.shape[1]
        if not divides(taps, channels):
            raise InferenceError(f"dimension 1 of operand 'x' must be a multiple of {taps}, the elements of a window {list(kernel)}; got {x}")
        counts = window_sizes(image, kernel, **window)
        if not all(holds(count, ">", 0) for count in counts):
            raise InferenceError(f"a window {list(kernel)} does not fit into the image {list(image)}")
        expect_dim("x", x, 2, product(counts), f"the positions {list(counts)} of the windows")
        return TensorType(x.dtype, (x.shape[0], None if channels is None else channels // taps, *image))

    @staticmethod
    def reference(x: np.ndarray, *, image: Sequence[int], kernel: Sequence[int], **window: Unpack[Window]) -> np.ndarray:
        strides, pads, dilations, spatial = window["strides"], window["pads"], window["dilations"], len(image)
        counts = window_counts(image, kernel, **window)
        each = wide(x).reshape(x.shape[0], x.shape[1] // math.prod(kernel), *kernel, *counts)
        whole = [pads[i] + size + pads[spatial + i] for i, size in enumerate(image)]
        out = np.zeros((*each.shape[:2], *whole), dtype=each.dtype)
        for tap in np.ndindex(*kernel):
            where = (slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, s, n in zip(tap, dilations, strides, counts, strict=True))
            out[(slice(None), slice(None), *where)] += each[(slice(None), slice(None), *tap)]
        return narrow(out[(slice(None), slice(None), *(slice(low, low + size) for low, size in zip(pads, image, strict=False)))], x.dtype)


def spread_sizes(sizes: Sequence[Dim], kernel: Sequence[Dim], output_padding: Sequence[int], window: Window) -> tuple[Dim, ...]:
    """The spatial sizes of a transposed convolution's result."""
    strides, pads, dilations = window["strides"], window["pads"], window["dilations"]
    out: list[Dim] = []
    for i, (size, taps) in enumerate(zip(sizes, kernel, strict=True)):
        if size is None or taps is None:
            out.append(None)
            continue
        whole = strides[i] * (size - 1) + dilations[i] * (taps - 1) + 1 + output_padding[i]
        cut = pads[i] + pads[len(sizes) + i]
        if not holds(whole, ">=", cut):
            raise InferenceError(f"'pads' cut {cut} off spatial dimension {i}, which has only {whole}")
        out.append(whole - cut)
    return tuple(out)
