"""Lowerings of normalisations over channels."""

from collections.abc import Mapping, Sequence
from typing import Any

from stepwell.dialects import graph
from stepwell.dialects.core.mlir import ir, math
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
def lower_lrn(op: graph.LrnOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """Squares in a buffer with a border of zero channels, their sum over each channel's neighbours, and the quotient by its power."""
    (x,), result, attributes = operands, op.result_types()[0], op.attribute_values()
    size, rest = attributes["size"], [0] * (result.rank - 2)
    s = Scalars(b, result.dtype)
    squares = b.elementwise([x], s.dtype, b.sizes(x), lambda v: s.mul(v, v))
    squares = padded(b, squares, s.dtype, [0, (size - 1) // 2, *rest], [0, size // 2, *rest], 0)
    image, tap = dims(*range(result.rank)), ir.AffineExpr.get_dim(result.rank)
    around = sums_around(b, s, squares, [image[0], image[1] + tap, *image[2:]], image, b.sizes(x), size)
    return b.elementwise([x, around], result.dtype, b.sizes(x), lambda v, total: normalised(s, v, total, attributes))


def sums_around(
    b: LinalgBuilder, s: Scalars, squares: ir.Value, read: Sequence[Any], image: Sequence[Any], sizes: Sequence[OpFoldResult], size: int
) -> ir.Value:
    """The sums, of shape `sizes`, of `size` squares each: for the element at `image` those at `read`, whose last loop is the tap."""
    tap = ir.AffineExpr.get_dim(len(sizes))
    window = b.empty(s.dtype, [size])
    return b.generic([squares, window], b.filled(0, s.dtype, sizes), [read, [tap], image], 1, lambda v, _, total: s.accumulate("add", v, total))


def normalised(s: Scalars, v: ir.Value, total: ir.Value, attributes: Mapping[str, Any]) -> ir.Value:
    """An element over the power of the sum of squares around it."""
    base = s.add(s.const(attributes["bias"]), s.mul(s.const(attributes["alpha"] / attributes["size"]), total))
    return s.div(v, positive_power(s, base, attributes["beta"]))


def positive_power(s: Scalars, base: ir.Value, exponent: float) -> ir.Value:
    """`base ** exponent`; multiples of 1/4 up to 1 are computed by square roots, which have vector instructions."""
    if exponent == 1:
        return base
    if exponent == 0.5:
        return s.call(math.SqrtOp, base)
    if exponent == 0.75:
        root = s.call(math.SqrtOp, base)
        return s.mul(root, s.call(math.SqrtOp, root))
    return s.call(math.PowFOp, base, s.const(exponent))
