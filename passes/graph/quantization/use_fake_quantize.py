"""The pass that replaces quantise-dequantise pairs by rounding in floats, and divisions by multiplications with the same result."""


import numpy as np

from stepwell.dialects.core.dtypes import BYTES
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import type_of
from stepwell.dialects.graph import DequantizeOp, QuantizeOp, constant_value
from stepwell.passes.framework.registry import register_pass
from stepwell.passes.framework.rewriting import NoMatch, PatternPass, Rewriter, expect, pattern
from stepwell.passes.graph.matching import fused_location, has_one_use, producer
from stepwell.passes.graph.quantization.few_values import few_values
from stepwell.passes.graph.quantization.quantized import parameter, same_parameters
from stepwell.passes.graph.quantization.scales import reciprocal


@pattern(QuantizeOp)
def multiply_if_bit_identical(op: QuantizeOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: quantize(x, s, z) -> quantize(x * (1 / s), 1, z)   exact: x follows from one byte or two, and the result is the same for all of them

    A division takes as long as several multiplications. If one of the many pairs of bytes is so close to halfway between two steps that it would be
    rounded to the other one, a neighbour of the reciprocal may work.
    """
    inverse, scale, zero = reciprocal(op.scale, rw), constant_value(op.scale, rw.weights), constant_value(op.zero_point, rw.weights)
    if inverse is None or scale is None or zero is None:
        return NoMatch("its scale or zero point is not known, or the scale is 1, or has no reciprocal")
    values = expect(few_values(op.x, rw.weights), "what it quantises does not follow from one byte or two")
    one = np.ones((), np.float32)
    fewest = values.size
    with np.errstate(all="ignore"):
        wanted = QuantizeOp.reference(values, scale, zero)
        for factor in (inverse, np.nextafter(inverse, np.float32(np.inf)), np.nextafter(inverse, np.float32(0))):
            others = int(np.sum(wanted != QuantizeOp.reference(values * factor, one, zero)))
            if not others:
                break
            fewest = min(fewest, others)
        else:
            return NoMatch(f"{fewest} of {wanted.size} results would be others")
    with op.location:
        return rw.quantize(rw.mul(op.x, parameter(rw, op.scale, factor)), rw.literal(one), op.zero_point)


@pattern(DequantizeOp)
def stay_in_floats(op: DequantizeOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: dequantize(quantize(x, s, z), t, z) -> fake_quantize(x / s, z) * t   exact; where nothing else reads the integers"""
    before = producer(op.x, "quantize")
    if before is None or not has_one_use(op.x) or type_of(op.x).dtype not in BYTES:
        return NoMatch("its operand is not quantised to bytes that nothing else reads")
    if not same_parameters((before.zero_point,) * 2, (op.zero_point,) * 2, rw.weights):
        return NoMatch("the zero points are not known to be the same")
    scale = constant_value(before.scale, rw.weights)
    with before.location:
        quotient = before.x if scale is not None and bool((scale == 1).all()) else rw.div(before.x, before.scale)
        whole = rw.fake_quantize(quotient, before.zero_point)
    with fused_location(before, op):
        return rw.mul(whole, op.scale)


@register_pass("use-fake-quantize", level="graph", optional=True)
class UseFakeQuantize(PatternPass):
    """Replace quantise-dequantise pairs by rounding in floats, and divisions by multiplications that give the same bytes.

    Quantisers insert a quantisation after each op, even if the next one is computed in floats, such as a batch normalisation before a convolution.
    The way from a float to a byte and back takes several redundant instructions.
    """

    top_down = True
    patterns = (multiply_if_bit_identical, stay_in_floats)
