"""Convolutions of channel-blocked images (N, C / b, spatial…, b): the b channels of a block are contiguous."""

import math
from typing import Unpack

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import holds, is_static, product, static_sizes
from stepwell.dialects.core.types import FLOATS, TensorType, is_float
from stepwell.dialects.graph.base import Fusion, GraphOp, InferredTypes, Operand, Pure, Result
from stepwell.dialects.graph.inference import expect_dim, expect_dtype, expect_rank, expect_same_dtype
from stepwell.dialects.graph.numerics import contract, narrow, wide
from stepwell.dialects.graph.products import SumOfProducts
from stepwell.dialects.graph.traits import ComputesRows, KeepsChannels, SumsProducts
from stepwell.dialects.graph.windows import Steps, blocked, expect_window, unblocked, unpadded, window_counts, window_sizes, windows
from stepwell.dialects.packed.dialect import Packed
from stepwell.dialects.support.errors import InferenceError


class BlockedConvolution(GraphOp, dialect=Packed, fusion=Fusion.COMPLEX, traits=[Pure, SumsProducts]):
    """A convolution of `x` with filters `w`, whose result is blocked."""

    x: Operand
    w: Operand
    result: Result
    strides: ir.DenseI64ArrayAttr
    dilations: ir.DenseI64ArrayAttr
    group: ir.IntegerAttr

    @staticmethod
    def flops(x: TensorType, w: TensorType, *, result: TensorType, **attributes: object) -> int:
        return 2 * result.elements * math.prod(w.static_shape[1:]) // result.static_shape[-1]

    def sum_of_products(self) -> SumOfProducts:
        """Blocks of filters and the filters of a block are the second and the last dimension of the result."""
        (x, w), rank = self.operand_types(), self.result_types()[0].rank
        column = w.rank - (2 if are_in_groups(x.rank, w.rank) else 1)
        summed = [size for dim, size in enumerate(w.shape) if dim not in (0, column)]
        rhs = tuple(1 if dim == 0 else rank - 1 if dim == column else None for dim in range(w.rank))
        return SumOfProducts((0, *(None,) * (x.rank - 1)), rhs, rank, product(summed))


class PackedConvOp(BlockedConvolution, dialect=Packed, name="conv", traits=[ComputesRows]):
    """The convolution of `x` with filters `w`; the result is blocked (N, M / b, spatial…, b).

    `x` is blocked (N, C / a, spatial…, a) and `w` is (M / b, K, taps…, s, b); or `x` is plain (N, C, spatial…), such as an input image
    with three colours, and `w` is (M / b, C, taps…, b). There is no padding: that is a separate op.

    Filters of a blocked image may also be (M / b, K, taps…, s / d, b, d), and always are for integers (i32): the weights of each d neighbouring lanes
    are contiguous, as dot-product instructions read them.

    The blocks of filters are divided into `group` equal parts, one for each group. A group reads the same `s` lanes of each of `K`
    neighbouring blocks of `x`. Each of the C / a / K runs of blocks is read by one set of groups, and the groups of a set read neighbouring
    stretches of lanes, starting at lane 0. With one group this is the plain convolution of the first `s` lanes of all blocks.
    """

    @staticmethod
    def infer(x: TensorType, w: TensorType, *, group: int, **steps: Unpack[Steps]) -> TensorType:
        expect_dtype("x", x, (*FLOATS, "i32"))
        expect_same_dtype(x=x, w=w)
        spatial = len(steps["strides"])
        expect_window(spatial, **unpadded(steps))
        inner = x.rank - 2 - spatial
        in_groups = not is_float(x.dtype) or are_in_groups(x.rank, w.rank)
        if inner != 1 and (inner != 0 or in_groups):
            raise InferenceError(f"operand 'x' must have {spatial} spatial dimensions (N, C / a, …, a), or of floats (N, C, …), got {x}")
        expect_rank("w", w, 3 + spatial + inner + in_groups)
        if inner:
            _expect_groups(x, w, group)
        elif group != 1:
            raise InferenceError(f"attribute 'group' must be 1 where operand 'x' ({x}) is plain, got {group}")
        else:
            expect_dim("w", w, 1, x.shape[1], f"dimension 1 of operand 'x' ({x})")
        sizes = window_sizes(x.shape[2 : 2 + spatial], w.shape[2 : 2 + spatial], **unpadded(steps))
        return TensorType(x.dtype, (x.shape[0], w.shape[0], *sizes, w.shape[-2 if in_groups else -1]))

    @staticmethod
    def reference(x: np.ndarray, w: np.ndarray, *, group: int, **steps: Unpack[Steps]) -> np.ndarray:
        spatial = len(steps["strides"])
        if x.ndim == 2 + spatial:
            return _convolved(x, w, steps)
        if w.ndim == 5 + spatial:  # (…, s / d, b, d) -> (…, s, b)
            w = np.moveaxis(w, -1, -2)
            w = w.reshape(*w.shape[:-3], -1, w.shape[-1])
        blocks, lanes = w.shape[1], w.shape[-2]
        _, side_by_side = group_sets(x.shape[1], blocks, group)
        parts = []
        for g, filters in enumerate(np.split(w, group)):
            first, lane = g // side_by_side * blocks, g % side_by_side * lanes
            image = unblocked(x[:, first : first + blocks, ..., lane : lane + lanes])
            # (M / b, K, taps…, s, b) -> (M / b, K, s, taps…, b) -> (M / b, C, taps…, b)
            filters = np.moveaxis(filters, -2, 2)
            parts.append(_convolved(image, filters.reshape(len(filters), -1, *filters.shape[3:]), steps))
        return np.concatenate(parts, axis=1)

    def is_pointwise(self) -> bool:
        values, (x, w) = self.attribute_values(), self.operand_types()
        spatial = len(values["strides"])
        in_place = all(n == 1 for n in (*values["strides"], *w.shape[2 : 2 + spatial]))
        return in_place and x.rank == 3 + spatial and values["group"] == 1


