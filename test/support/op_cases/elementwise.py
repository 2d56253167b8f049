"""Cases of element-wise ops that have no meaning for some values."""

import numpy as np
from op_random import Case, Random

from op_cases.table import DOMAINS, case
from stepwell.dialects.core.types import DTYPES, NUMERIC, UNSIGNED, from_numpy, is_float, to_numpy

DOMAINS.update({**dict.fromkeys(("sqrt", "rsqrt", "log"), (0.1, 9)), **dict.fromkeys(("asin", "acos", "atanh"), (-0.9, 0.9)), "acosh": (1.1, 9)})


@case("add", "sub", "mul", "maximum", "minimum", "less", "less_equal", "greater", "greater_equal", "bitwise_and", "bitwise_or", "bitwise_xor")
def of_all_values(r: Random) -> Case:
    dtype = r.dtype()
    return Case([r.any_value(dtype, shape) for shape in r.broadcastable()], {})


@case("equal")
def equal(r: Random) -> Case:
    dtype = r.dtype()
    return Case([r.within(dtype, shape, -2, 2) for shape in r.broadcastable()], {})


@case("bitwise_not")
def bitwise_not(r: Random) -> Case:
    return Case([r.any_value(r.dtype(), r.shape())], {})


@case("is_nan")
def is_nan(r: Random) -> Case:
    return Case([r.any_value(r.dtype(), r.shape())], {})


@case("is_inf")
def is_inf(r: Random) -> Case:
    return Case([r.any_value(r.dtype(), r.shape())], {"detect_negative": r.boolean(), "detect_positive": r.boolean()})


@case("round")
def nearest(r: Random) -> Case:
    """With ties."""
    dtype, x = r.dtype(), r.array("f32", r.shape(), -8, 8)
    with np.errstate(over="ignore"):
        return Case([np.asarray(np.round(x * 4) / 4).astype(to_numpy(dtype))], {})


def dividend_and_divisor(r: Random) -> list[np.ndarray]:
    dtype = r.dtype()
    a, b = r.broadcastable()
    return [r.array(dtype, a, -100, 100), divisor(r, dtype, b)]


def divisor(r: Random, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Without zeros: integers have no quotient by them, and ONNX Runtime none of floats on some machines."""
    values = r.array(dtype, shape, -9, 9)
    return np.asarray(np.where(values == 0, np.ones((), values.dtype), values))


@case("div")
def div(r: Random) -> Case:
    return Case(dividend_and_divisor(r), {})


@case("mod")
def mod(r: Random) -> Case:
    operands = dividend_and_divisor(r)
    return Case(operands, {"fmod": True if is_float(from_numpy(operands[0].dtype)) else r.boolean()})


@case("pow")
def power(r: Random) -> Case:
    dtype = r.dtype()
    a, b = r.broadcastable()
    if is_float(dtype):
        return Case([r.array(dtype, a, 0.1, 4), r.array(dtype, b, -3, 3)], {})
    return Case([r.within(dtype, a, -3, 3), r.within(dtype, b, 0, 4)], {})


@case("shift_left", "shift_right")
def shift(r: Random) -> Case:
    dtype = r.dtype()
    a, b = r.broadcastable()
    return Case([r.any_value(dtype, a), r.array(dtype, b, 0, to_numpy(dtype).itemsize * 8 - 1)], {})


@case("clamp")
def clamp(r: Random) -> Case:
    low, high = r.choice([-2.0, 0.0, -np.inf, 1.0]), r.choice([2.0, 6.0, np.inf, 1.0])
    return Case([r.array(r.dtype(), r.shape(), -9, 9)], {"min": low, "max": high})


@case("cast")
def cast(r: Random) -> Case:
    source, to, saturate = r.dtype(), r.choice(DTYPES), r.boolean()
    shape, low = r.shape(), 0 if to in UNSIGNED and saturate else -100
    drawn = r.array(source, shape, low, 100) if is_float(source) or is_float(to) else r.any_value(source, shape)
    return Case([drawn], {"to": to, "saturate": saturate})


@case("bit_cast")
def bit_cast(r: Random) -> Case:
    source = r.dtype()
    fitting = [dtype for dtype in NUMERIC if to_numpy(dtype).itemsize == to_numpy(source).itemsize]
    return Case([r.any_value(source, r.shape())], {"to": r.choice(fitting)})


@case("select")
def select(r: Random) -> Case:
    dtype = r.dtype()
    a, b, c = r.broadcastable(3)
    return Case([r.array("i1", c), r.array(dtype, a), r.array(dtype, b)], {})


@case("packed.masked")
def masked(r: Random) -> Case:
    """Infinities and NaN behind the mask."""
    dtype = r.dtype()
    a, b = r.broadcastable()
    return Case([r.any_value(dtype, a), r.array(dtype, b, 0, 1)], {})


@case("quantize")
def quantize(r: Random) -> Case:
    dtype, shape = r.dtype(), r.shape(1, 4)
    parameters = beside(r, shape)
    return Case([r.array("f32", shape, -300, 300), r.within("f32", parameters, 0.01, 3), r.any_value(dtype, parameters)], {})


@case("dequantize")
def dequantize(r: Random) -> Case:
    """Of i32 without a zero point, as ONNX Runtime has it."""
    dtype, shape = r.dtype(), r.shape(1, 4)
    parameters = beside(r, shape)
    zero = r.within(dtype, parameters, 0, 0) if dtype == "i32" else r.any_value(dtype, parameters)
    return Case([r.any_value(dtype, shape), r.within("f32", parameters, 0.01, 3), zero], {})


@case("fake_quantize")
def fake_quantize(r: Random) -> Case:
    """With ties, beyond both bounds, and NaN and infinities where floats are of all values."""
    dtype, shape = r.dtype(), r.shape(1, 4)
    x = r.any_value("f32", shape) if r.boolean() else np.asarray(np.round(r.array("f32", shape, -600, 600) * 2) / 2).astype(np.float32)
    return Case([x, r.any_value(dtype, beside(r, shape))], {})


def beside(r: Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a scale: one number, or one for each index of an axis."""
    axis = r.integer(0, len(shape) - 1)
    return tuple(n if i == axis else 1 for i, n in enumerate(shape)) if r.boolean() else ()
