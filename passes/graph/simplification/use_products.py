"""The pass that computes convolutions with one position as matrix products."""

from math import prod

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import is_static, static_sizes
from stepwell.dialects.core.types import type_of
from stepwell.dialects.graph import ConvOp
from stepwell.passes.framework.registry import register_pass
from stepwell.passes.framework.rewriting import NoMatch, PatternPass, Rewriter, expect, pattern
from stepwell.passes.graph.matching import new_weight, stored
from stepwell.passes.graph.simplification.data_movement import sink_reshapes


@pattern(ConvOp)
def convolution_of_one_position(op: ConvOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: conv(x, w) -> reshape(matmul(reshape(x, [N, C * taps]), w as (C * taps, M)))   where the filters are as large as the image"""
    x, w, result = type_of(op.x), type_of(op.w), type_of(op.result)
    attributes = op.attribute_values()
    if any(attributes["pads"]) or attributes["group"] != 1:
        return NoMatch("it has padding or groups")
    if not is_static(x.shape[1:]) or None in x.shape or x.shape[2:] != w.shape[2:]:
        return NoMatch(f"its filters ({w}) are not as large as its image ({x})")
    filters = expect(stored(op.w, rw.weights), "its filters are not known")
    matrix = filters.reshape(len(filters), -1).T
    row = rw.reshape(op.x, shape=[x.shape[0], prod(static_sizes(x.shape[1:]))])
    return rw.reshape(rw.matmul(row, new_weight(rw, op.w, np.ascontiguousarray(matrix))), shape=result.shape)


@register_pass("use-products", level="graph", optional=True)
class UseProducts(PatternPass):
    """Compute convolutions whose filters are as large as the image as matrix products, whose weights are streamed.

    These are fully connected layers written as convolutions. Element-wise ops after them move before the reshape.
    """

    patterns = (convolution_of_one_position, sink_reshapes)
