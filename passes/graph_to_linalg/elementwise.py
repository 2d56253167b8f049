"""Lowerings of element-wise ops: one linalg.generic each, with the identity map on its result."""

import math as pymath
from collections.abc import Callable
from typing import Any, TypeAlias

from stepwell.dialects import graph
from stepwell.dialects.core.mlir import arith, constant_attribute, ir, math, scf
from stepwell.dialects.core.types import dtype_info, is_unsigned
from stepwell.dialects.graph import GraphOp
from stepwell.dialects.graph.elementwise import integer_bound
from stepwell.passes.graph_to_linalg.casts import bounded, cast, rounded
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, element
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering
from stepwell.passes.graph_to_linalg.scalars import Scalars

# The computation of an op for one element: `body(s, *operands, **attributes)`, where `s` computes in the operands' type.
Body: TypeAlias = Callable[..., ir.Value]


def calls(function: Any) -> Body:
    """A body consisting of one op of the math dialect."""
    return lambda s, x: s.call(function, x)


def compares(predicate: str) -> Body:
    """A body consisting of one comparison."""
    return lambda s, x, y: s.compare(predicate, x, y)


def bits(function: Any) -> Body:
    """A body consisting of one bitwise op."""
    return lambda s, x, y: function(x, y).result


def sign(s: Scalars, x: ir.Value) -> ir.Value:
    """-1, 0 or 1; a NaN stays."""
    zero, one = s.const(0), s.const(1)
    if s.is_unsigned:
        return s.select(s.compare("ne", x, zero), one, zero)
    rest = s.add(x, zero) if s.is_float else zero  # NaN or 0, without its sign
    below = s.select(s.compare("lt", x, zero), s.const(-1), rest)
    return s.select(s.compare("gt", x, zero), one, below)


def sigmoid(s: Scalars, x: ir.Value) -> ir.Value:
    """`1 / (1 + exp(-x))` by the exponential that cannot overflow."""
    small = s.call(math.ExpOp, s.neg(s.abs(x)))  # never overflows
    one = s.const(1)
    return s.div(s.select(s.compare("lt", x, s.const(0)), small, one), s.add(one, small))


def softplus(s: Scalars, x: ir.Value) -> ir.Value:
    """`log(1 + exp(x))` = `max(x, 0) + log1p(exp(-|x|))`."""
    return s.add(s.maximum(x, s.const(0)), s.call(math.Log1pOp, s.call(math.ExpOp, s.neg(s.abs(x)))))


def leaky_relu(s: Scalars, x: ir.Value, *, alpha: float) -> ir.Value:
    """`x` if it is not negative, else `alpha * x`."""
    return s.select(s.compare("lt", x, s.const(0)), s.mul(s.const(alpha), x), x)


def elu(s: Scalars, x: ir.Value, *, alpha: float) -> ir.Value:
    """`x` if it is not negative, else `alpha * (exp(x) - 1)`."""
    return s.select(s.compare("lt", x, s.const(0)), s.mul(s.const(alpha), s.call(math.ExpM1Op, x)), x)


def clamp(s: Scalars, x: ir.Value, *, min: float, max: float) -> ir.Value:
    """`min(max(x, min), max)`, without infinite bounds."""
    low, high = dtype_info(s.dtype).extremes
    if min > low:
        x = s.maximum(x, s.const(min if s.is_float else integer_bound(min, low, high)))
    if max < high:
        x = s.minimum(x, s.const(max if s.is_float else integer_bound(max, low, high)))
    return x


def modulo(s: Scalars, x: ir.Value, y: ir.Value, *, fmod: bool) -> ir.Value:
    """The remainder, with the sign of `x` if `fmod`, else of `y`."""
    rest = s.rem(x, y)
    if fmod or s.is_unsigned:
        return rest
    zero = s.const(0)
    differ = arith.XOrIOp(s.compare("lt", rest, zero), s.compare("lt", y, zero)).result
    nonzero = s.compare("ne", rest, zero)
    if s.is_float:
        moved = s.select(differ, s.add(rest, y), rest)
        return s.select(nonzero, moved, s.call(math.CopySignOp, zero, y))
    return s.select(arith.AndIOp(differ, nonzero).result, s.add(rest, y), rest)


