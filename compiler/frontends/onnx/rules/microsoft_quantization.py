"""Rules for the quantised operators of ONNX Runtime's domain com.microsoft, which its quantisation tools write into models.

Linear operators are computed on integers, the rest in f32. ONNX Runtime rounds some of these at other points: results may differ by one step.
"""

from collections.abc import Callable, Sequence

from stepwell.dialects.core.sizes import same_sizes
from stepwell.dialects.core.types import type_of
from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.frontends.builder import Value, normalized_axis
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import onnx_rule
from stepwell.frontends.onnx.rules.contractions import centred, matmul_integer
from stepwell.frontends.onnx.rules.microsoft import MICROSOFT
from stepwell.frontends.onnx.rules.pooling import average_pool
from stepwell.frontends.onnx.rules.quantization import dequantize_linear, dequantized, dynamic_quantize_linear, is_single, quantize_linear, quantized
from stepwell.frontends.onnx.rules.quantized_products import multiplied, qlinear_conv, requantized, sides
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


def real(b: ImportBuilder, x: Value, scale: Value | None, zero_point: Value | None) -> Value:
    """The numbers in f32 that `x` represents, with one scale and one zero point for all."""
    return dequantized(b, x, number(b, scale, "a scale"), zero_or(b, zero_point, x))


def stored(b: ImportBuilder, x: Value, scale: Value | None, zero_point: Value | None, like: Value) -> Value:
    """Numbers in f32 quantised with one scale and one zero point: in its element type, or in that of `like` if there is none."""
    zero = zero_or(b, zero_point, like)
    return quantized(b, x, number(b, scale, "the scale of the result"), zero, type_of(zero).dtype)


@onnx_rule("QLinearAdd", since=1, domain=MICROSOFT)
def qlinear_add(
    b: ImportBuilder,
    lhs: Value,
    lhs_scale: Value,
    lhs_zero_point: Value | None = None,
    rhs: Value | None = None,
    rhs_scale: Value | None = None,
    rhs_zero_point: Value | None = None,
    scale: Value | None = None,
    zero_point: Value | None = None,
) -> Value:
    if rhs is None:
        raise ModelError("its second operand is missing")
    total = b.add(real(b, lhs, lhs_scale, lhs_zero_point), real(b, rhs, rhs_scale, rhs_zero_point))
    return stored(b, total, scale, zero_point, lhs)


@onnx_rule("QLinearMul", since=1, domain=MICROSOFT)
def qlinear_mul(
    b: ImportBuilder,
    lhs: Value,
    lhs_scale: Value,
    lhs_zero_point: Value | None = None,
    rhs: Value | None = None,
    rhs_scale: Value | None = None,
    rhs_zero_point: Value | None = None,
    scale: Value | None = None,
    zero_point: Value | None = None,
) -> Value:
    if rhs is None:
        raise ModelError("its second operand is missing")
    product = b.mul(*(centred(b, x, zero_or(b, zero, x), 0) for x, zero in ((lhs, lhs_zero_point), (rhs, rhs_zero_point))))
    scales = [number(b, lhs_scale, "a scale"), number(b, rhs_scale, "a scale")]
    return requantized(b, product, scales, number(b, scale, "the scale of the result"), zero_or(b, zero_point, lhs))


def pointwise(function: Callable[..., Value]) -> Callable[..., Value]:
    """The rule of an operator that applies `function` to the numbers that its operand represents."""

    def rule(
        b: ImportBuilder,
        x: Value,
        x_scale: Value,
        x_zero_point: Value | None = None,
        scale: Value | None = None,
        zero_point: Value | None = None,
    ) -> Value:
        return stored(b, function(b, real(b, x, x_scale, x_zero_point)), scale, zero_point, x)

    return rule


onnx_rule("QLinearSigmoid", since=1, domain=MICROSOFT)(pointwise(lambda b, x: b.sigmoid(x)))


@onnx_rule("QLinearLeakyRelu", since=1, domain=MICROSOFT)
def qlinear_leaky_relu(
    b: ImportBuilder,
    x: Value,
    x_scale: Value,
    x_zero_point: Value | None = None,
    scale: Value | None = None,
    zero_point: Value | None = None,
    *,
    alpha: float = 0.01,
) -> Value:
    return pointwise(lambda b, x: b.leaky_relu(x, alpha=alpha))(b, x, x_scale, x_zero_point, scale, zero_point)


@onnx_rule("QLinearSoftmax", since=1, domain=MICROSOFT)
def qlinear_softmax(
    b: ImportBuilder,
    x: Value,
    x_scale: Value,
    x_zero_point: Value | None = None,
    scale: Value | None = None,
    zero_point: Value | None = None,
    *,
    axis: int = -1,
    opset: int,
) -> Value:
    function = softmax if opset >= 13 else softmax_of_rows
    return pointwise(lambda b, x: function(b, x, axis=axis))(b, x, x_scale, x_zero_point, scale, zero_point)


@onnx_rule("QLinearWhere", since=1, domain=MICROSOFT)
def qlinear_where(
    b: ImportBuilder,
    condition: Value,
    x: Value,
    x_scale: Value,
    x_zero_point: Value,
    y: Value,
    y_scale: Value,
    y_zero_point: Value,
    scale: Value,
    zero_point: Value,
) -> Value:
    chosen = (stored(b, real(b, v, s, z), scale, zero_point, v) for v, s, z in ((x, x_scale, x_zero_point), (y, y_scale, y_zero_point)))
    return b.select(condition, *chosen)


