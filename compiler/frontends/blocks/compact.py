"""Conversions from and to floats and integers of 8 bits and fewer, which are only stored: what they stand for is computed bit by bit."""

from dataclasses import dataclass

import numpy as np

from stepwell.dialects.core.types import is_compact, is_float, to_numpy, type_of
from stepwell.dialects.support.errors import UnsupportedError
from stepwell.frontends.builder import ModelBuilder, Value


@dataclass(frozen=True)
class Small:
    """A float of a sign, an exponent and `digits` bits of significand; `largest` is the code of its greatest number.

    `infinity` is the code of what is beyond (a NaN in formats that have no infinity; the greatest number where they have neither), `nan` that of
    NaN, `signed` whether zero and NaN have a sign. Micikevicius et al., "FP8 Formats for Deep Learning", 2022; OCP, "Microscaling Formats", 2023.
    """

    digits: int
    bias: int
    largest: int
    infinity: int
    nan: int
    signed: bool = True
    sign: int = 0x80


FORMATS = {
    "f8E4M3FN": Small(3, 7, 0x7E, 0x7F, 0x7F),
    "f8E4M3FNUZ": Small(3, 8, 0x7F, 0x80, 0x80, signed=False),
    "f8E5M2": Small(2, 15, 0x7B, 0x7C, 0x7E),
    "f8E5M2FNUZ": Small(2, 16, 0x7F, 0x80, 0x80, signed=False),
    "f4E2M1FN": Small(1, 1, 0x7, 0x7, 0x8, sign=0x8),
}
WIDTHS = {"i4": 4, "ui4": 4, "i2": 2, "ui2": 2}
SINGLE_NAN, SINGLE_INFINITY = 0x7FC00000, 0x7F800000
ROUND_MODES = ("up", "down", "nearest")


# --- to numbers


def number(b: ModelBuilder, x: Value) -> Value:
    """Compact elements as numbers of a type that holds them all: f32 of floats, i8 and ui8 of integers. Others as they are."""
    dtype = type_of(x).dtype
    if not is_compact(dtype):
        return x
    code = b.bit_cast(x, to="ui8")
    if dtype in WIDTHS:
        return whole(b, code, WIDTHS[dtype], not dtype.startswith("u"))
    wide = b.convert(code, "ui32")
    return power_of_two(b, wide) if dtype == "f8E8M0FNU" else small_float(b, wide, FORMATS[dtype])


def like(b: ModelBuilder, value: int, x: Value) -> Value:
    """A scalar of the element type of `x`."""
    return b.scalar(value, like=x)


def single(b: ModelBuilder, bits: Value) -> Value:
    """The f32 of these bits."""
    return b.bit_cast(bits, to="f32")


def whole(b: ModelBuilder, code: Value, width: int, signed: bool) -> Value:
    """The integer in the lowest bits of a ui8."""
    low = b.bitwise_and(code, like(b, (1 << width) - 1, code))
    if not signed:
        return low
    top = 1 << (width - 1)
    return b.bit_cast(b.sub(b.bitwise_xor(low, like(b, top, low)), like(b, top, low)), to="i8")


def small_float(b: ModelBuilder, code: Value, form: Small) -> Value:
    """The f32 of a code: its exponent and digits where those of an f32 are, times a power of two, which makes subnormal numbers right as well."""
    size = b.bitwise_and(code, like(b, form.sign - 1, code))
    scaled = b.mul(single(b, b.shift_left(size, like(b, 23 - form.digits, code))), b.literal(np.float32(2.0 ** (127 - form.bias))))
    bits = b.bit_cast(scaled, to="ui32")
    if form.signed:
        if form.infinity != form.nan and form.infinity != form.largest:
            bits = b.select(b.equal(size, like(b, form.infinity, code)), like(b, SINGLE_INFINITY, code), bits)
        if form.nan < form.sign:
            beyond = b.greater(size, like(b, max(form.largest, form.infinity if form.infinity != form.nan else 0), code))
            bits = b.select(beyond, like(b, SINGLE_NAN, code), bits)
    sign = b.shift_left(b.bitwise_and(code, like(b, form.sign, code)), like(b, 24 if form.sign == 0x80 else 28, code))
    bits = b.bitwise_or(bits, sign)
    if not form.signed:
        bits = b.select(b.equal(b.bitwise_and(code, like(b, 0xFF, code)), like(b, form.nan, code)), like(b, SINGLE_NAN, code), bits)
    return single(b, bits)


def power_of_two(b: ModelBuilder, code: Value) -> Value:
    """The f32 of an exponent by itself; the least is a subnormal number, and the greatest code NaN."""
    bits = b.shift_left(code, like(b, 23, code))
    bits = b.select(b.equal(code, like(b, 0, code)), like(b, 1 << 22, code), bits)
    return single(b, b.select(b.equal(code, like(b, 255, code)), like(b, SINGLE_NAN, code), bits))


# --- from numbers


