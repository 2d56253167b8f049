"""Lowerings of convolutions on channel-blocked data: contractions whose innermost loop runs over a block of channels."""

from typing import Any

from stepwell.dialects import graph
from stepwell.dialects.graph.blocked import BlockedConvOp, BlockedDepthwiseConvOp
from stepwell.dialects.mlir import ir
from stepwell.passes.graph_to_linalg.contraction import contract
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, dims
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering
from stepwell.passes.rewriting import NoMatch


@lowering(BlockedConvOp)
def lower_blocked_conv(op: BlockedConvOp, operands: Operands, b: LinalgBuilder) -> ir.Value | NoMatch:
    """Loops: image, block of filters, positions, filter of the block; then block of channels, taps, channel of the block."""
    problem = _dynamic(op)
    if problem is not None:
        return problem
    attributes, result = op.attribute_values(), op.result_types()[0]
    spatial = len(attributes["strides"])
    is_blocked = op.operand_types()[0].rank == 3 + spatial
    n, m, *positions = dims(*range(2 + spatial))
    f, c, *taps = dims(*range(2 + spatial, 4 + 2 * spatial))
    inner = dims(4 + 2 * spatial) if is_blocked else []
    window = [o * s + t * d for o, t, s, d in zip(positions, taps, attributes["strides"], attributes["dilations"], strict=True)]
    x_map, w_map = [n, c, *window, *inner], [m, c, *taps, *inner, f]
    return contract(b, operands[0], x_map, operands[1], w_map, result.dtype, list(result.static_shape), 1 + spatial + len(inner))


@lowering(BlockedDepthwiseConvOp)
def lower_blocked_depthwise_conv(op: BlockedDepthwiseConvOp, operands: Operands, b: LinalgBuilder) -> ir.Value | NoMatch:
    """Loops: image, block of channels, positions, channel of the block; then taps."""
    problem = _dynamic(op)
    if problem is not None:
        return problem
    attributes, result = op.attribute_values(), op.result_types()[0]
    spatial = len(attributes["strides"])
    n, block, *positions = dims(*range(2 + spatial))
    c, *taps = dims(*range(2 + spatial, 3 + 2 * spatial))
    window = [o * s + t * d for o, t, s, d in zip(positions, taps, attributes["strides"], attributes["dilations"], strict=True)]
    return contract(b, operands[0], [n, block, *window, c], operands[1], [block, *taps, c], result.dtype, list(result.static_shape), spatial)


def _dynamic(op: graph.GraphOp) -> NoMatch | None:
    types: list[Any] = op.operand_types()
    if all(t.is_static for t in types):
        return None
    return NoMatch(f"its image and filters must have static sizes, got {' and '.join(map(str, types))}")
