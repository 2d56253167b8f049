"""Rules for the quantised operators of ONNX Runtime's domain com.microsoft, which its quantisation tools write into models.

Linear operators are computed on integers, the rest in f32. ONNX Runtime rounds some of these at other points: results may differ by one step.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from stepwell.dialects.core.sizes import same_sizes
from stepwell.dialects.core.types import is_float, type_of
from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.frontends.blocks.slicing import slice_axis, with_new_axes
from stepwell.frontends.builder import Value, normalized_axis, static_dims
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import Group, onnx_rule
from stepwell.frontends.onnx.rules.contractions import centred, matmul, matmul_integer
from stepwell.frontends.onnx.rules.convolutions import ConvolutionAttributes
from stepwell.frontends.onnx.rules.microsoft import MICROSOFT
from stepwell.frontends.onnx.rules.pooling import PoolingAttributes, average_pool, spatial_axes
from stepwell.frontends.onnx.rules.quantization import dequantize_linear, dequantized, dynamic_quantize_linear, is_single, quantize_linear, quantized
from stepwell.frontends.onnx.rules.quantized_products import Quantized, multiplied, qlinear_conv, requantized, sides
from stepwell.frontends.onnx.rules.reductions import element_count, softmax, softmax_of_rows

onnx_rule("QuantizeLinear", since=1, domain=MICROSOFT)(quantize_linear)
onnx_rule("DequantizeLinear", since=1, domain=MICROSOFT)(dequantize_linear)


# --- element by element


def number(b: ImportBuilder, value: Value | None, what: str) -> Value:
    """A scale or zero point that is one number. Raises ModelError, naming it as `what`, if it is missing or is not."""
    if value is None:
        raise ModelError(f"{what} is missing")
    if not is_single(type_of(value)):
        raise ModelError(f"{what} must be one number, got {type_of(value)}")
    return b.with_shape(value, ())


def zero_or(b: ImportBuilder, zero_point: Value | None, like: Value) -> Value:
    """A zero point that is one number; 0 of the element type of `like` if there is none."""
    return b.scalar(0, like=like) if zero_point is None else number(b, zero_point, "a zero point")


@dataclass(frozen=True)
class ZeroByDefault(Quantized):
    """A quantised operand, whose zero point is 0 by default, with one scale and one zero point for all elements."""

    zero_point: Value | None = None

    def real(self, b: ImportBuilder) -> Value:
        """The numbers in f32 that it represents."""
        return real(b, self.x, self.scale, self.zero_point)

    def centred(self, b: ImportBuilder) -> Value:
        """Its integers minus the zero point, as i32."""
        return centred(b, self.x, zero_or(b, self.zero_point, self.x), 0)


@dataclass(frozen=True)
class Quantization(Group):
    """The scale and the zero point of a result, each one number; the zero point is 0 by default."""

    scale: Value
    zero_point: Value | None = None

    def stored(self, b: ImportBuilder, x: Value, like: Value) -> Value:
        """Numbers in f32 quantised: in the element type of the zero point, or in that of `like` if there is none."""
        zero = zero_or(b, self.zero_point, like)
        return quantized(b, x, number(b, self.scale, "the scale of the result"), zero, type_of(zero).dtype)

    def requantized(self, b: ImportBuilder, total: Value, scales: Sequence[Value], like: Value) -> Value:
        """Sums of products in i32, converted from units of the product of `scales`, in the element type of the zero point or of `like`."""
        return requantized(b, total, scales, number(b, self.scale, "the scale of the result"), zero_or(b, self.zero_point, like))


def real(b: ImportBuilder, x: Value, scale: Value | None, zero_point: Value | None) -> Value:
    """The numbers in f32 that `x` represents, with one scale and one zero point for all."""
    return dequantized(b, x, number(b, scale, "a scale"), zero_or(b, zero_point, x))


@onnx_rule("QLinearAdd", since=1, domain=MICROSOFT)
def qlinear_add(b: ImportBuilder, lhs: ZeroByDefault, rhs: ZeroByDefault, result: Quantization) -> Value:
    return result.stored(b, b.add(lhs.real(b), rhs.real(b)), lhs.x)


@onnx_rule("QLinearMul", since=1, domain=MICROSOFT)
def qlinear_mul(b: ImportBuilder, lhs: ZeroByDefault, rhs: ZeroByDefault, result: Quantization) -> Value:
    product = b.mul(lhs.centred(b), rhs.centred(b))
    return result.requantized(b, product, [number(b, side.scale, "a scale") for side in (lhs, rhs)], lhs.x)


@onnx_rule("QLinearSigmoid", since=1, domain=MICROSOFT)
def qlinear_sigmoid(b: ImportBuilder, x: ZeroByDefault, result: Quantization) -> Value:
    return result.stored(b, b.sigmoid(x.real(b)), x.x)


@onnx_rule("QLinearLeakyRelu", since=1, domain=MICROSOFT)
def qlinear_leaky_relu(b: ImportBuilder, x: ZeroByDefault, result: Quantization, *, alpha: float = 0.01) -> Value:
    return result.stored(b, b.leaky_relu(x.real(b), alpha=alpha), x.x)


@onnx_rule("QLinearSoftmax", since=1, domain=MICROSOFT)
def qlinear_softmax(b: ImportBuilder, x: ZeroByDefault, result: Quantization, *, axis: int = -1, opset: int) -> Value:
    return result.stored(b, (softmax if opset >= 13 else softmax_of_rows)(b, x.real(b), axis=axis), x.x)


@onnx_rule("QLinearWhere", since=1, domain=MICROSOFT)
def qlinear_where(b: ImportBuilder, condition: Value, x: ZeroByDefault, y: ZeroByDefault, result: Quantization) -> Value:
    return b.select(condition, *(result.stored(b, chosen.real(b), chosen.x) for chosen in (x, y)))


@onnx_rule("QLinearConcat", since=1, domain=MICROSOFT)
def qlinear_concat(b: ImportBuilder, scale: Value, zero_point: Value, *inputs: Value, axis: int) -> Value:
    if not inputs or len(inputs) % 3:
        raise ModelError(f"its inputs must be tensors, each with a scale and a zero point; got {len(inputs)} in all")
    triples = zip(inputs[::3], inputs[1::3], inputs[2::3], strict=True)
    parts = [Quantization(scale, zero_point).stored(b, real(b, *triple), zero_point) for triple in triples]
    return b.concat(parts, axis=normalized_axis(axis, type_of(parts[0]).rank))


# --- means


@onnx_rule("QLinearGlobalAveragePool", since=1, domain=MICROSOFT)
def qlinear_global_average_pool(b: ImportBuilder, x: ZeroByDefault, result: Quantization, *, channels_last: int = 0) -> Value:
    """The sum is over integers; the division for the mean goes into the scale."""
    axes = tuple(axis - 1 if channels_last else axis for axis in spatial_axes(x.x))
    whole = x.centred(b)
    step = b.div(number(b, x.scale, "a scale"), b.convert(element_count(b, whole, axes), "f32"))
    return result.requantized(b, b.reduce_sum(whole, axes=axes, keepdims=True), [step], x.x)


@onnx_rule("QLinearAveragePool", since=1, domain=MICROSOFT)
def qlinear_average_pool(
    b: ImportBuilder,
    x: ZeroByDefault,
    result: Quantization,
    *,
    kernel_shape: Sequence[int],
    strides: Sequence[int] = (),
    pads: Sequence[int] = (),
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    channels_last: int = 0,
) -> Value:
    attributes = PoolingAttributes(kernel_shape, strides, pads, (), auto_pad, ceil_mode)
    pooled = average_pool(b, channels_first(b, x.real(b), channels_last), attributes=attributes, count_include_pad=count_include_pad)
    return result.stored(b, as_given(b, pooled, channels_last), x.x)


def channels_first(b: ImportBuilder, x: Value, channels_last: int) -> Value:
    """An image with its channels in dimension 1; they come last if `channels_last`."""
    rank = type_of(x).rank
    return b.transposed(x, (0, rank - 1, *range(1, rank - 1))) if channels_last else x


def as_given(b: ImportBuilder, y: Value, channels_last: int) -> Value:
    """The inverse of `channels_first`."""
    rank = type_of(y).rank
    return b.transposed(y, (0, *range(2, rank), 1)) if channels_last else y


# --- products


@onnx_rule("QLinearConv", since=1, domain=MICROSOFT)
def qlinear_conv_of_images(
    b: ImportBuilder,
    x: Quantized,
    w: Quantized,
    scale: Value,
    zero_point: Value,
    bias: Value | None = None,
    *,
    attributes: ConvolutionAttributes,
    channels_last: int = 0,
) -> Value:
    image = replace(x, x=channels_first(b, x.x, channels_last))
    return as_given(b, qlinear_conv(b, image, w, scale, zero_point, bias, attributes=attributes), channels_last)


@onnx_rule("QGemm", since=1, domain=MICROSOFT)
def qgemm(
    b: ImportBuilder,
    lhs: Quantized,
    rhs: Quantized,
    bias: Value | None = None,
    scale: Value | None = None,
    zero_point: Value | None = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Value:
    """`alpha * (A' * B' + C)`, in f32 without a scale for the result; the bias is in units of the products."""
    if type_of(lhs.x).rank != 2 or type_of(rhs.x).rank != 2:
        raise ModelError(f"its operands must have rank 2, got {type_of(lhs.x)} and {type_of(rhs.x)}")
    if (scale is None) != (zero_point is None):
        raise ModelError("the scale and the zero point of the result must be given together")
    rows, columns = (replace(one, x=b.transposed(one.x, (1, 0))) if turned else one for one, turned in ((lhs, transA), (rhs, transB)))
    product = matmul_integer(b, rows.x, columns.x, number(b, rows.zero_point, "the zero point of A"), columns.zero_point)
    total = product if bias is None else b.add(product, bias)
    if not same_sizes(type_of(total).shape, type_of(product).shape):
        raise ModelError(f"the bias does not fit the product {type_of(product)}: together they are {type_of(total)}")
    scales = sides(b, replace(rows, scale=number(b, rows.scale, "the scale of A")), columns, product)
    if alpha != 1.0:
        scales[0] = b.mul(scales[0], b.scalar(alpha, like=scales[0]))
    if scale is None or zero_point is None:
        return b.mul(b.convert(total, "f32"), multiplied(b, scales))
    return requantized(b, total, scales, scale, zero_point)


@onnx_rule("MatMulIntegerToFloat", since=1, domain=MICROSOFT)
def matmul_integer_to_float(
    b: ImportBuilder,
    lhs: Value,
    rhs: Value,
    lhs_scale: Value,
    rhs_scale: Value,
    lhs_zero_point: Value | None = None,
    rhs_zero_point: Value | None = None,
    bias: Value | None = None,
) -> Value:
    product = matmul_integer(b, lhs, rhs, lhs_zero_point, rhs_zero_point)
    scales = sides(b, Quantized(lhs, lhs_scale, lhs_zero_point), Quantized(rhs, rhs_scale, rhs_zero_point), product)
    total = b.mul(b.convert(product, "f32"), multiplied(b, scales))
    return b.convert(total if bias is None else b.add(total, b.convert(bias, "f32")), type_of(lhs_scale).dtype)


@onnx_rule("DynamicQuantizeMatMul", since=1, domain=MICROSOFT)
def dynamic_quantize_matmul(
    b: ImportBuilder, lhs: Value, rhs: Value, rhs_scale: Value, rhs_zero_point: Value | None = None, bias: Value | None = None
) -> Value:
    if type_of(lhs).dtype != "f32":
        raise UnsupportedError(f"of {type_of(lhs)} is not supported; supported: f32")
    data, scale, zero_point = dynamic_quantize_linear(b, lhs)
    return matmul_integer_to_float(b, data, rhs, scale, rhs_scale, zero_point, rhs_zero_point, bias)


# --- products with low-bit weights

ACCURACY = {"accuracy_level": 0}  # says how much precision of `x` may be given up: none is


@onnx_rule("MatMulNBits", since=1, domain=MICROSOFT, fixed={"weight_prepacked": 0}, ignored=ACCURACY)
def matmul_n_bits(
    b: ImportBuilder,
    x: Value,
    weights: Value,
    scales: Value,
    zero_points: Value | None = None,
    g_idx: Value | None = None,
    bias: Value | None = None,
    *,
    K: int,
    N: int,
    bits: Literal[2, 4, 8] = 4,
    block_size: int,
) -> Value:
    """`x w^T + bias`, where the weights (N, K) are `(number - zero point) * scale` with a scale and a zero point for each block along K."""
    if g_idx is not None:
        raise UnsupportedError("the input g_idx is not supported; supported: to leave it out")
    if block_size < 16 or block_size & (block_size - 1) or min(K, N) < 1:
        raise ModelError(f"block_size must be a power of two from 16 on, K and N 1 or more; got {block_size}, {K} and {N}")
    blocks, dtype = -(-K // block_size), type_of(x).dtype
    numbers = unpacked(b, shaped(b, weights, (N, blocks, block_size * bits // 8), "the weights"), bits)
    factors = with_new_axes(b, shaped(b, scales, (N, blocks), "the scales"), [2])
    if zero_points is not None and is_float(type_of(zero_points).dtype):
        zeros = with_new_axes(b, shaped(b, zero_points, (N, blocks), "the zero points"), [2])
        values = b.mul(b.sub(b.convert(numbers, dtype), zeros), factors)
    else:
        if zero_points is None:
            zeros = b.literal(np.array(1 << (bits - 1), np.uint8))
        else:
            packed = shaped(b, zero_points, (N, -(-blocks * bits // 8)), "the zero points")
            zeros = with_new_axes(b, slice_axis(b, unpacked(b, packed, bits), 1, 0, blocks), [2])
        values = b.convert(dequantized(b, numbers, factors, zeros), dtype)
    matrix = slice_axis(b, b.reshape(values, shape=(N, blocks * block_size)), 1, 0, K)
    product = matmul(b, x, b.transposed(matrix, (1, 0)))
    return product if bias is None else b.add(product, bias)


def shaped(b: ImportBuilder, x: Value, shape: tuple[int, ...], what: str) -> Value:
    """`x` in a shape that it has, or whose number of elements it has. Raises ModelError otherwise."""
    have = static_dims(x, what)
    if have != shape and (len(have) != 1 or have[0] != np.prod(shape)):
        raise ModelError(f"{what} must be {list(shape)}, or a vector of as many elements; got {type_of(x)}")
    return b.with_shape(x, shape)


def unpacked(b: ImportBuilder, x: Value, bits: int) -> Value:
    """The numbers of `bits` bits in the bytes of the last dimension, the low bits first."""
    if type_of(x).dtype != "ui8":
        raise ModelError(f"packed numbers must be bytes (uint8), got {type_of(x)}")
    if bits == 8:
        return x
    kind = type_of(x)
    shifts = b.literal(np.arange(0, 8, bits, dtype=np.uint8))
    parts = b.bitwise_and(b.shift_right(with_new_axes(b, x, [kind.rank]), shifts), b.literal(np.array((1 << bits) - 1, np.uint8)))
    return b.reshape(parts, shape=(*static_dims(x, "packed numbers")[:-1], -1))