def are_in_groups(x: int, w: int) -> bool:
    """Whether filters of rank `w` for an image of rank `x` store neighbouring lanes contiguously."""
    return w == x + 2


def lanes_read(x: TensorType, w: TensorType) -> int | None:
    """The number of lanes of each block of `x` that a group of such a convolution reads."""
    sizes = (w.shape[-3], w.shape[-1]) if are_in_groups(x.rank, w.rank) else w.shape[-2:-1]
    return math.prod(static_sizes(sizes)) if is_static(sizes) else None


def group_sets(blocks: int, per_group: int, group: int) -> tuple[int, int]:
    """The sets of groups that read the same blocks, for `group` groups that read `per_group` of `blocks` each: (sets, groups in a set)."""
    sets = blocks // per_group
    return sets, group // sets


def _expect_groups(x: TensorType, w: TensorType, group: int) -> None:
    """Check that the blocks and lanes of blocked `x` and the filters `w` divide among the groups."""
    blocks, (filters, per_group), lanes = x.shape[1], w.shape[:2], lanes_read(x, w)
    if group < 1 or (filters or 0) % group:
        raise InferenceError(f"attribute 'group' must divide the blocks of filters of operand 'w' ({w}), got {group}")
    if not isinstance(blocks, int) or not isinstance(per_group, int):
        return
    if not per_group or blocks % per_group or group % (blocks // per_group):
        raise InferenceError(f"dimension 1 of operand 'w' must divide the blocks of operand 'x' ({x}) into parts for {group} groups; got {w}")
    _, side_by_side = group_sets(blocks, per_group, group)
    if lanes is not None and not holds(side_by_side * lanes, "<=", x.shape[-1]):
        raise InferenceError(f"operand 'w' ({w}) reads {side_by_side} x {lanes} lanes of operand 'x' ({x})")


def _convolved(image: np.ndarray, w: np.ndarray, steps: Steps) -> np.ndarray:
    """A plain image (N, C, spatial…) convolved with filters (M / b, C, taps…, b), blocked and of the dtype of the image."""
    spatial, taps, block = len(steps["strides"]), w.shape[2:-1], w.shape[-1]
    filters = np.moveaxis(wide(w), -1, 1).reshape(w.shape[0] * block, -1, *taps)
    counts = window_counts(image.shape[2:], taps, **unpadded(steps))
    view = windows(wide(image), taps, counts, **steps)
    axes = [*range(2, 2 + spatial)]
    sums = contract(view, filters, axes=([1, *(t + spatial for t in axes)], [1, *axes]))
    return narrow(np.ascontiguousarray(blocked(np.moveaxis(sums, -1, 1), block)), image.dtype)


class PackedDepthwiseConvOp(GraphOp, dialect=Packed, name="depthwise_conv", traits=[Pure, SumsProducts, ComputesRows, KeepsChannels]):
    """The convolution of each channel of blocked `x` (N, C / b, spatial…, b) with its own filter in `w` (C / b, taps…, b)."""

    fusion = Fusion.COMPLEX

    x: Operand
    w: Operand
    result: Result
    strides: ir.DenseI64ArrayAttr
    dilations: ir.DenseI64ArrayAttr

    @staticmethod
    def infer(x: TensorType, w: TensorType, **steps: Unpack[Steps]) -> InferredTypes:
        expect_dtype("x", x, FLOATS)
        expect_same_dtype(x=x, w=w)
        spatial = len(steps["strides"])
        expect_rank("x", x, 3 + spatial)
        expect_rank("w", w, 2 + spatial)
        expect_window(spatial, **unpadded(steps))
        expect_dim("w", w, 0, x.shape[1], f"dimension 1 of operand 'x' ({x})")
        expect_dim("w", w, w.rank - 1, x.shape[-1], f"the block of operand 'x' ({x})")
        sizes = window_sizes(x.shape[2:-1], w.shape[1:-1], **unpadded(steps))
        return TensorType(x.dtype, (*x.shape[:2], *sizes, x.shape[-1]))

    @staticmethod
    def reference(x: np.ndarray, w: np.ndarray, **steps: Unpack[Steps]) -> np.ndarray:
        spatial, taps = len(steps["strides"]), w.shape[1:-1]
        image = wide(unblocked(x))
        filters = np.moveaxis(wide(w), -1, 1).reshape(-1, *taps)
        counts = window_counts(image.shape[2:], taps, **unpadded(steps))
        view = windows(image, taps, counts, **steps)
        filters = filters.reshape(1, filters.shape[0], *[1] * spatial, *taps)
        sums = np.sum(view * filters, axis=tuple(range(2 + spatial, 2 + 2 * spatial)))
        return narrow(np.ascontiguousarray(blocked(sums, x.shape[-1])), x.dtype)

    @staticmethod
    def flops(x: TensorType, w: TensorType, *, result: TensorType, **attributes: object) -> int:
        return 2 * result.elements * math.prod(w.static_shape[1:-1])

    def sum_of_products(self) -> SumOfProducts:
        """Blocks and lanes are the same in the image, in the filters and in the result."""
        x, w = self.operand_types()
        taps, last = (None,) * len(w.shape[1:-1]), x.rank - 1
        return SumOfProducts((0, 1, *taps, last), (1, *taps, last), x.rank, product(w.shape[1:-1]), by_channel=True)
