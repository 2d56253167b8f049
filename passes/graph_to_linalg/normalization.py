"""Lowerings of normalisations over channels."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stepwell.dialects import graph
from stepwell.dialects.core.mlir import ir, math
from stepwell.dialects.core.types import to_numpy
from stepwell.dialects.graph.blocked import BlockedLrnOp
from stepwell.passes.framework.rewriting import NoMatch
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, OpFoldResult, dims
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering
from stepwell.passes.graph_to_linalg.scalars import Scalars
from stepwell.passes.graph_to_linalg.windows import padded


@lowering(graph.BatchNormOp)
def lower_batch_norm(op: graph.BatchNormOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """rewrite: batch_norm(x) -> (x - mean) * k + bias,  k = scale / sqrt(variance + epsilon)"""
    x, scale, bias, mean, variance = operands
    result, epsilon = op.result_types()[0], op.attribute_values()["epsilon"]
    s = Scalars(b, result.dtype)
    channels = b.sizes(scale)
    factor = b.elementwise([scale, variance], s.dtype, channels, lambda k, v: s.div(k, s.call(math.SqrtOp, s.add(v, s.const(epsilon)))))
    return b.elementwise(
        [x, mean, factor, bias],
        result.dtype,
        b.sizes(x),
        lambda v, m, k, shift: s.multiply_accumulate(s.sub(v, m), k, shift),
        loops={1: [1], 2: [1], 3: [1]},
    )


@lowering(graph.LrnOp)
def lower_lrn(op: graph.LrnOp, operands: Operands, b: LinalgBuilder) -> ir.Value | NoMatch:
    """Squares in a buffer with zero channels around, their sum over each channel's neighbours, and the quotient by its power."""
    (x,), result, attributes = operands, op.result_types()[0], op.attribute_values()
    if result.shape[1] is None:
        return NoMatch(f"its channels must be static, got {result}")
    size, rest = attributes["size"], [0] * (result.rank - 2)
    s = Scalars(b, result.dtype)
    squares = b.elementwise([x], s.dtype, b.sizes(x), lambda v: s.mul(v, v))
    squares = padded(b, squares, s.dtype, [0, (size - 1) // 2, *rest], [0, size // 2, *rest], 0)
    image, tap = dims(*range(result.rank)), ir.AffineExpr.get_dim(result.rank)
    around = _sums(b, s, squares, [image[0], image[1] + tap, *image[2:]], image, b.sizes(x), size)
    return b.elementwise([x, around], result.dtype, b.sizes(x), lambda v, total: _quotient(s, v, total, attributes))


@lowering(BlockedLrnOp)
def lower_blocked_lrn(op: BlockedLrnOp, operands: Operands, b: LinalgBuilder) -> ir.Value | NoMatch:
    """As for `lrn`, but the squares of all channels of a position lie side by side, so that vectors of neighbours are read across blocks."""
    (x,), result, attributes = operands, op.result_types()[0], op.attribute_values()
    sizes, (_, blocks, *_, block) = b.given_all(result.shape), result.shape
    if sizes is None or not isinstance(blocks, int) or not isinstance(block, int):
        return NoMatch(f"its channels must be static, got {result}")
    (images, _, *places, _), size, channels = sizes, attributes["size"], attributes["channels"]
    s = Scalars(b, result.dtype)
    holds = (np.arange(blocks * block) < channels).reshape(blocks, block)
    filled = [] if holds.all() else [b.constant(holds.astype(to_numpy(s.dtype)))]

    def kept(value: ir.Value, holds_channel: Sequence[ir.Value]) -> ir.Value:
        return s.select(s.compare("ne", holds_channel[0], s.const(0)), value, s.const(0)) if holds_channel else value

    def square(v: ir.Value, *rest: ir.Value) -> ir.Value:
        v = b.widen(v)
        return kept(s.mul(v, v), rest[:-1])

    n, *positions, m, lane = dims(*range(result.rank))  # blocks inside of positions, as the squares lie
    image = [n, m, *positions, lane]
    apart = b.empty(s.dtype, [images, *places, blocks, block])
    squares = b.generic([x, *filled], apart, [image, *([m, lane] for _ in filled), [n, *positions, m, lane]], 0, square)
    merged = [*([i] for i in range(len(places) + 1)), [len(places) + 1, len(places) + 2]]
    squares = b.reshape(squares, merged, [images, *places, blocks * block])
    rest = [0] * (len(places) + 1)
    squares = padded(b, squares, s.dtype, [*rest, (size - 1) // 2], [*rest, size // 2], 0)
    tap = ir.AffineExpr.get_dim(result.rank)
    around = _sums(b, s, squares, [n, *positions, m * block + lane + tap], image, sizes, size)
    return b.elementwise(
        [x, around, *filled],
        result.dtype,
        sizes,
        lambda v, total, *rest: kept(_quotient(s, v, total, attributes), rest),
        loops={2: [1, result.rank - 1]},
    )


def _sums(
    b: LinalgBuilder, s: Scalars, squares: ir.Value, read: Sequence[Any], image: Sequence[Any], sizes: Sequence[OpFoldResult], size: int
) -> ir.Value:
    """The sums, of shape `sizes`, of `size` squares each: for the element at `image` those at `read`, of which the last loop is the tap."""
    tap = ir.AffineExpr.get_dim(len(sizes))
    window = b.empty(s.dtype, [size])
    return b.generic([squares, window], b.filled(0, s.dtype, sizes), [read, [tap], image], 1, lambda v, _, total: s.accumulate("add", v, total))


def _quotient(s: Scalars, v: ir.Value, total: ir.Value, attributes: Mapping[str, Any]) -> ir.Value:
    base = s.add(s.const(attributes["bias"]), s.mul(s.const(attributes["alpha"] / attributes["size"]), total))
    return s.div(v, positive_power(s, base, attributes["beta"]))


def positive_power(s: Scalars, base: ir.Value, exponent: float) -> ir.Value:
    """`base ** exponent`; exponents that are multiples of 1/4 up to 1 by square roots, which vectors have."""
    if exponent == 1:
        return base
    if exponent == 0.5:
        return s.call(math.SqrtOp, base)
    if exponent == 0.75:
        root = s.call(math.SqrtOp, base)
        return s.mul(root, s.call(math.SqrtOp, root))
    return s.call(math.PowFOp, base, s.const(exponent))