def compacted(b: ModelBuilder, x: Value, dtype: str, *, saturate: bool = True, round_mode: str = "up") -> Value:
    """Numbers as elements of a compact type: floats rounded to even (exponents by themselves as `round_mode` says), integers truncated.

    `saturate`: floats beyond the greatest number become that, and not infinity or NaN. Integers wrap.
    """
    if dtype in WIDTHS:
        code = b.convert(x, "ui8") if not is_float(type_of(x).dtype) else b.cast(b.cast(x, to="i32", saturate=False), to="ui8", saturate=True)
        return b.bit_cast(b.bitwise_and(code, like(b, (1 << WIDTHS[dtype]) - 1, code)), to=dtype)
    bits = b.bit_cast(single_once(b, x), to="ui32")
    code = exponent_code(b, bits, saturate, round_mode) if dtype == "f8E8M0FNU" else small_code(b, bits, FORMATS[dtype], saturate)
    return b.bit_cast(b.convert(code, "ui8"), to=dtype)


def clipped(b: ModelBuilder, x: Value, dtype: str) -> Value:
    """Whole numbers (as floats) as the nearest of a compact integer type; NaN as 0."""
    signed = not dtype.startswith("u")
    width = WIDTHS[dtype]
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    return compacted(b, b.clamp(b.cast(x, to="i8" if signed else "ui8", saturate=True), min=float(low), max=float(high)), dtype)


def single_once(b: ModelBuilder, x: Value) -> Value:
    """Numbers as f32, such that rounding them further is as if it were the only time: an f64 rounded to odd."""
    if type_of(x).dtype != "f64":
        return b.convert(x, "f32")
    near = b.convert(x, "f32")
    back = b.convert(near, "f64")
    bits = b.bit_cast(near, to="ui32")
    toward = b.select(b.greater(b.abs(back), b.abs(x)), b.sub(bits, like(b, 1, bits)), bits)
    exact = b.or_(b.equal(back, x), b.is_nan(x))
    return single(b, b.select(exact, bits, b.bitwise_or(toward, like(b, 1, bits))))


def small_code(b: ModelBuilder, bits: Value, form: Small, saturate: bool) -> Value:
    """The code, in ui32, of an f32 given by its bits."""
    dropped, least = 23 - form.digits, 1 - form.bias
    size = b.bitwise_and(bits, like(b, 0x7FFFFFFF, bits))
    # Normal numbers: half a unit, less a little where the last digit that stays is 0, carries into what stays.
    last = b.bitwise_and(b.shift_right(size, like(b, dropped, bits)), like(b, 1, bits))
    carried = b.add(b.add(size, like(b, (1 << (dropped - 1)) - 1, bits)), last)
    normal = b.sub(b.shift_right(carried, like(b, dropped, bits)), like(b, (127 - form.bias) << form.digits, bits))
    # Subnormal ones: added to a number whose last digit is their unit, they are rounded by that addition.
    unit = np.float32(2.0 ** (least - form.digits + 23))
    shifted = b.bit_cast(b.add(single(b, size), b.literal(unit)), to="ui32")
    subnormal = b.sub(shifted, like(b, int(unit.view(np.uint32)), bits))
    code = b.select(b.less(size, like(b, (127 + least) << 23, bits)), subnormal, normal)
    beyond = b.greater(code, like(b, form.largest, bits))
    code = b.select(beyond, like(b, form.largest if saturate else form.infinity, bits), code)
    is_nan = b.greater(size, like(b, SINGLE_INFINITY, bits))
    sign = b.bitwise_and(b.shift_right(bits, like(b, 24 if form.sign == 0x80 else 28, bits)), like(b, form.sign, bits))
    if not form.signed:  # neither zero nor NaN, whose code is that of a negative zero
        sign = b.select(b.equal(code, like(b, 0, bits)), like(b, 0, bits), sign)
        code = b.bitwise_or(code, sign)
        return b.select(is_nan, like(b, form.nan, bits), code)
    if form.nan < form.sign:
        return b.bitwise_or(b.select(is_nan, like(b, form.nan, bits), code), sign)
    return b.select(is_nan, like(b, form.nan, bits), b.bitwise_or(code, sign))


def exponent_code(b: ModelBuilder, bits: Value, saturate: bool, round_mode: str) -> Value:
    """The exponent, in ui32, of an f32 given by its bits, which is taken as positive; 255 for what is not finite."""
    if round_mode not in ROUND_MODES:
        raise UnsupportedError(f"round_mode={round_mode!r} is not supported; supported: {', '.join(map(repr, ROUND_MODES))}")
    exponent = b.bitwise_and(b.shift_right(bits, like(b, 23, bits)), like(b, 0xFF, bits))
    if round_mode == "down":
        return exponent
    digits = b.bitwise_and(bits, like(b, 0x7FFFFF, bits))
    if round_mode == "up":
        more = b.greater(digits, like(b, 0, bits))
    else:  # half and more; a subnormal number that is just a half stays
        half = like(b, 0x400000, bits)
        more = b.or_(b.greater(digits, half), b.and_(b.equal(digits, half), b.greater(exponent, like(b, 0, bits))))
    most = b.less(exponent, like(b, 0xFE if saturate else 0xFF, bits))
    return b.add(exponent, b.convert(b.and_(more, most), "ui32"))


def bits_of(dtype: str) -> int:
    """How many bits an element of a type has."""
    return WIDTHS.get(dtype) or (4 if dtype == "f4E2M1FN" else 8 * to_numpy(dtype).itemsize)
