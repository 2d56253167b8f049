"""Patterns that move data as integers: ops that only move elements, or take maxima, go before the conversion to floats."""

from typing import Any

from stepwell.dialects.core.mlir import defining_op, ir
from stepwell.dialects.core.types import type_of
from stepwell.dialects.graph import DequantizeOp, PadOp, QuantizeOp, TransposeOp, constant_value
from stepwell.dialects.graph.traits import ChoosesData, JoinsData, MovesData, Pools
from stepwell.dialects.graph.windows import always_meets_image
from stepwell.passes.framework.rewriting import NoMatch, Rewriter, expect, pattern
from stepwell.passes.graph.integer_products import WIDE
from stepwell.passes.graph.matching import fused_location, has_one_use, states, with_operands
from stepwell.passes.graph.quantization.quantized import is_per_tensor, is_positive, parameters, quantized, quantized_alike, same_parameters

NOT_QUANTIZED = "its operand is not dequantised with one scale and one zero point"


def on_integers(op: Any, source: DequantizeOp, rw: Rewriter) -> ir.Value:
    """`op`, whose first operand is `source`, on the integers; its result is then converted to floats. Scale and zero point are one number each."""
    with fused_location(source, op):
        moved = with_operands(rw, op.operation, [source.x])
        rank = type_of(moved).rank  # the result may have fewer dimensions than scale and zero point
        scalars = [v if type_of(v).rank <= rank else rw.reshape(v, shape=()) for v in parameters(source)]
        return rw.dequantize(moved, *scalars)


@pattern(MovesData)
def sink_dequantize(op: ir.OpView, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: move(dequantize(x, s, z)) -> dequantize(move(x), s, z)   exact; where s and z are one number each"""
    source = expect(quantized_alike(op.operation.operands[0]), NOT_QUANTIZED)
    if len(op.operation.results) != 1:
        return NoMatch(NOT_QUANTIZED)
    return on_integers(op, source, rw)


@pattern(TransposeOp)
def transpose_integers(op: TransposeOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: transpose(dequantize(x, s, z)) -> dequantize(transpose(x), transpose(s), transpose(z))   exact"""
    source = quantized(op.x)
    perm, rank = op.attribute_values()["perm"], type_of(op.x).rank
    if source is None or is_per_tensor(source):
        return NoMatch("its operand is not dequantised, or with one scale and one zero point")
    if any(type_of(parameter).shape.count(None) > 1 for parameter in parameters(source)):
        return NoMatch("several sizes of its scale or zero point are unknown")
    moved = []
    for parameter in parameters(source):
        kind = type_of(parameter)
        whole = rw.reshape(parameter, shape=(*(1,) * (rank - kind.rank), *(-1 if d is None else d for d in kind.shape)))
        moved.append(parameter if kind.size == 1 else rw.transpose(whole, perm=perm))
    with fused_location(source, op):
        return rw.dequantize(rw.transpose(source.x, perm=perm), *moved)


def meets_image(op: Any) -> bool:
    """Whether each window of a pooling covers an element of the image."""
    values, end = op.attribute_values(), 2 + len(op.attribute_values()["kernel"])
    window = {name: values[name] for name in ("strides", "pads", "dilations")}
    image, result = (type_of(v[0]).shape[2:end] for v in (op.operation.operands, op.operation.results))
    return always_meets_image(image, values["kernel"], result, **window)


@pattern(ChoosesData)
def choose_integers(op: ir.OpView, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: max_pool(dequantize(x, s, z)) -> dequantize(max_pool(x), s, z)   exact, for s > 0; so maxima and minima"""
    source = expect(quantized_alike(op.operation.operands[0]), NOT_QUANTIZED)
    if not is_positive(source.scale, rw.weights):
        return NoMatch(NOT_QUANTIZED)
    zero = constant_value(source.zero_point, rw.weights)
    if type_of(source.x).dtype == WIDE and (zero is None or zero.any()):
        return NoMatch(f"a difference of two numbers of {WIDE} may wrap, so that the greatest is another one")
    if op.has_trait(Pools) and not meets_image(op):
        return NoMatch("a window may be padding alone, of which the greatest is minus infinity, and no integer")
    return on_integers(op, source, rw)


@pattern(PadOp)
def pad_integers(op: PadOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: pad(dequantize(x, s, z), 0) -> dequantize(pad(x, z), s, z)   exact for finite s, where z is known"""
    source, values = expect(quantized_alike(op.x), NOT_QUANTIZED), op.attribute_values()
    zero = constant_value(source.zero_point, rw.weights)
    if values["mode"] == "constant" and (zero is None or values["value"] != 0):
        return NoMatch("it pads with something else than 0, or the zero point is not known")
    with fused_location(source, op):
        values["value"] = 0.0 if zero is None else float(zero.item())
        return rw.dequantize(rw.pad(source.x, **values), *parameters(source))


@pattern(JoinsData)
def join_integers(op: ir.OpView, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: concat(dequantize(x, s, z), dequantize(y, s, z)) -> dequantize(concat(x, y), s, z)   exact"""
    found = [source for v in op.operation.operands if (source := quantized_alike(v)) is not None]
    if len(found) < len(op.operation.operands) or not all(same_parameters(parameters(s), parameters(found[0]), rw.weights) for s in found):
        return NoMatch("its operands are not all dequantised with the same scale and zero point")
    with fused_location(*found, op):
        return rw.dequantize(with_operands(rw, op.operation, [source.x for source in found]), *parameters(found[0]))


@pattern(QuantizeOp)
def drop_round_trip(op: QuantizeOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: quantize(dequantize(x, s, z), s, z) -> x   exact"""
    source = quantized(op.x)
    if source is None or source.x.type != op.result.type or not same_parameters(parameters(source), (op.scale, op.zero_point), rw.weights):
        return NoMatch("its operand is not dequantised with the same scale and zero point")
    scale = constant_value(source.scale, rw.weights)
    # A scale for which quotients overflow, vanish or lose digits would change the numbers.
    if scale is None or not (1e-30 < float(scale.reshape(-1)[0]) < 1e30):
        return NoMatch("its scale is not known, or too small or large a number")
    return source.x


@pattern(QuantizeOp)
def quantize_before(op: QuantizeOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: quantize(concat(x, y), s, z) -> concat(quantize(x, s, z), quantize(y, s, z))   exact except for NaN; max_pool likewise, for s > 0

    NaN becomes 0, so that the other elements in a pooling window count.

    So a quarter of the bytes is moved, and the producers of the operands quantise them in registers.
    """
    before = defining_op(op.x)
    if before is None or not (states(before, JoinsData) or states(before, Pools, ChoosesData)) or not has_one_use(op.x):
        return NoMatch("its operand is not a concatenation or maximum with no other user")
    if any(type_of(v).size != 1 for v in (op.scale, op.zero_point)):
        return NoMatch("it has several scales")
    if states(before, ChoosesData) and not is_positive(op.scale, rw.weights):
        return NoMatch("its scale is not known to be above 0")
    if all(constant_value(v, rw.weights) is not None for v in before.operands):
        return NoMatch("what is quantised is known")
    with op.location:
        parts = [rw.quantize(v, op.scale, op.zero_point) for v in before.operands]
    with before.location:
        return with_operands(rw, before, parts)


MOVES = (
    sink_dequantize, transpose_integers, choose_integers, pad_integers, join_integers, drop_round_trip, quantize_before,
)  # fmt: skip
