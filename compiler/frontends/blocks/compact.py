"""Conversions from and to integers of fewer than 8 bits and exponents by themselves, which are only stored: the numbers are computed bit by bit."""

from typing import Literal, TypeAlias

from stepwell.dialects.core.dtypes import is_small_float
from stepwell.dialects.core.types import dtype_info, is_compact, is_float, type_of
from stepwell.frontends.builder import ModelBuilder, Value

SINGLE_NAN = 0x7FC00000
RoundMode: TypeAlias = Literal["up", "down", "nearest"]


# --- to numbers


def number(b: ModelBuilder, x: Value) -> Value:
    """Compact elements as numbers of a type that holds them all: f32 for floats, i8 and ui8 for integers. Others unchanged."""
    dtype = type_of(x).dtype
    if is_small_float(dtype):
        return b.convert(x, "f32")
    if not is_compact(dtype):
        return x
    code, info = b.bit_cast(x, to="ui8"), dtype_info(dtype)
    return whole(b, code, info.bits, not info.is_unsigned) if info.is_integer else power_of_two(b, b.convert(code, "ui32"))


def whole(b: ModelBuilder, code: Value, width: int, signed: bool) -> Value:
    """The integer in the lowest bits of a ui8."""
    low = b.bitwise_and(code, b.scalar((1 << width) - 1, like=code))
    if not signed:
        return low
    top = 1 << (width - 1)
    return b.bit_cast(b.sub(b.bitwise_xor(low, b.scalar(top, like=low)), b.scalar(top, like=low)), to="i8")


def power_of_two(b: ModelBuilder, code: Value) -> Value:
    """The f32 of a bare exponent; the smallest is a subnormal number, and the largest code NaN."""
    bits = b.shift_left(code, b.scalar(23, like=code))
    bits = b.select(b.equal(code, b.scalar(0, like=code)), b.scalar(1 << 22, like=code), bits)
    return b.bit_cast(b.select(b.equal(code, b.scalar(255, like=code)), b.scalar(SINGLE_NAN, like=code), bits), to="f32")


# --- from numbers


def compacted(b: ModelBuilder, x: Value, dtype: str, *, saturate: bool = True, round_mode: RoundMode = "up") -> Value:
    """Numbers as elements of a compact type: floats rounded to even (bare exponents as `round_mode` says), integers truncated.

    With `saturate`, floats beyond the largest number become that number, instead of infinity or NaN. Integers wrap.
    """
    info = dtype_info(dtype)
    if info.is_small_float:
        return x if type_of(x).dtype == dtype else b.cast(x, to=dtype, saturate=saturate)
    if info.is_integer:
        code = b.convert(x, "ui8") if not is_float(type_of(x).dtype) else b.cast(b.cast(x, to="i32", saturate=False), to="ui8", saturate=True)
        return b.bit_cast(b.bitwise_and(code, b.scalar((1 << info.bits) - 1, like=code)), to=dtype)
    return b.bit_cast(b.convert(exponent_code(b, b.bit_cast(single_once(b, x), to="ui32"), saturate, round_mode), "ui8"), to=dtype)


def clipped(b: ModelBuilder, x: Value, dtype: str) -> Value:
    """Integers held as floats, clamped to a compact integer type; NaN becomes 0."""
    low, high = dtype_info(dtype).limits
    wide = b.cast(x, to="ui8" if dtype_info(dtype).is_unsigned else "i8", saturate=True)
    return compacted(b, b.clamp(wide, min=float(low), max=float(high)), dtype)


def single_once(b: ModelBuilder, x: Value) -> Value:
    """Numbers as f32 such that a second rounding has the effect of a single one: an f64 is rounded to odd."""
    if type_of(x).dtype != "f64":
        return b.convert(x, "f32")
    near = b.convert(x, "f32")
    back = b.convert(near, "f64")
    bits = b.bit_cast(near, to="ui32")
    toward = b.select(b.greater(b.abs(back), b.abs(x)), b.sub(bits, b.scalar(1, like=bits)), bits)
    exact = b.or_(b.equal(back, x), b.is_nan(x))
    return b.bit_cast(b.select(exact, bits, b.bitwise_or(toward, b.scalar(1, like=bits))), to="f32")


def exponent_code(b: ModelBuilder, bits: Value, saturate: bool, round_mode: RoundMode) -> Value:
    """The exponent, in ui32, of an f32 given by its bits, which is taken as positive; 255 if it is not finite."""
    exponent = b.bitwise_and(b.shift_right(bits, b.scalar(23, like=bits)), b.scalar(0xFF, like=bits))
    if round_mode == "down":
        return exponent
    digits = b.bitwise_and(bits, b.scalar(0x7FFFFF, like=bits))
    if round_mode == "up":
        more = b.greater(digits, b.scalar(0, like=bits))
    else:  # half and more; a subnormal number that is exactly a half stays
        half = b.scalar(0x400000, like=bits)
        more = b.or_(b.greater(digits, half), b.and_(b.equal(digits, half), b.greater(exponent, b.scalar(0, like=bits))))
    most = b.less(exponent, b.scalar(0xFE if saturate else 0xFF, like=bits))
    return b.add(exponent, b.convert(b.and_(more, most), "ui32"))
