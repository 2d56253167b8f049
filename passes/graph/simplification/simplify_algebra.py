"""The pass that rewrites arithmetic by algebra that floating point allows; inexact rules state what may change."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from stepwell.dialects import graph
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import compute_dtype, is_float, is_unsigned, to_numpy, type_of
from stepwell.passes.framework.registry import register_pass
from stepwell.passes.framework.rewriting import NoMatch, Pattern, PatternPass, Rewriter, expect, pattern
from stepwell.passes.graph.matching import for_each, fused_location, is_float_op, is_stored, keeps_type, new_weight, producer, splat_of, stored
from stepwell.passes.graph.ranges import range_of_result
from stepwell.passes.graph.simplification.data_movement import DATA_MOVEMENT
from stepwell.passes.graph.simplification.merge_constants import MERGE_CONSTANTS
from stepwell.passes.graph.simplification.remove_identities import drop_reshape, drop_transpose, merge_reshapes, merge_transposes

EXACT_INTEGERS = 1 << 53  # smaller integers are exact as attributes, which are f64
ALL_OF_TANH = 20.0  # from here on tanh(log(1 + exp(x))) is 1 in f64 too
BROADCASTS = NoMatch("the other operand broadcasts it to another shape")


def neutral_operand(cls: Any, name: str, neutral: Sequence[float], rule: str) -> Pattern:
    """The pattern that drops the right operand if all of its elements are one of the `neutral` values; `rule` is its description."""

    def rewrite(op: ir.OpView, rw: Rewriter) -> ir.Value | NoMatch:
        value = splat_of(op.rhs, rw)
        if value is None or float(value) not in neutral:
            return NoMatch("no operand is known to be neutral everywhere")
        return op.lhs if keeps_type(op, op.lhs) else BROADCASTS

    rewrite.__doc__ = f"rewrite: {rule}   exact but for the sign of a zero"
    return Pattern(name, cls.OPERATION_NAME, rewrite)


# Exact, except for the sign of a zero: -0 + 0 is 0, and becomes -0. ONNX does not specify signs of zeros, and sums start at 0 anyway.
NEUTRAL = (
    neutral_operand(graph.AddOp, "add_zero", [0.0], "x + 0 -> x"),
    neutral_operand(graph.SubOp, "sub_zero", [0.0], "x - 0 -> x"),
    neutral_operand(graph.MulOp, "mul_one", [1.0], "x * 1 -> x"),
    neutral_operand(graph.DivOp, "div_one", [1.0], "x / 1 -> x"),
    neutral_operand(graph.PowOp, "pow_one", [1.0], "x ** 1 -> x"),
)


@pattern(graph.MulOp)
def integer_mul_zero(op: graph.MulOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: x * 0 -> 0  for integers; for floats it is not true (NaN and infinities)"""
    result = type_of(op.result)
    if is_float(result.dtype):
        return NoMatch("a float times 0 is not 0 where the float is NaN or infinite")
    if splat_of(op.rhs, rw) != 0 or not result.is_static:
        return NoMatch("the right operand is not known to be 0, or the result's shape is not known")
    if type_of(op.rhs) == result:
        return op.rhs
    return rw.expand(op.rhs, shape=result.static_shape)