@onnx_rule("QLinearConcat", since=1, domain=MICROSOFT)
def qlinear_concat(b: ImportBuilder, scale: Value, zero_point: Value, *inputs: Value, axis: int) -> Value:
    if not inputs or len(inputs) % 3:
        raise ModelError(f"its inputs must be tensors, each with a scale and a zero point; got {len(inputs)} in all")
    triples = zip(inputs[::3], inputs[1::3], inputs[2::3], strict=True)
    parts = [stored(b, real(b, *triple), scale, zero_point, zero_point) for triple in triples]
    return b.concat(parts, axis=normalized_axis(axis, type_of(parts[0]).rank))


# --- means


@onnx_rule("QLinearGlobalAveragePool", since=1, domain=MICROSOFT)
def qlinear_global_average_pool(
    b: ImportBuilder, x: Value, x_scale: Value, x_zero_point: Value, scale: Value, zero_point: Value, *, channels_last: int = 0
) -> Value:
    """The sum is over integers; the division for the mean goes into the scale."""
    rank = type_of(x).rank
    if rank < 3:
        raise ModelError(f"its input must have a batch, channels and at least one spatial dimension, got {type_of(x)}")
    axes = tuple(range(1, rank - 1) if channels_last else range(2, rank))
    whole = centred(b, x, zero_or(b, x_zero_point, x), 0)
    step = b.div(number(b, x_scale, "a scale"), b.convert(element_count(b, whole, axes), "f32"))
    total = b.reduce_sum(whole, axes=axes, keepdims=True)
    return requantized(b, total, [step], number(b, scale, "the scale of the result"), zero_or(b, zero_point, x))


@onnx_rule("QLinearAveragePool", since=1, domain=MICROSOFT)
def qlinear_average_pool(
    b: ImportBuilder,
    x: Value,
    x_scale: Value,
    x_zero_point: Value | None = None,
    scale: Value | None = None,
    zero_point: Value | None = None,
    *,
    kernel_shape: Sequence[int],
    strides: Sequence[int] = (),
    pads: Sequence[int] = (),
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    channels_last: int = 0,
) -> Value:
    pooled = average_pool(
        b,
        channels_first(b, real(b, x, x_scale, x_zero_point), channels_last),
        kernel_shape=kernel_shape,
        strides=strides,
        pads=pads,
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
    )
    return stored(b, as_given(b, pooled, channels_last), scale, zero_point, x)


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
    x: Value,
    x_scale: Value,
    x_zero_point: Value,
    w: Value,
    w_scale: Value,
    w_zero_point: Value,
    scale: Value,
    zero_point: Value,
    bias: Value | None = None,
    *,
    kernel_shape: Sequence[int] = (),
    strides: Sequence[int] = (),
    pads: Sequence[int] = (),
    dilations: Sequence[int] = (),
    auto_pad: str = "NOTSET",
    group: int = 1,
    channels_last: int = 0,
) -> Value:
    made = qlinear_conv(
        b,
        channels_first(b, x, channels_last),
        x_scale,
        x_zero_point,
        w,
        w_scale,
        w_zero_point,
        scale,
        zero_point,
        bias,
        kernel_shape=kernel_shape,
        strides=strides,
        pads=pads,
        dilations=dilations,
        auto_pad=auto_pad,
        group=group,
    )
    return as_given(b, made, channels_last)


@onnx_rule("QGemm", since=1, domain=MICROSOFT)
def qgemm(
    b: ImportBuilder,
    lhs: Value,
    lhs_scale: Value,
    lhs_zero_point: Value,
    rhs: Value,
    rhs_scale: Value,
    rhs_zero_point: Value,
    bias: Value | None = None,
    scale: Value | None = None,
    zero_point: Value | None = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Value:
    """`alpha * (A' * B' + C)`, in f32 without a scale for the result; the bias is in units of the products."""
    if type_of(lhs).rank != 2 or type_of(rhs).rank != 2:
        raise ModelError(f"its operands must have rank 2, got {type_of(lhs)} and {type_of(rhs)}")
    if (scale is None) != (zero_point is None):
        raise ModelError("the scale and the zero point of the result must be given together")
    rows = b.transposed(lhs, (1, 0)) if transA else lhs
    columns = b.transposed(rhs, (1, 0)) if transB else rhs
    product = matmul_integer(b, rows, columns, number(b, lhs_zero_point, "the zero point of A"), rhs_zero_point)
    total = product if bias is None else b.add(product, bias)
    if not same_sizes(type_of(total).shape, type_of(product).shape):
        raise ModelError(f"the bias does not fit the product {type_of(product)}: together they are {type_of(total)}")
    scales = sides(b, rows, number(b, lhs_scale, "the scale of A"), columns, rhs_scale, product)
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
    total = b.mul(b.convert(product, "f32"), multiplied(b, sides(b, lhs, lhs_scale, rhs, rhs_scale, product)))
    return b.convert(total if bias is None else b.add(total, b.convert(bias, "f32")), type_of(lhs_scale).dtype)


@onnx_rule("DynamicQuantizeMatMul", since=1, domain=MICROSOFT)
def dynamic_quantize_matmul(
    b: ImportBuilder, lhs: Value, rhs: Value, rhs_scale: Value, rhs_zero_point: Value | None = None, bias: Value | None = None
) -> Value:
    if type_of(lhs).dtype != "f32":
        raise UnsupportedError(f"of {type_of(lhs)} is not supported; supported: f32")
    data, scale, zero_point = dynamic_quantize_linear(b, lhs)
    return matmul_integer_to_float(b, data, rhs, scale, rhs_scale, zero_point, rhs_zero_point, bias)