def power(s: Scalars, x: ir.Value, y: ir.Value) -> ir.Value:
    """`x ** y`; for integers by repeated squaring, in one loop over the exponent's bits."""
    if s.is_float:
        if _is_constant(y, 2.0):
            return s.mul(x, x)
        return s.call(math.PowFOp, x, y)
    one, zero = s.const(1), s.const(0)
    loop = scf.ForOp(s.b.index(0), s.b.index(s.width), s.b.index(1), [one, x, y])
    with ir.InsertionPoint(loop.body):
        result, square, exponent = loop.inner_iter_args
        odd = s.compare("ne", arith.AndIOp(exponent, one).result, zero)
        product = s.select(odd, s.mul(result, square), result)
        scf.YieldOp([product, s.mul(square, square), arith.ShRUIOp(exponent, one).result])
    if s.is_unsigned:
        return loop.results[0]
    odd = s.compare("ne", arith.AndIOp(y, one).result, zero)
    of_minus_one = s.select(s.compare("eq", x, s.const(-1)), s.select(odd, x, one), zero)
    reciprocal = s.select(s.compare("eq", x, one), one, of_minus_one)
    return s.select(s.compare("lt", y, zero), reciprocal, loop.results[0])


def _is_constant(value: ir.Value, wanted: float) -> bool:
    attribute = constant_attribute(value)
    return isinstance(attribute, (ir.FloatAttr, ir.IntegerAttr)) and attribute.value == wanted


def shift(function: Any) -> Body:
    """A shift; 0 if it moves all bits out."""

    def body(s: Scalars, x: ir.Value, y: ir.Value) -> ir.Value:
        zero = s.const(0)
        inside = s.compare("lt", y, s.const(s.width))
        return s.select(inside, function(x, s.select(inside, y, zero)).result, zero)

    return body


def is_inf(s: Scalars, x: ir.Value, *, detect_negative: bool, detect_positive: bool) -> ir.Value:
    """A comparison with the requested infinities."""
    infinity = s.const(pymath.inf)
    if detect_negative and detect_positive:
        return s.compare("eq", s.abs(x), infinity)
    if not detect_negative and not detect_positive:
        return s.b.scalar(False, "i1")
    return s.compare("eq", x, infinity if detect_positive else s.const(-pymath.inf))


ELEMENTWISE: dict[type[GraphOp], Body] = {
    graph.AddOp: Scalars.add,
    graph.SubOp: Scalars.sub,
    graph.MulOp: Scalars.mul,
    graph.DivOp: Scalars.div,
    graph.ModOp: modulo,
    graph.PowOp: power,
    graph.MaximumOp: Scalars.maximum,
    graph.MinimumOp: Scalars.minimum,
    graph.NegOp: Scalars.neg,
    graph.AbsOp: Scalars.abs,
    graph.SignOp: sign,
    graph.ReciprocalOp: lambda s, x: s.div(s.const(1), x),
    graph.FloorOp: calls(math.FloorOp),
    graph.CeilOp: calls(math.CeilOp),
    graph.RoundOp: calls(math.RoundEvenOp),
    graph.ReluOp: lambda s, x: s.maximum(x, s.const(0)),
    graph.LeakyReluOp: leaky_relu,
    graph.EluOp: elu,
    graph.ClampOp: clamp,
    graph.SqrtOp: calls(math.SqrtOp),
    graph.RsqrtOp: lambda s, x: s.div(s.const(1), s.call(math.SqrtOp, x)),
    graph.ExpOp: calls(math.ExpOp),
    graph.LogOp: calls(math.LogOp),
    graph.SinOp: calls(math.SinOp),
    graph.CosOp: calls(math.CosOp),
    graph.TanOp: calls(math.TanOp),
    graph.AsinOp: calls(math.AsinOp),
    graph.AcosOp: calls(math.AcosOp),
    graph.AtanOp: calls(math.AtanOp),
    graph.SinhOp: calls(math.SinhOp),
    graph.CoshOp: calls(math.CoshOp),
    graph.TanhOp: calls(math.TanhOp),
    graph.AsinhOp: calls(math.AsinhOp),
    graph.AcoshOp: calls(math.AcoshOp),
    graph.AtanhOp: calls(math.AtanhOp),
    graph.ErfOp: calls(math.ErfOp),
    graph.SigmoidOp: sigmoid,
    graph.SoftplusOp: softplus,
    graph.EqualOp: compares("eq"),
    graph.LessOp: compares("lt"),
    graph.LessEqualOp: compares("le"),
    graph.GreaterOp: compares("gt"),
    graph.GreaterEqualOp: compares("ge"),
    graph.AndOp: bits(arith.AndIOp),
    graph.OrOp: bits(arith.OrIOp),
    graph.XorOp: bits(arith.XOrIOp),
    graph.NotOp: lambda s, x: arith.XOrIOp(x, s.const(1)).result,
    graph.BitwiseAndOp: bits(arith.AndIOp),
    graph.BitwiseOrOp: bits(arith.OrIOp),
    graph.BitwiseXorOp: bits(arith.XOrIOp),
    graph.BitwiseNotOp: lambda s, x: arith.XOrIOp(x, s.const(-1)).result,
    graph.ShiftLeftOp: shift(arith.ShLIOp),
    graph.ShiftRightOp: shift(arith.ShRUIOp),
    graph.IsNanOp: lambda s, x: s.compare("ne", x, x),
    graph.IsInfOp: is_inf,
}


