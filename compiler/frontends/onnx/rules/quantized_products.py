"""Rules for products of quantised data: QLinearMatMul and QLinearConv. Integers are multiplied and summed as integers, in i32."""

from collections.abc import Sequence
from dataclasses import dataclass

from stepwell.dialects.core.sizes import holds, same_sizes
from stepwell.dialects.core.types import type_of
from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.builder import Value
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import Group, onnx_rule
from stepwell.frontends.onnx.rules.contractions import matmul_integer
from stepwell.frontends.onnx.rules.convolutions import ConvolutionAttributes, conv_integer, with_bias
from stepwell.frontends.onnx.rules.quantization import is_single, saturated


@dataclass(frozen=True)
class Quantized(Group):
    """A quantised operand with its scale and its zero point."""

    x: Value
    scale: Value
    zero_point: Value | None


@onnx_rule("QLinearMatMul", since=10)
def qlinear_matmul(b: ImportBuilder, lhs: Quantized, rhs: Quantized, scale: Value, zero_point: Value) -> Value:
    product = matmul_integer(b, lhs.x, rhs.x, lhs.zero_point, rhs.zero_point)
    return requantized(b, product, sides(b, lhs, rhs, product), scale, zero_point)


@onnx_rule("QLinearConv", since=10)
def qlinear_conv(
    b: ImportBuilder, x: Quantized, w: Quantized, scale: Value, zero_point: Value, bias: Value | None = None, *, attributes: ConvolutionAttributes
) -> Value:
    total = with_bias(b, conv_integer(b, x.x, w.x, x.zero_point, w.zero_point, attributes=attributes), bias)
    scales = [beside(b, x.scale, total, "the scale of the input", None), beside(b, w.scale, total, "the scale of the weights", 1)]
    return requantized(b, total, scales, scale, zero_point)


def sides(b: ImportBuilder, lhs: Quantized, rhs: Quantized, product: Value) -> list[Value]:
    """The scales of a matrix product's operands in forms that broadcast to it: one for each row of the left, each column of the right."""
    row = None if type_of(lhs.x).rank == 1 else -2 if type_of(rhs.x).rank > 1 else -1
    column = None if type_of(rhs.x).rank == 1 else -1
    return [beside(b, lhs.scale, product, "the scale of the rows", row), beside(b, rhs.scale, product, "the scale of the columns", column)]


def beside(b: ImportBuilder, parameter: Value, total: Value, what: str, axis: int | None) -> Value:
    """A scale or zero point in a form that broadcasts to `total`: one number, one for each index of `axis`, or of the rank of `total`.

    Raises ModelError, naming it as `what`, if it is none of these.
    """
    kind, rank = type_of(parameter), type_of(total).rank
    if is_single(kind):
        return b.with_shape(parameter, ())
    if axis is not None and kind.rank == 1 and -rank <= axis < rank and holds(type_of(total).shape[axis], "==", kind.shape[0]):
        return b.reshape(parameter, shape=tuple(-1 if i == axis % rank else 1 for i in range(rank)))
    if axis is not None and 1 < kind.rank == rank:
        return parameter  # the product reports whether it fits
    raise ModelError(f"{what} must be one number{'' if axis is None else ', or one for each of them'}; got {kind} for {type_of(total)}")


def requantized(b: ImportBuilder, total: Value, scales: Sequence[Value], scale: Value, zero_point: Value) -> Value:
    """Sums of products in i32, converted from units of the product of `scales` to units of `scale`, in the type of the zero point."""
    factor = b.div(multiplied(b, scales), b.convert(beside(b, scale, total, "the scale of the result", None), "f32"))
    zero = beside(b, zero_point, total, "the zero point of the result", None)
    made = saturated(b, b.round(b.mul(b.convert(total, "f32"), factor)), zero, type_of(zero_point).dtype)
    if not same_sizes(type_of(made).shape, type_of(total).shape):
        raise ModelError(f"its scales broadcast the product {type_of(total)} to {type_of(made)}")
    return made


def multiplied(b: ImportBuilder, scales: Sequence[Value]) -> Value:
    """The product of scales in f32, whatever their type: that of two in f16 may be too small for it."""
    product = b.convert(scales[0], "f32")
    for scale in scales[1:]:
        product = b.mul(product, b.convert(scale, "f32"))
    return product
