"""Convolutions of channel-blocked images with borders of zeros, without most of the products with these zeros."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import holds
from stepwell.dialects.core.types import TensorType, from_numpy
from stepwell.dialects.graph.base import InferredTypes
from stepwell.dialects.graph.borders import borders
from stepwell.dialects.graph.inference import expect_at_least, expect_length
from stepwell.dialects.packed.conv import BlockedConvolution, PackedConvOp
from stepwell.dialects.packed.dialect import Packed
from stepwell.dialects.support.errors import InferenceError


class BorderedConvOp(BlockedConvolution, dialect=Packed, name="bordered_conv"):
    """Like `packed.conv`, for an image `x` whose first and last elements along each spatial dimension are zeros; `zeros` has their numbers.

    `zeros` lists those before each spatial dimension, then those after each. Each dimension is divided into stretches of positions, and taps that
    read only zeros for a whole stretch are omitted: large or dilated windows need half of the products, or fewer.
    """

    zeros: ir.DenseI64ArrayAttr

    @staticmethod
    def infer(x: TensorType, w: TensorType, *, zeros: Sequence[int], **attributes: Any) -> InferredTypes:
        inferred = PackedConvOp.infer(x, w, **attributes)
        spatial = len(attributes["strides"])
        expect_length("zeros", zeros, 2 * spatial, "those before each spatial dimension, then those after each")
        expect_at_least("zeros", zeros, 0)
        for i, size in enumerate(x.shape[2 : 2 + spatial]):
            if not holds(zeros[i] + zeros[spatial + i], "<=", size):
                raise InferenceError(f"spatial dimension {i} of operand 'x' ({x}) has no room for {zeros[i]} and {zeros[spatial + i]} zeros")
        return inferred

    @staticmethod
    def reference(x: np.ndarray, w: np.ndarray, *, zeros: Sequence[int], **attributes: Any) -> np.ndarray:
        types = TensorType(from_numpy(x.dtype), x.shape), TensorType(from_numpy(w.dtype), w.shape)
        result = PackedConvOp.infer(*types, **attributes)
        window = {name: attributes[name] for name in ("strides", "dilations")}
        out = np.empty(result.static_shape, x.dtype)
        for stretches in product(*(dim.stretches() for dim in borders(*types, result, **window, zeros=zeros))):
            seen, taps, places = [], [], []
            for s, step, apart in zip(stretches, attributes["strides"], attributes["dilations"], strict=True):
                first, size = s.seen(step, apart)
                seen.append(slice(first, first + size))
                taps.append(slice(s.first, s.end))
                places.append(slice(s.low, s.high))
            whole = (slice(None), slice(None))
            out[(*whole, *places)] = PackedConvOp.reference(x[(*whole, *seen)], w[(*whole, *taps)], **attributes)
        return out
