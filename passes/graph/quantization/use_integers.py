"""The pass that computes products of dequantised data in integers, and moves and stores such data as integers."""

from functools import reduce
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import defining_op, ir
from stepwell.dialects.core.types import to_numpy, type_of
from stepwell.dialects.graph import AddOp, DequantizeOp, constant_value
from stepwell.dialects.graph.products import SumOfProducts, changes_along_sum
from stepwell.dialects.graph.traits import SumsProducts
from stepwell.passes.framework.registry import register_pass
from stepwell.passes.framework.rewriting import NoMatch, PatternPass, Rewriter, pattern
from stepwell.passes.graph.integer_products import WIDE, one_channel, sums_integers
from stepwell.passes.graph.matching import fused_location, has_one_use, producer, stored, with_operands
from stepwell.passes.graph.quantization.moves import MOVES
from stepwell.passes.graph.quantization.quantized import parameter, parameters, quantized
from stepwell.passes.graph.quantization.scales import SCALES

LARGEST = np.iinfo(np.int32).max
EXACT_FLOATS = 1 << 24
"""All integers up to this magnitude are exact in f32."""
SAME_SCALE = 1e-5
"""The largest relative difference between the scale of a product and that of its bias."""


@pattern(SumsProducts)
def multiply_integers(op: ir.OpView, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: f(dequantize(x, s, z), dequantize(y, t, u)) -> f(x - z, y - u) * (s * t)   in i32, without rounding before the scale

    For conv, matmul and other ops that sum products, if no scale or zero point varies along a reduction or window dimension.
    """
    x, y = (quantized(v) for v in op.operation.operands)
    if x is None or y is None:
        return NoMatch("its operands are not both dequantised")
    found: SumOfProducts = op.sum_of_products()
    if any(changes_along_sum(type_of(v).shape, dims) for side, dims in ((x, found.lhs), (y, found.rhs)) for v in parameters(side)):
        return NoMatch("its scales or zero points change along what it sums")
    if not isinstance(found.depth, int):
        return NoMatch("how many products it sums is not known")
    most = greatest_sum(x, y, found, found.depth, rw)
    if most > LARGEST:
        return NoMatch(f"sums of {found.depth} products of {type_of(x.x).dtype} and {type_of(y.x).dtype} may not fit i32")
    with op.location:
        total = by_channel(op, x, y, found, rw) if found.by_channel and most < EXACT_FLOATS else None
        if total is None:
            total = rw.cast(with_operands(rw, op.operation, [integers(x, rw), integers(y, rw)]), to="f32", saturate=True)
        scales = [along_result(rw, side.scale, dims, found) for side, dims in ((x, found.lhs), (y, found.rhs))]
        return scaled(total, scales, rw)


def along_result(rw: Rewriter, scale: ir.Value, dims: tuple[int | None, ...], products: SumOfProducts) -> ir.Value:
    """A scale of an operand with these dimensions as a scale of the result."""
    shape = products.along_result(type_of(scale).shape, dims)
    return scale if shape is None else reshaped(rw, scale, shape)


def by_channel(op: Any, x: DequantizeOp, w: DequantizeOp, products: SumOfProducts, rw: Rewriter) -> ir.Value | None:
    """The sums of a convolution whose filters read one channel, of integers held as floats; None if a zero point or the filters are unknown.

    No dot-product instruction pays for so few products without shared operands. Floats hold sums below 2^24 exactly, and multiply and add in one
    instruction. The zero point's part is subtracted after the sums, so that the image stays in bytes.
    """
    weights, zeros, zero = stored(w.x, rw.weights), constant_value(w.zero_point, rw.weights), constant_value(x.zero_point, rw.weights)
    if weights is None or zeros is None or zero is None or zero.size != 1:
        return None
    numbers, values = (weights.astype(np.int64) - zeros).astype(np.float32), op.attribute_values()
    image, pads = x.x, values["pads"] if op.padding_value() is not None else ()
    if any(pads):
        around = len(pads) // 2
        low, high = ((0, 0, *part) for part in (pads[:around], pads[around:]))
        image = rw.pad(image, low=low, high=high, mode="constant", value=float(zero.item()))
        values["pads"] = (0,) * len(pads)
    operands = [rw.cast(image, to="f32", saturate=True), parameter(rw, w.x, numbers)]
    total: ir.Value = rw.create(type(op), operands, values).operation.results[0]
    taken = float(zero.item()) * products.column_sums(numbers)
    return rw.add(total, parameter(rw, w.x, -taken.astype(np.float32))) if taken.any() else total


@pattern(AddOp)
def add_integers(op: AddOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: total * s + dequantize(b, s) -> (total + b) * s   one rounding less; for known b, whose scale is that of the product

    Applies if the total is a sum of products of integers: converted to floats, or computed on integers held as floats.
    """
    for product, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        scaling, bias = producer(product, "mul"), known_integers(other, rw)
        scale = None if scaling is None else constant_value(scaling.rhs, rw.weights)
        if scale is None or bias is None or not is_whole(scaling.lhs):
            continue
        numbers, own, source = bias
        if product.type != op.result.type or not has_one_use(product) or not has_one_use(scaling.lhs):
            return NoMatch("the product has another user, or is broadcast")
        if not alike(own, scale):
            return NoMatch("the scale of what is added is not that of the product")
        total = producer(scaling.lhs, "cast")
        with fused_location(scaling, op):
            if total is None:
                summed = rw.add(scaling.lhs, parameter(rw, source, numbers.astype(np.float32)))
            else:
                summed = rw.cast(rw.add(total.x, parameter(rw, source, numbers)), to="f32", saturate=True)
            return rw.mul(summed, scaling.rhs)
    return NoMatch("it does not add known integers to a scaled product of integers")


def alike(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether two scales are approximately equal after broadcasting."""
    try:
        return bool(np.allclose(first, second, rtol=SAME_SCALE, atol=0))
    except ValueError:  # they do not broadcast to each other
        return False


def is_whole(value: ir.Value) -> bool:
    """Whether `value` is a sum of products of integers, in floats."""
    cast = producer(value, "cast")
    if cast is not None:
        return type_of(cast.x).dtype == WIDE
    added = producer(value, "add")
    total = defining_op(value if added is None else added.lhs)
    return total is not None and one_channel(total.opview) and sums_integers(total.opview)


def known_integers(value: ir.Value, rw: Rewriter) -> tuple[np.ndarray, np.ndarray, ir.Value] | None:
    """The integers and the scales from which `value`, perhaps reshaped, is known to be dequantised, and the value of the integers; None otherwise."""
    reshape = producer(value, "reshape")
    source = quantized(value if reshape is None else reshape.x)
    if source is None or type_of(source.x).dtype != WIDE:
        return None
    numbers, scale, zero = (constant_value(v, rw.weights) for v in (source.x, *parameters(source)))
    if numbers is None or scale is None or zero is None or zero.any() or not type_of(value).is_static:
        return None
    shape = type_of(value).static_shape
    scale = scale.reshape(()) if scale.size == 1 else np.broadcast_to(scale, numbers.shape).reshape(shape)
    return numbers.reshape(shape), scale, source.x


def integers(source: DequantizeOp, rw: Rewriter) -> ir.Value:
    """The integers minus their zero point, in i32."""
    wide: ir.Value = rw.cast(source.x, to=WIDE, saturate=True)
    zero = constant_value(source.zero_point, rw.weights)
    if zero is None:
        return rw.sub(wide, rw.cast(source.zero_point, to=WIDE, saturate=True))
    return rw.add(wide, parameter(rw, source.zero_point, -zero.astype(np.int32))) if zero.any() else wide


def scaled(total: ir.Value, scales: list[ir.Value], rw: Rewriter) -> ir.Value:
    """Sums of products in units of the product of some scales, which is one number if all are known."""
    arrays = [constant_value(scale, rw.weights) for scale in scales]
    numbers = [array for array in arrays if array is not None]
    if len(numbers) < len(arrays):
        return reduce(rw.mul, scales, total)
    both = np.asarray(reduce(np.multiply, numbers))
    widest = max(scales, key=lambda v: type_of(v).elements)
    return rw.mul(total, parameter(rw, widest, both.reshape(()) if both.size == 1 else both))


def reshaped(rw: Rewriter, value: ir.Value, shape: tuple[int, ...]) -> ir.Value:
    """`value` in another shape, reshaped at compile time if it is known."""
    array = constant_value(value, rw.weights)
    return rw.reshape(value, shape=shape) if array is None else parameter(rw, value, array.reshape(shape))


def greatest_sum(x: DequantizeOp, w: DequantizeOp, products: SumOfProducts, depth: int, rw: Rewriter) -> int:
    """An upper bound of sums of `depth` products."""
    numbers, zero = stored(w.x, rw.weights), constant_value(w.zero_point, rw.weights)
    if numbers is None or zero is None:
        return largest(x, rw) * largest(w, rw) * depth
    return largest(x, rw) * int(products.column_sums(np.abs(numbers.astype(np.int64) - zero)).max(initial=0))


def largest(source: DequantizeOp, rw: Rewriter) -> int:
    """The largest magnitude of integers of a type minus their zero point."""
    limits, zero = np.iinfo(to_numpy(type_of(source.x).dtype)), constant_value(source.zero_point, rw.weights)
    if zero is None:
        return int(limits.max) - int(limits.min)
    return max(int(limits.max) - int(zero.min(initial=0)), int(zero.max(initial=0)) - int(limits.min))


@register_pass("use-integers", level="graph", optional=True)
class UseIntegers(PatternPass):
    """Compute products of quantised data on their integers, and keep data between them in integers.

    Quantised networks express in floats what is meant in integers: `dequantize`, a float op, `quantize` (ONNX's Q/DQ format). Here the products take
    the integers instead, and sum in i32, exactly; bias, activation, additions and the next quantisation follow in the registers of the same kernel.
    Scale times scale is one factor (Jacob et al., "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference",
    2018). Ops that are neither products nor moves of data are computed in f32, from bytes to bytes.
    """

    top_down = True
    patterns = (multiply_integers, add_integers, *MOVES, *SCALES)
