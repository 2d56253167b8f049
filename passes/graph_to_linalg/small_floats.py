"""Conversion of one scalar between f32 and a float of 8 bits or fewer, bit by bit: no instruction of most machines does it.

Micikevicius et al., "FP8 Formats for Deep Learning", 2022; OCP, "Microscaling Formats", 2023.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from stepwell.dialects.core.dtypes import ElementType
from stepwell.dialects.core.mlir import arith, ir
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, element
from stepwell.passes.graph_to_linalg.scalars import Scalars

SINGLE_NAN, SINGLE_INFINITY, SINGLE_DIGITS, SINGLE_BIAS = 0x7FC00000, 0x7F800000, 23, 127  # bits of f32, its mantissa's digits, its bias


@dataclass(frozen=True)
class Codes:
    """The bits of a small float: a sign, an exponent with a bias, and `digits` bits of significand behind the leading one."""

    digits: int
    bias: int
    sign: int
    largest: int
    """The code of the greatest number."""
    infinity: int
    """The code of what is beyond: an infinity, NaN in formats without one, the greatest number in those that have neither."""
    nan: int
    has_negative_zero: bool
    """Otherwise its code is that of the only NaN."""


@cache
def codes_of(kind: ElementType) -> Codes:
    """The codes of a type, as its numpy dtype converts numbers."""

    def code(number: float) -> int:
        return int(np.array(number, np.float32).astype(kind.numpy).view(np.uint8))

    least = float(np.array(1, np.uint8).view(kind.numpy).astype(np.float32))  # the least subnormal number, 2 ** (1 - bias - digits)
    digits = kind.precision - 1
    bias = 1 - digits - int(np.log2(least))
    return Codes(digits, bias, 1 << (kind.bits - 1), code(kind.limits[1]), code(np.inf), code(np.nan), code(-0.0) != 0)


def to_single(b: LinalgBuilder, code: ir.Value, kind: ElementType) -> ir.Value:
    """The f32 of a code: exponent and digits moved to their positions in an f32, times a power of two, which is right for subnormal numbers too."""
    codes, s, floats = codes_of(kind), Scalars(b, "ui32"), Scalars(b, "f32")
    code = arith.ExtUIOp(s.type, code).result
    size = arith.AndIOp(code, s.const(codes.sign - 1)).result
    shifted = arith.ShLIOp(size, s.const(SINGLE_DIGITS - codes.digits)).result
    scaled = floats.mul(arith.BitcastOp(floats.type, shifted).result, floats.const(2.0 ** (SINGLE_BIAS - codes.bias)))
    bits = arith.BitcastOp(s.type, scaled).result
    if codes.has_negative_zero:
        if kind.has_infinity:
            bits = s.select(s.compare("eq", size, s.const(codes.infinity)), s.const(SINGLE_INFINITY), bits)
        if codes.nan < codes.sign:
            last = codes.infinity if kind.has_infinity else codes.largest
            bits = s.select(s.compare("gt", size, s.const(last)), s.const(SINGLE_NAN), bits)
    sign = arith.ShLIOp(arith.AndIOp(code, s.const(codes.sign)).result, s.const(32 - kind.bits)).result
    bits = arith.OrIOp(bits, sign).result
    if not codes.has_negative_zero:
        bits = s.select(s.compare("eq", code, s.const(codes.nan)), s.const(SINGLE_NAN), bits)
    return arith.BitcastOp(floats.type, bits).result


def from_single(b: LinalgBuilder, x: ir.Value, kind: ElementType, saturate: bool) -> ir.Value:
    """The code of the number that is nearest to an f32, of two the even one."""
    codes, s = codes_of(kind), Scalars(b, "ui32")
    dropped, least = SINGLE_DIGITS - codes.digits, 1 - codes.bias
    bits = arith.BitcastOp(s.type, x).result
    size = arith.AndIOp(bits, s.const(0x7FFFFFFF)).result
    # Normal numbers: half a unit, less a little where the last digit that stays is 0, carries into what stays.
    last = arith.AndIOp(arith.ShRUIOp(size, s.const(dropped)).result, s.const(1)).result
    carried = s.add(s.add(size, s.const((1 << (dropped - 1)) - 1)), last)
    normal = s.sub(arith.ShRUIOp(carried, s.const(dropped)).result, s.const((SINGLE_BIAS - codes.bias) << codes.digits))
    code = s.select(s.compare("lt", size, s.const((SINGLE_BIAS + least) << SINGLE_DIGITS)), _subnormal(b, size, codes), normal)
    beyond = s.compare("gt", code, s.const(codes.largest))
    code = s.select(beyond, s.const(codes.largest if saturate else codes.infinity), code)
    is_nan = s.compare("gt", size, s.const(SINGLE_INFINITY))
    sign = arith.AndIOp(arith.ShRUIOp(bits, s.const(32 - kind.bits)).result, s.const(codes.sign)).result
    if not codes.has_negative_zero:
        sign = s.select(s.compare("eq", code, s.const(0)), s.const(0), sign)
    if codes.nan < codes.sign:  # NaN has a sign
        code = arith.OrIOp(s.select(is_nan, s.const(codes.nan), code), sign).result
    else:
        code = s.select(is_nan, s.const(codes.nan), arith.OrIOp(code, sign).result)
    return arith.TruncIOp(element(kind.name), code).result


def _subnormal(b: LinalgBuilder, size: ir.Value, codes: Codes) -> ir.Value:
    """The code of a number below the normal ones: added to a number whose last digit is their unit, it is rounded by that addition."""
    s, floats = Scalars(b, "ui32"), Scalars(b, "f32")
    unit = np.float32(2.0 ** (1 - codes.bias - codes.digits + SINGLE_DIGITS))
    shifted = floats.add(arith.BitcastOp(floats.type, size).result, floats.const(unit))
    return s.sub(arith.BitcastOp(s.type, shifted).result, s.const(int(unit.view(np.uint32))))
