"""Conversion of images whose channels hold the phases of a larger image."""

import math
from collections.abc import Sequence

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Size, divides, holds
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.graph.base import Fusion, InferredTypes, MovesData, Pure, SingleOperand, Sizes
from stepwell.dialects.graph.inference import expect_at_least, expect_length, expect_rank_at_least
from stepwell.dialects.graph.traits import KeepsEach
from stepwell.dialects.support.errors import InferenceError


class PixelShuffleOp(SingleOperand, name="pixel_shuffle", fusion=Fusion.COMPLEX, traits=[Pure, MovesData, KeepsEach]):
    """The larger image (N, C, sizes…); each phase in `x` (N, group * phases * C / group, spatial…) holds every `strides`-th position of it.

    Position `p` of the result is position `(p + offsets) // strides` of phase `(p + offsets) % strides`. The phases of all dimensions are in
    row-major order; in a group, the channels of a phase are adjacent. `x` may be blocked, (N, …, spatial…, b); then blocks replace channels. W. Shi
    et al., "Real-time single image and video super-resolution using an efficient sub-pixel convolutional neural network", CVPR 2016.
    """

    strides: ir.DenseI64ArrayAttr
    offsets: ir.DenseI64ArrayAttr
    sizes: Sizes
    group: ir.IntegerAttr

    @staticmethod
    def infer(x: TensorType, *, strides: Sequence[int], offsets: Sequence[int], sizes: Sequence[int | Size], group: int) -> InferredTypes:
        spatial, phases = len(strides), math.prod(strides)
        expect_rank_at_least("x", x, 2 + spatial)
        if x.rank > 3 + spatial:
            raise InferenceError(f"operand 'x' must have {spatial} spatial dimensions (N, C, …) or (N, C / b, …, b), got {x}")
        expect_length("offsets", offsets, spatial, "one for each stride")
        expect_length("sizes", sizes, spatial, "one for each stride")
        expect_at_least("strides", strides, 1)
        expect_at_least("offsets", offsets, 0)
        expect_at_least("sizes", sizes, 0)
        if group < 1:
            raise InferenceError(f"attribute 'group' must be 1 or more, got {group}")
        channels = x.shape[1]
        if not divides(phases * group, channels):
            raise InferenceError(f"dimension 1 of operand 'x' must divide into {group} groups of {phases} phases, got {x}")
        for i, (have, stride, offset, size) in enumerate(zip(x.shape[2 : 2 + spatial], strides, offsets, sizes, strict=True)):
            if have is not None and not holds(offset + size, "<=", have * stride):
                raise InferenceError(f"spatial dimension {i} of operand 'x' ({x}) gives {have * stride} positions, {offset + size} are asked for")
        return x.with_shape((x.shape[0], None if channels is None else channels // phases, *sizes, *x.shape[2 + spatial :]))

    @staticmethod
    def reference(x: np.ndarray, *, strides: Sequence[int], offsets: Sequence[int], sizes: Sequence[int], group: int) -> np.ndarray:
        spatial, phases = len(strides), math.prod(strides)
        images, channels, *places = x.shape[: 2 + spatial]
        each, block = channels // phases // group, x.shape[2 + spatial :]
        apart = x.reshape(images, group, *strides, each, *places, *block)
        # (N, group, phase…, C, place…, b) -> (N, group, C, (place, phase)…, b)
        first = 2 + spatial
        order = [0, 1, first, *(axis for i in range(spatial) for axis in (first + 1 + i, 2 + i)), *range(first + 1 + spatial, apart.ndim)]
        whole = apart.transpose(order).reshape(images, group * each, *(n * s for n, s in zip(places, strides, strict=True)), *block)
        return np.ascontiguousarray(whole[(slice(None), slice(None), *(slice(o, o + n) for o, n in zip(offsets, sizes, strict=True)))])
