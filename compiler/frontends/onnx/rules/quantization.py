"""Rules for linear quantisation: QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear; helpers shared by quantised operators.

Quotients and products are computed in f32 (a quotient in the precision that the node requests) and rounded to even before the zero point is added, as
in the operators' texts. ONNX's evaluator adds the zero point first in QLinearConv and QLinearMatMul: half-way cases differ.
"""

import numpy as np

from stepwell.dialects.core.dtypes import ELEMENT_TYPES, FLOATS, NARROW, dtype_info, is_small_float
from stepwell.dialects.core.sizes import holds, same_sizes
from stepwell.dialects.core.types import TensorType, is_float, to_numpy, type_of
from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.frontends.blocks.compact import clipped, compacted, number
from stepwell.frontends.blocks.slicing import reshaped_like
from stepwell.frontends.builder import Value, dims_of, normalized_axis, static_dim
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import onnx_rule
from stepwell.frontends.onnx.tensors import our_dtype

QUANTISED = (*NARROW, *(name for name, info in ELEMENT_TYPES.items() if info.is_small_float or (info.is_compact and info.is_integer)))
PRECISIONS = (*FLOATS, "i32")


@onnx_rule("QuantizeLinear", since=10)
def quantize_linear(
    b: ImportBuilder,
    x: Value,
    scale: Value,
    zero_point: Value | None = None,
    *,
    axis: int = 1,
    saturate: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
) -> Value:
    asked = our_dtype(output_dtype) if output_dtype else None
    dtype = type_of(zero_point).dtype if zero_point is not None else asked or "ui8"
    if asked not in (None, dtype):
        raise ModelError(f"output_dtype must be the element type of the zero point, {dtype}; got {asked}")
    if dtype not in QUANTISED:
        raise UnsupportedError(f"to {dtype} is not supported; supported: {', '.join(QUANTISED)}")
    computed = our_dtype(precision) if precision else type_of(number(b, scale)).dtype
    if computed not in PRECISIONS:
        raise UnsupportedError(f"precision {computed} is not supported; supported: {', '.join(PRECISIONS)}")
    data, scales, zeros = aligned(b, x, scale, zero_point, axis, block_size)
    return reshaped_like(b, quantized(b, data, scales, zeros, dtype, computed, bool(saturate)), x)