@lowering(*ELEMENTWISE)
def lower_elementwise(op: GraphOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """One generic whose body comes from the table."""
    return one_generic(op, operands, b, ELEMENTWISE[type(op)])


def one_generic(op: GraphOp, operands: Operands, b: LinalgBuilder, body: Body) -> ir.Value:
    """An element-wise op as one generic with this body."""
    s, attributes, result = Scalars(b, op.operand_types()[0].dtype), op.attribute_values(), op.result_types()[0]
    return b.elementwise(operands, result.dtype, b.given_all(result.shape), lambda *xs: body(s, *xs, **attributes))


@lowering(graph.SelectOp)
def lower_select(op: GraphOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """One generic that selects elements unchanged."""
    result = op.result_types()[0]
    return b.elementwise(operands, result.dtype, b.given_all(result.shape), lambda c, x, y: arith.SelectOp(c, x, y).result, exact=True)


@lowering(graph.CastOp)
def lower_cast(op: GraphOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """One generic that converts each element."""
    source, result = op.operand_types()[0].dtype, op.result_types()[0]
    saturate = op.attribute_values()["saturate"]
    return b.elementwise(operands, result.dtype, b.sizes(operands[0]), lambda x: cast(b, x, source, result.dtype, saturate), exact=True)


@lowering(graph.QuantizeOp)
def lower_quantize(op: GraphOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """One generic: a quotient clamped to the type's range minus the zero point, rounded to an integer, plus the zero point."""
    s, result = Scalars(b, "f32"), op.result_types()[0]

    def body(x: ir.Value, scale: ir.Value, zero: ir.Value) -> ir.Value:
        quotient = x if _is_constant(scale, 1.0) else s.div(x, scale)
        return rounded(b, s, quotient, result.dtype, None if _is_constant(zero, 0) else zero)

    return b.elementwise(operands, result.dtype, b.given_all(result.shape), body)


@lowering(graph.DequantizeOp)
def lower_dequantize(op: GraphOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """One generic: a difference in i32, times the scale."""
    source, result = op.operand_types()[0].dtype, op.result_types()[0]
    integers, floats = Scalars(b, "i32"), Scalars(b, "f32")

    def body(x: ir.Value, scale: ir.Value, zero: ir.Value) -> ir.Value:
        difference = integers.sub(*(cast(b, v, source, "i32", False) for v in (x, zero)))
        return floats.mul(cast(b, difference, "i32", "f32", False), scale)

    return b.elementwise(operands, result.dtype, b.given_all(result.shape), body)


@lowering(graph.FakeQuantizeOp)
def lower_fake_quantize(op: GraphOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """One generic: a number clamped to the type's range minus the zero point, rounded."""
    result, zero_point = op.operand_types()
    s = Scalars(b, "f32")

    def body(x: ir.Value, zero: ir.Value) -> ir.Value:
        shift = None if _is_constant(zero, 0) else cast(b, zero, zero_point.dtype, "f32", False)
        whole = s.call(math.RoundEvenOp, bounded(s, x, zero_point.dtype, shift))
        if is_unsigned(zero_point.dtype):
            return whole
        nothing = s.const(0) if shift is None else s.sub(s.const(0), shift)
        return s.select(s.compare("ne", x, x), nothing, whole)

    return b.elementwise(operands, result.dtype, b.given_all(result.shape), body)


@lowering(graph.BitCastOp)
def lower_bit_cast(op: GraphOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """One generic that reinterprets each element's bits; signed and unsigned integers are the same below this level."""
    to = op.result_types()[0].dtype
    kind = element(to)

    def body(x: ir.Value) -> ir.Value:
        return x if x.type == kind else arith.BitcastOp(kind, x).result

    return b.elementwise(operands, to, b.sizes(operands[0]), body, exact=True)
