"""The pass that folds inference batch normalisations into multiplications and additions, and these into the weights around them."""


import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import TensorType, to_numpy, type_of
from stepwell.dialects.graph import BatchNormOp, ConvOp, ConvTransposeOp, DivOp, MatmulOp, MulOp
from stepwell.dialects.graph.numerics import loses_digits, narrow
from stepwell.passes.framework.registry import register_pass
from stepwell.passes.framework.rewriting import NoMatch, PatternPass, Rewriter, expect, pattern
from stepwell.passes.graph.matching import (
    along,
    for_each,
    fused_location,
    has_one_use,
    is_float_op,
    is_stored,
    new_weight,
    per_channel,
    producer,
    stored,
)
from stepwell.passes.graph.simplification.linear import Linear, kept_from_zero, linear
from stepwell.passes.graph.simplification.merge_constants import MERGE_CONSTANTS, combined


@pattern(BatchNormOp)
def normalise_by_constants(op: BatchNormOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: batch_norm(x, scale, bias, mean, variance) -> x * k + (bias - mean * k),  k = scale / sqrt(variance + epsilon)

    If some k is not finite, or a subnormal number that has lost digits: (x - mean) / sqrt(variance + epsilon) * scale + bias.
    """
    arrays = [stored(v, rw.weights) for v in (op.scale, op.bias, op.mean, op.var)]
    known = [a.astype(np.float64) for a in arrays if a is not None]
    if len(known) != 4:
        return NoMatch("its statistics are not known")
    scale, bias, mean, variance = known
    rank, dtype = type_of(op.x).rank, to_numpy(type_of(op.x).dtype)
    with np.errstate(all="ignore"):
        spread = np.sqrt(variance + op.attribute_values()["epsilon"])
        k = scale / spread
        shift = bias - mean * k
        factors = scale, 1 / spread  # the second is 0 if the variance is infinite
    rounded = narrow(k, dtype)
    if loses_digits(rounded, k).any() or not np.isfinite(rounded).all():
        deviation = rw.sub(op.x, new_weight(rw, op.mean, along(narrow(mean, dtype), rank, 1)))
        quotient = rw.div(deviation, new_weight(rw, op.var, along(narrow(spread, dtype), rank, 1)))
        scaled = rw.mul(quotient, new_weight(rw, op.scale, along(narrow(scale, dtype), rank, 1)))
        return rw.add(scaled, new_weight(rw, op.bias, along(narrow(bias, dtype), rank, 1)))
    factor = new_weight(rw, op.scale, along(kept_from_zero(rounded, *factors), rank, 1))
    return rw.add(rw.mul(op.x, factor), new_weight(rw, op.bias, narrow(along(shift, rank, 1), dtype)))


@pattern(BatchNormOp)
def normalise_by_values(op: BatchNormOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: batch_norm(x, scale, bias, mean, variance) -> (x - mean) * (scale / sqrt(variance + epsilon)) + bias  for computed statistics"""
    if all(is_stored(v) for v in (op.scale, op.bias, op.mean, op.var)):
        return NoMatch("its statistics are constants: known, or named in a weight table that is not here")
    x = type_of(op.x)
    if x.shape[1] is None:
        return NoMatch("the number of channels is not known")
    epsilon = rw.constant(value=np.asarray(op.attribute_values()["epsilon"]).astype(to_numpy(x.dtype)))
    k = rw.div(op.scale, rw.sqrt(rw.add(op.var, epsilon)))
    shape = tuple(x.shape[1] if i == 1 else 1 for i in range(x.rank))
    mean, factor, bias = (rw.reshape(v, shape=shape) for v in (op.mean, k, op.bias))
    return rw.add(rw.mul(rw.sub(op.x, mean), factor), bias)


def scale_of(op: ir.OpView, rw: Rewriter) -> tuple[ir.Value, np.ndarray]:
    """The scaled value, and the factor in f64, of a multiplication or division by a known finite constant. Raises NoMatch for any other."""
    if not is_float_op(op):
        raise NoMatch("integers wrap")
    array = expect(stored(op.rhs, rw.weights), "it does not scale by a known constant")
    with np.errstate(all="ignore"):
        factor = 1.0 / array.astype(np.float64) if isinstance(op, DivOp) else array.astype(np.float64)
    if not np.isfinite(factor).all():
        raise NoMatch("the factor is not finite")
    return op.lhs, factor


def scaled_weights(lin: Linear, factor: np.ndarray, result: TensorType) -> np.ndarray:
    """The weights of `lin` with each of its output channels times `factor`, which is broadcast against `result`. Raises NoMatch if they cannot be."""
    if result != type_of(lin.result):
        raise NoMatch("the factor broadcasts the result up")
    k = expect(per_channel(factor, result.rank, lin.output_axis, lin.outputs), "the factor is not one for each output channel")
    return lin.scaled(lin.for_outputs(k))


@for_each((MulOp, DivOp))
def scale_outputs(op: ir.OpView, rw: Rewriter) -> ir.Value:
    """rewrite: linear(x, w) * k -> linear(x, w * k)  for conv, conv_transpose, matmul with known weights and k for each output channel"""
    scaled, factor = scale_of(op, rw)
    lin = linear(scaled, rw)
    weights = scaled_weights(lin, factor, type_of(op.result))
    with fused_location(lin.op, op):
        return lin.rebuilt(rw, new_weight(rw, lin.parameter, weights))


@for_each((MulOp, DivOp))
def scale_outputs_and_bias(op: ir.OpView, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: (linear(x, w) + b) * k -> linear(x, w * k) + b * k  for k and b as above"""
    scaled, factor = scale_of(op, rw)
    addition = producer(scaled, "add")
    if addition is None or not has_one_use(scaled):
        return NoMatch("what it scales is not a sum with no other user")
    bias = expect(stored(addition.rhs, rw.weights), "what is added is not known")
    lin = linear(addition.lhs, rw)
    shift = combined(np.multiply, bias.astype(np.float64), factor)
    added = narrow(shift, bias.dtype)
    if loses_digits(added, shift).any():
        return NoMatch("what is added would lose digits")
    weights = scaled_weights(lin, factor, type_of(op.result))
    with fused_location(lin.op, op):
        product = lin.rebuilt(rw, new_weight(rw, lin.parameter, weights))
    with fused_location(addition, op):
        return rw.add(product, new_weight(rw, addition.rhs, added))


@for_each((ConvOp, ConvTransposeOp, MatmulOp))
def scale_inputs(op: ir.OpView, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: linear(x * k, w) -> linear(x, w * k)  for known weights and k for each input channel (zeros that pad x stay zeros)"""
    lin = linear(op.operation.results[0], rw, used_once=False)
    scaling = producer(lin.data, "mul", "div")
    if scaling is None or not has_one_use(lin.data):
        return NoMatch("its input is not a product with no other user")
    scaled, factor = scale_of(scaling, rw)
    if scaling.result.type != scaled.type:
        return NoMatch("the factor broadcasts the input up")
    k = expect(per_channel(factor, type_of(lin.data).rank, lin.input_axis, lin.inputs), "the factor is not one for each input channel")
    weights = lin.scaled(lin.for_inputs(k))
    with fused_location(scaling, op):
        return lin.rebuilt(rw, new_weight(rw, lin.parameter, weights), scaled)


@for_each((ConvOp, MatmulOp))
def shift_inputs(op: ir.OpView, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: linear(x + b, w) -> linear(x, w) + linear(b, w)  for known weights, b for each input channel, and no padding (it is not shifted)"""
    lin = linear(op.operation.results[0], rw, used_once=False)
    addition = producer(lin.data, "add")
    if addition is None or not has_one_use(lin.data):
        return NoMatch("its input is not a sum with no other user")
    if not lin.is_uniform:
        return NoMatch("the padding would have to be shifted too")
    shift = stored(addition.rhs, rw.weights)
    if shift is None or addition.result.type != addition.lhs.type or not np.isfinite(shift).all():
        return NoMatch("what is added is not known and finite, or broadcasts the input up")
    channels = per_channel(shift.astype(np.float64), type_of(lin.data).rank, lin.input_axis, lin.inputs)
    b = expect(channels, "what is added is not one value for each input channel")
    bias = lin.response(b)
    product = lin.rebuilt(rw, lin.parameter, addition.lhs)
    with fused_location(addition, op):
        return rw.add(product, new_weight(rw, addition.rhs, bias))


@register_pass("fold-batch-norm", level="graph", optional=True)
class FoldBatchNorm(PatternPass):
    """Fold inference batch normalisations, and scales and shifts by channel in general, into the weights around them.

    A normalisation by constants becomes a multiplication and an addition by channel. A multiplication after, or before, a convolution or matrix
    product goes into its weights (computed in f64, rounded once); an addition before one becomes an addition after it. Ops before an activation, or
    with other users, stay unchanged.
    """

    patterns = (
        normalise_by_constants, normalise_by_values, *scale_outputs, *scale_outputs_and_bias, *scale_inputs, *shift_inputs, *MERGE_CONSTANTS,
    )  # fmt: skip