@pattern(graph.SubOp)
def add_negated(op: graph.SubOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: x - c -> x + (-c)   exact"""
    constant = stored(op.rhs, rw.weights)
    if constant is None or is_stored(op.lhs):
        return NoMatch("its right operand is not the one known operand")
    if is_unsigned(type_of(op.rhs).dtype):
        return NoMatch("an unsigned constant has no negative")
    with np.errstate(over="ignore"):  # the smallest integer is its own negative, and adding it is the same as subtracting it
        negative = np.negative(constant)
    return rw.add(op.lhs, new_weight(rw, op.rhs, negative))


@pattern(graph.SubOp)
def negate(op: graph.SubOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: 0 - x -> neg(x)   exact but for the sign of a zero"""
    if splat_of(op.lhs, rw) != 0 or not keeps_type(op, op.rhs) or is_unsigned(type_of(op.rhs).dtype):
        return NoMatch("the left operand is not 0 of the right one's type")
    return rw.neg(op.rhs)


@pattern(graph.MulOp)
def negate_product(op: graph.MulOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: x * -1 -> neg(x)   exact"""
    if splat_of(op.rhs, rw) != -1 or not keeps_type(op, op.lhs) or is_unsigned(type_of(op.lhs).dtype):
        return NoMatch("the right operand is not -1 of the left one's type")
    return rw.neg(op.lhs)


@pattern(graph.DivOp)
def multiply_by_reciprocal(op: graph.DivOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: x / c -> x * (1 / c)  where every element of c is a power of two whose reciprocal is a normal number: exact"""
    constant = stored(op.rhs, rw.weights)
    if constant is None or not is_float_op(op):
        return NoMatch("it does not divide floats by a known constant")
    wide = constant.astype(np.float64)
    if not bool(np.all(np.isfinite(wide) & (np.abs(np.frexp(wide)[0]) == 0.5))):
        return NoMatch("the divisor is not a power of two everywhere, so the quotients would be rounded twice")
    with np.errstate(over="ignore"):
        reciprocal = (1.0 / wide).astype(constant.dtype)
    least = ml_dtypes.finfo(constant.dtype).smallest_normal
    if not bool(np.all(np.isfinite(reciprocal) & (np.abs(reciprocal) >= least))):
        return NoMatch("a reciprocal would leave the normal numbers")
    return rw.mul(op.lhs, new_weight(rw, op.rhs, reciprocal))


@pattern(graph.DivOp)
def take_reciprocal(op: graph.DivOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: 1 / x -> reciprocal(x)   exact"""
    if not is_float_op(op) or splat_of(op.lhs, rw) != 1 or not keeps_type(op, op.rhs):
        return NoMatch("the left operand is not 1 of the right one's shape")
    return rw.reciprocal(op.rhs)


@pattern(graph.PowOp)
def expand_power(op: graph.PowOp, rw: Rewriter) -> ir.Value | NoMatch:
    """Replace powers that have a cheaper form.

    rewrite: x ** 2 -> x * x          exact: one rounding, as a correctly rounded power has
    rewrite: x ** 3 -> x * x * x      two roundings, within 1 ULP of the power
    rewrite: x ** -1 -> reciprocal(x) exact
    rewrite: x ** 0.5 -> sqrt(x)      differs at minus infinity (NaN instead of infinity) and in the sign of the root of -0; ONNX
                                      exporters write square roots in this way
    """
    exponent = splat_of(op.rhs, rw)
    if exponent is None or not keeps_type(op, op.lhs):
        return NoMatch("the exponent is not one known number, or broadcasts the base")
    x, power = op.lhs, float(exponent)
    if power == 2:
        return rw.mul(x, x)
    if power == 3:
        return rw.mul(rw.mul(x, x), x)
    if power == -1 and is_float_op(op):
        return rw.reciprocal(x)
    if power == 0.5 and is_float_op(op):
        return rw.sqrt(x)
    return NoMatch(f"the exponent {power} has no cheaper form")


@pattern(graph.TanhOp)
def rewrite_tanh_softplus(op: graph.TanhOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: tanh(softplus(x)) -> n / (n + 2),  n = e (e + 2),  e = exp(min(x, 20))   four roundings after the exponential, no cancellation

    That is `tanh(log(u)) = (u^2 - 1) / (u^2 + 1)` with `u = 1 + e`: one function instead of three. Narrow floats, which hold neither e^20 nor n, are
    computed in f32.
    """
    inner = expect(producer(op.x, "softplus"), "its operand is not a softplus")
    x = inner.x
    dtype = type_of(x).dtype
    with fused_location(inner, op):
        wide = x if dtype == compute_dtype(dtype) else rw.cast(x, to=compute_dtype(dtype), saturate=True)
        two = rw.literal(np.array(2, to_numpy(type_of(wide).dtype)))
        power = rw.exp(rw.clamp(wide, min=-math.inf, max=ALL_OF_TANH))
        n = rw.mul(power, rw.add(power, two))
        value: ir.Value = rw.div(n, rw.add(n, two))
        return value if wide is x else rw.cast(value, to=dtype, saturate=True)


@for_each((graph.NegOp, graph.NotOp, graph.BitwiseNotOp))
def undo_involution(op: Any, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: f(f(x)) -> x  for neg, not and bitwise_not: exact, integers wrap (and not for reciprocal: each rounds)"""
    inner = expect(producer(op.x, type(op).mnemonic()), "its operand is not the same op")
    return inner.x


@for_each((graph.ReluOp, graph.AbsOp))
def drop_repeated(op: ir.OpView, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: relu(x) -> x, abs(x) -> x  where x is made by an op that never gives anything below 0   exact

    For the smallest integer, `abs` returns it unchanged: a second `abs` does so, too, but `relu` returns 0.
    """
    value: ir.Value = op.x
    twice = isinstance(op, graph.AbsOp) and producer(value, "abs") is not None
    return value if twice or range_of_result(value)[0] >= 0 else NoMatch("its operand may be negative")


@pattern(graph.AbsOp)
def drop_sign(op: graph.AbsOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: abs(neg(x)) -> abs(x)   exact"""
    inner = expect(producer(op.x, "neg"), "its operand is no negation")
    return rw.abs(inner.x)


def bound_by_constant(cls: Any, name: str, rule: str, bounds: Callable[[float], dict[str, float]]) -> Pattern:
    """The pattern that turns a maximum or minimum with one known number into a clamp; `rule` is its description."""

    def rewrite(op: ir.OpView, rw: Rewriter) -> ir.Value | NoMatch:
        bound = splat_of(op.rhs, rw)
        if bound is None or not keeps_type(op, op.lhs):
            return NoMatch("its right operand is not one known number, or broadcasts the left one")
        if not is_float_op(op) and abs(int(bound)) > EXACT_INTEGERS:
            return NoMatch("the bound is not exact as an attribute")
        return rw.clamp(op.lhs, **bounds(float(bound)))

    rewrite.__doc__ = f"rewrite: {rule}   exact"
    return Pattern(name, cls.OPERATION_NAME, rewrite)


BOUNDS = (
    bound_by_constant(graph.MaximumOp, "maximum_to_clamp", "maximum(x, c) -> clamp(x, c, inf)", lambda c: {"min": c, "max": math.inf}),
    bound_by_constant(graph.MinimumOp, "minimum_to_clamp", "minimum(x, c) -> clamp(x, -inf, c)", lambda c: {"min": -math.inf, "max": c}),
)


def bounds_of(op: Any) -> tuple[float, float] | None:
    """The bounds of a clamp, or of a relu taken as one; None for any other op."""
    if op is None:
        return None
    return (0.0, math.inf) if isinstance(op, graph.ReluOp) else (float(op.attribute_values()["min"]), float(op.attribute_values()["max"]))


@for_each((graph.ClampOp, graph.ReluOp))
def merge_bounds(op: ir.OpView, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: clamp(clamp(x, a, b), c, d) -> clamp(x, bounds a and b brought into c to d), relu being clamp(x, 0, inf)   exact"""
    inner = producer(op.x, "clamp", "relu")
    first, second = bounds_of(inner), bounds_of(op)
    if first is None or second is None:
        return NoMatch("its operand has no bounds")
    low, high = (min(max(bound, second[0]), second[1]) for bound in (min(first), first[1]))
    with fused_location(inner, op):
        return rw.clamp(inner.x, min=low, max=high)


@pattern(graph.ClampOp)
def clamp_to_relu(op: graph.ClampOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: clamp(x, 0, inf) -> relu(x)   exact"""
    if bounds_of(op) != (0.0, math.inf):
        return NoMatch("its bounds are not 0 and infinity")
    return rw.relu(op.x)


@register_pass("simplify-algebra", level="graph", optional=True)
class SimplifyAlgebra(PatternPass):
    """Rewrite arithmetic to cheaper forms that give the same numbers, as far as floating point allows.

    NaN and infinities are respected. If a rewrite is not bit-exact, its pattern states what may change. Ops that move past element-wise ops merge
    when they meet another of their kind, so a long sequence takes linear, not quadratic, time.
    """

    top_down = True
    patterns = (
        *NEUTRAL, integer_mul_zero, add_negated, negate, negate_product, multiply_by_reciprocal, take_reciprocal,
        expand_power, rewrite_tanh_softplus, *undo_involution, *drop_repeated, drop_sign, *BOUNDS, *merge_bounds, clamp_to_relu,
        *MERGE_CONSTANTS, *DATA_MOVEMENT, drop_reshape, merge_reshapes, drop_transpose, merge_transposes,
    )  # fmt: skip
