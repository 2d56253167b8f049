"""Patterns that merge the scales between a sum of products and the next quantisation."""

from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import defining_op, ir
from stepwell.dialects.core.types import to_numpy, type_of
from stepwell.dialects.graph import DequantizeOp, QuantizeOp, constant_value
from stepwell.dialects.graph.numerics import loses_digits
from stepwell.passes.framework.rewriting import NoMatch, Rewriter, expect, pattern
from stepwell.passes.graph.integer_products import WIDE
from stepwell.passes.graph.matching import for_each, fused_location, has_one_use, is_elementwise, is_float_op, producer
from stepwell.passes.graph.quantization.quantized import parameter

OPS_BACK = 16
"""The largest number of ops that the search for a product looks at."""


def reciprocal(scale: ir.Value, rw: Rewriter) -> np.ndarray | None:
    """1 / scale, if it is known, not 1, and a normal number."""
    array = constant_value(scale, rw.weights)
    if array is None or bool((array == 1).all()):
        return None
    with np.errstate(all="ignore"):
        inverse = (1 / array.astype(np.float64)).astype(array.dtype)
    good = np.isfinite(inverse) & (np.abs(inverse) >= np.finfo(array.dtype).smallest_normal)
    return inverse if bool(good.all()) else None


def follows_from_products(value: ir.Value) -> bool:
    """Whether element-wise ops lead from sums of products of integers to `value`: it is rounded in several places anyway."""
    pending, seen = [value], 0
    while pending and seen < OPS_BACK:
        op, seen = defining_op(pending.pop()), seen + 1
        if op is None:
            continue
        if op.name == "graph.conv" or (op.name == "graph.cast" and type_of(op.operands[0]).dtype == WIDE):
            return True
        pending += list(op.operands) if is_elementwise(op.opview) else []
    return False


@pattern(QuantizeOp)
def multiply_by_inverse_scale(op: QuantizeOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: quantize(x, s, z) -> quantize(x * (1 / s), 1, z)   may round to the neighbour if x / s is halfway between two integers

    Applies if x follows from sums of products, so that the factor can merge with theirs. A division takes as long as several multiplications.
    """
    inverse = expect(reciprocal(op.scale, rw), "its scale is not known, or 1, or has no reciprocal")
    if not follows_from_products(op.x):
        return NoMatch("what it quantises does not follow from sums of products")
    with op.location:
        one = rw.literal(np.ones((), inverse.dtype))
        return rw.quantize(rw.mul(op.x, parameter(rw, op.scale, inverse)), one, op.zero_point)


@pattern("graph.mul")
def merge_factors(op: ir.OpView, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: (x * a) * b -> x * (a * b)   one rounding less; relu(x * a) * b -> relu(x * (a * b)) for b > 0"""
    if not is_float_op(op):
        return NoMatch("integers wrap")
    relu = producer(op.lhs, "relu")
    inner = producer(op.lhs if relu is None else relu.x, "mul")
    if inner is None or not follows_from_products(inner.lhs):  # cheaper to test than whether values are known
        return NoMatch("it does not scale a scaled sum of integers")
    factor, first = constant_value(op.rhs, rw.weights), constant_value(inner.rhs, rw.weights)
    if factor is None or first is None:
        return NoMatch("it does not scale a scaled sum of integers")
    if not has_one_use(op.lhs) or (relu is not None and not has_one_use(relu.x)) or not bool((factor > 0).all()):
        return NoMatch("what it scales has another user, or the factor is not above 0")
    exact = first.astype(np.float64) * factor
    both = exact.astype(first.dtype)
    if not np.isfinite(both).all() or bool((((both == 0) & (first != 0)) | loses_digits(both, exact)).any()):
        return NoMatch("the merged factor would overflow, become 0 or lose digits")
    if both.size > max(first.size, factor.size) or inner.lhs.type != op.result.type:
        return NoMatch("the merged factor would be larger than either")
    with fused_location(inner, op):
        value: ir.Value = rw.mul(inner.lhs, parameter(rw, inner.rhs if first.size >= factor.size else op.rhs, both))
    if relu is not None:
        with relu.location:
            value = rw.relu(value)
    return value


@pattern(QuantizeOp)
def drop_bounds(op: QuantizeOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: quantize(relu(x), s, z) -> quantize(x, s, z)   if saturation cuts off everything below z; exact except for NaN, which becomes 0

    Likewise quantize(clamp(x, a, b), s, z), if saturation cuts off as much.
    """
    bounded = producer(op.x, "relu", "clamp")
    scale, zero = constant_value(op.scale, rw.weights), constant_value(op.zero_point, rw.weights)
    if bounded is None or scale is None or zero is None or not bool((scale > 0).all()):
        return NoMatch("its operand is not bounded, or its scale and zero point are not known")
    low, high = (0.0, np.inf) if bounded.mnemonic() == "relu" else (bounded.attribute_values()[name] for name in ("min", "max"))
    limits = np.iinfo(to_numpy(type_of(op.result).dtype))
    with np.errstate(over="ignore", invalid="ignore"):
        least, most = (np.rint(np.float64(bound) / scale.astype(np.float64)) + zero for bound in (low, high))
    if bool((least > limits.min).any() or (most < limits.max).any()):
        return NoMatch("its type holds numbers beyond the bounds")
    return rw.quantize(bounded.x, op.scale, op.zero_point)


@for_each((QuantizeOp, DequantizeOp))
def settle_parameters(op: Any, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: quantize(x, f(c), g(d)) -> quantize(x, c', d')   for known scales and zero points: entries of the weight table, or 0

    Thus kernels that differ only in such numbers are shared. Likewise for dequantize.
    """
    operands = [op.scale, op.zero_point]
    for number, given in enumerate(operands):
        array, made = constant_value(given, rw.weights), producer(given, "parameter", "constant")
        if array is None:
            continue
        if number == 1 and not array.any():
            if made is None or made.mnemonic() == "parameter" or array.ndim:
                operands[1] = rw.literal(np.zeros((), array.dtype))
        elif made is None or (array.size == 1 and array.ndim):
            operands[number] = parameter(rw, given, array.reshape(()) if array.size == 1 else array)
    if operands == [op.scale, op.zero_point]:
        return NoMatch("its scale and zero point are not known, or are as they should be")
    return rw.create(type(op), [op.x, *operands], {}).operation.results[0]


SCALES = (multiply_by_inverse_scale, merge_factors, drop_bounds, *settle_parameters)
