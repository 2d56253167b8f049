"""Lowerings of normalisations over channels."""

from stepwell.dialects import graph
from stepwell.dialects.mlir import ir, math
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, dims
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering
from stepwell.passes.graph_to_linalg.scalars import Scalars
from stepwell.passes.graph_to_linalg.windows import padded
from stepwell.passes.rewriting import NoMatch


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
    window = b.empty(s.dtype, [size])
    image, tap = dims(*range(result.rank)), ir.AffineExpr.get_dim(result.rank)
    maps = [[image[0], image[1] + tap, *image[2:]], [tap], image]
    around = b.generic([squares, window], b.filled(0, s.dtype, b.sizes(x)), maps, 1, lambda v, _, total: s.accumulate("add", v, total))

    def quotient(v: ir.Value, total: ir.Value) -> ir.Value:
        base = s.add(s.const(attributes["bias"]), s.mul(s.const(attributes["alpha"] / size), total))
        return s.div(v, positive_power(s, base, attributes["beta"]))

    return b.elementwise([x, around], result.dtype, b.sizes(x), quotient)


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