@onnx_rule("DequantizeLinear", since=10)
def dequantize_linear(
    b: ImportBuilder,
    x: Value,
    scale: Value,
    zero_point: Value | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Value:
    dtype = our_dtype(output_dtype) if output_dtype else type_of(number(b, scale)).dtype
    if not is_float(dtype):
        raise ModelError(f"its result must be of floats, got {dtype}")
    data, scales, zeros = aligned(b, x, scale, zero_point, axis, block_size)
    return reshaped_like(b, b.convert(dequantized(b, data, scales, zeros), dtype), x)


@onnx_rule("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(b: ImportBuilder, x: Value) -> tuple[Value, ...]:
    """The range of `x`, extended to include 0, becomes that of ui8. If it is only 0, the scale is 1 (as in ONNX Runtime; any would do)."""
    zero = b.scalar(0, like=x)
    axes = tuple(range(type_of(x).rank))
    low, high = b.minimum(b.reduce_min(x, axes=axes, keepdims=False), zero), b.maximum(b.reduce_max(x, axes=axes, keepdims=False), zero)
    scale = b.select(b.equal(low, high), b.scalar(1, like=x), b.div(b.sub(high, low), b.scalar(255, like=x)))
    zero_point = b.convert(b.round(b.div(b.neg(low), scale)), "ui8")
    return quantized(b, x, scale, zero_point, "ui8", type_of(x).dtype), scale, zero_point


# --- the arithmetic


def quantized(
    b: ImportBuilder, x: Value, scale: Value, zero_point: Value | None, dtype: str, precision: str | None = None, saturate: bool = True
) -> Value:
    """`saturate(round(x / scale) + zero_point)` in type `dtype`; NaN becomes 0. `precision` is that of the quotient, f32 by default.

    This is the op `quantize` if all floats are f32; else it is composed of several ops. Integers are divided in f64, which rounds no quotient of two
    i32 across one half. Small floats round only the sum, and keep NaN; without `saturate` values beyond their range become infinity or NaN.
    """
    scale, zero_point = number(b, scale), None if zero_point is None else number(b, zero_point)
    divided = "f32" if precision is None else precision if is_float(precision) else "f64"
    if dtype in NARROW and type_of(x).dtype == type_of(scale).dtype == divided == "f32":
        return b.quantize(x, scale, zero_of(b, dtype) if zero_point is None else zero_point)
    quotient = b.div(b.convert(x, divided), b.convert(scale, divided))
    if is_small_float(dtype):
        shifted = quotient if zero_point is None or is_zero(b, zero_point) else b.add(b.convert(quotient, "f32"), b.convert(zero_point, "f32"))
        return compacted(b, shifted, dtype, saturate=saturate)
    return saturated(b, b.convert(b.round(quotient), "f64" if divided == "f64" else "f32"), zero_point, dtype)


def saturated(b: ImportBuilder, whole: Value, zero_point: Value | None, dtype: str) -> Value:
    """Whole numbers (as floats that hold all of type `dtype`) plus a zero point, the nearest of type `dtype`, one of integers."""
    if is_float(dtype):
        raise UnsupportedError(f"a result of {dtype} is not supported; supported: integers")
    if zero_point is not None and not is_zero(b, zero_point):
        whole = b.add(whole, b.convert(zero_point, type_of(whole).dtype))
    return clipped(b, whole, dtype) if dtype_info(dtype).is_compact else b.cast(whole, to=dtype, saturate=True)


def dequantized(b: ImportBuilder, x: Value, scale: Value, zero_point: Value | None = None) -> Value:
    """`(x - zero_point) * scale` in f32, where the difference is exact: the op `dequantize`, except for small floats."""
    stored, factor = number(b, x), b.convert(number(b, scale), "f32")
    dtype = type_of(stored).dtype
    zero = None if zero_point is None or is_zero(b, zero_point) else number(b, zero_point)
    if is_float(dtype):
        return b.mul(b.convert(stored if zero is None else b.sub(stored, zero), "f32"), factor)
    if zero is not None and type_of(zero).dtype != dtype:
        raise ModelError(f"a zero point must have the element type {dtype} of its operand, got {type_of(zero)}")
    return b.dequantize(stored, factor, zero_of(b, dtype) if zero is None else zero)


def zero_of(b: ImportBuilder, dtype: str) -> Value:
    """The zero point 0 of an integer type."""
    return b.literal(np.zeros((), to_numpy(dtype)))


def is_zero(b: ImportBuilder, value: Value) -> bool:
    """Whether a value is known to be 0 throughout."""
    known = b.constant_value(value)
    return known is not None and not known.any()


# --- scales and zero points of one number, one for each index of an axis, or one for each block along an axis


def aligned(
    b: ImportBuilder, x: Value, scale: Value, zero_point: Value | None, axis: int, block_size: int
) -> tuple[Value, Value, Value | None]:
    """`x` (perhaps with an axis of blocks), its scale and its zero point in forms that broadcast to the shape of `x`.

    Raises ModelError if they do not fit, UnsupportedError for blocks that cannot be determined from the types.
    """
    if zero_point is not None and not fit(type_of(scale), type_of(zero_point)):
        raise ModelError(f"the scale {type_of(scale)} and the zero point {type_of(zero_point)} must have one shape")
    if block_size < 0:
        raise ModelError(f"block_size must be 0 or more, got {block_size}")
    given = [scale] if zero_point is None else [scale, zero_point]
    if is_single(type_of(scale)):
        shaped = [b.with_shape(v, ()) for v in given]
    else:
        axis = normalized_axis(axis, type_of(x).rank)
        if block_size:
            x, shaped = blocked(b, x, given, axis, block_size)
        else:
            shaped = [along(b, v, x, axis) for v in given]
    return x, shaped[0], shaped[1] if zero_point is not None else None


def fit(scale: TensorType, zero_point: TensorType) -> bool:
    """Whether a scale and a zero point have one shape, as far as that is known; one number may be a vector."""
    if is_single(scale) and is_single(zero_point):
        return True
    return same_sizes(scale.shape, zero_point.shape)


def is_single(tensor: TensorType) -> bool:
    """Whether a scale is one number for all: a scalar, or one element."""
    return tensor.is_static and tensor.elements == 1


def along(b: ImportBuilder, parameter: Value, x: Value, axis: int) -> Value:
    """One number for each index of an axis of `x`, shaped to broadcast. Raises ModelError if it is not that."""
    kind, size = type_of(parameter), type_of(x).shape[axis]
    if kind.rank != 1 or not holds(kind.shape[0], "==", size):
        raise ModelError(f"a scale or zero point must be one number or a vector as long as axis {axis} of {type_of(x)}, got {kind}")
    return b.reshape(parameter, shape=tuple(-1 if i == axis else 1 for i in range(type_of(x).rank)))


def blocked(b: ImportBuilder, x: Value, parameters: list[Value], axis: int, size: int) -> tuple[Value, list[Value]]:
    """`x` and one number for each block of `size` along an axis, in forms that broadcast.

    Full blocks get a separate axis; if there is a partial block, each number is repeated instead.
    """
    shape = dims_of(x)
    length = static_dim(x, axis, "to divide into blocks")
    blocks = -(-length // size)
    for value in parameters:
        kind = type_of(value).shape
        wanted = (*shape[:axis], blocks, *shape[axis + 1 :])
        if not same_sizes(kind, wanted):
            what = f"for blocks of {size} along axis {axis} of {type_of(x)}"
            raise ModelError(f"{what}, scale and zero point must have {blocks} there; got {type_of(value)}")
    if length % size:
        places = b.literal(np.arange(length, dtype=np.int64) // size)
        return x, [b.gather(value, places, axis=axis) for value in parameters]
    split = (*shape[:axis], blocks, size, *shape[axis + 1 :])
    return b.with_shape(x, split), [b.with_shape(value, (*split[: axis + 1], 1, *split[axis + 2 :])) for value in parameters]
