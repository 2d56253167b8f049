"""Conversion of one scalar between element types, with defined results for every input."""

from stepwell.dialects.core.dtypes import HALVES, compute_dtype, dtype_info, is_small_float
from stepwell.dialects.core.mlir import arith, ir, math
from stepwell.dialects.core.types import BOOL, is_float, is_unsigned
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, element
from stepwell.passes.graph_to_linalg.scalars import Scalars
from stepwell.passes.graph_to_linalg.small_floats import from_single, to_single


def cast(b: LinalgBuilder, x: ir.Value, source: str, target: str, saturate: bool) -> ir.Value:
    """`x` of dtype `source` converted to dtype `target`, as graph.cast defines it."""
    if source == target:
        return x
    if is_small_float(source):
        return cast(b, to_single(b, x, dtype_info(source)), "f32", target, saturate)
    if target == BOOL:
        s = Scalars(b, source)
        return s.compare("ne", b.widen(x), s.const(0))
    if is_float(source):
        return _from_float(b, x, source, target, saturate)
    if is_float(target) or is_small_float(target):
        return _integer_to_float(b, x, source, target, saturate)
    return _resize_integer(x, source, target)


def _resize_integer(x: ir.Value, source: str, target: str) -> ir.Value:
    """An integer of another width, wrapping; the signedness of the source selects sign or zero extension."""
    kind = element(target)
    if kind.width == x.type.width:
        return x
    if kind.width < x.type.width:
        return arith.TruncIOp(kind, x).result
    return (arith.ExtUIOp if is_unsigned(source) else arith.ExtSIOp)(kind, x).result


def _integer_to_float(b: LinalgBuilder, x: ir.Value, source: str, target: str, saturate: bool) -> ir.Value:
    convert = arith.UIToFPOp if is_unsigned(source) else arith.SIToFPOp
    if source == BOOL:
        if is_small_float(target):
            return _narrowed(b, arith.SelectOp(x, b.scalar(1, "f32"), b.scalar(0, "f32")).result, target, saturate)
        return arith.SelectOp(x, b.scalar(1, target), b.scalar(0, target)).result
    if target not in HALVES and not is_small_float(target):
        return convert(element(target), x).result
    if target != "bf16" and x.type.width <= 16:
        return _narrowed(b, convert(element("f32"), x).result, target, saturate)
    # Not via f32 and a truncation: canonicalisation merges the two into one conversion, which no hardware has for bf16.
    exact = _rounded_to_odd(b, x, source) if x.type.width == 64 else x
    return _round_once(b, convert(element("f64"), exact).result, target, saturate)


def _narrowed(b: LinalgBuilder, x: ir.Value, target: str, saturate: bool) -> ir.Value:
    """An f32 rounded to a float of 16 bits or fewer."""
    return from_single(b, x, dtype_info(target), saturate) if is_small_float(target) else b.narrow(x, target)


def _rounded_to_odd(b: LinalgBuilder, x: ir.Value, source: str) -> ir.Value:
    """A 64-bit integer that f64 represents exactly: rounded to odd, so that a second rounding has the effect of a single one."""
    s = Scalars(b, source)
    zero, low, unit, limit = (s.const(n) for n in (0, 2047, 2048, 1 << 53))
    rest = s.compare("ne", arith.AndIOp(x, low).result, zero)
    cut = arith.AndIOp(arith.OrIOp(x, s.select(rest, unit, zero)).result, s.const(-2048)).result
    large = s.compare("gt", x, limit)
    if not s.is_unsigned:
        large = arith.OrIOp(large, s.compare("lt", x, s.const(-(1 << 53)))).result
    return s.select(large, cut, x)


def _from_float(b: LinalgBuilder, x: ir.Value, source: str, target: str, saturate: bool) -> ir.Value:
    if is_small_float(target):
        return _round_once(b, x, target, saturate) if source == "f64" else from_single(b, b.widen(x), dtype_info(target), saturate)
    if is_float(target):
        if source == "f64" and target in HALVES:
            return _round_once(b, x, target, saturate)
        wide = b.widen(x)
        if target == "f64":
            return arith.ExtFOp(element("f64"), wide).result
        if wide.type == element("f64"):
            return arith.TruncFOp(element(target), wide).result
        return b.narrow(wide, target)
    wide = b.widen(x)
    s = Scalars(b, compute_dtype(source))
    return _saturated(b, s, wide, target) if saturate else _truncated(b, s, wide, target)


def _saturated(b: LinalgBuilder, s: Scalars, x: ir.Value, target: str) -> ir.Value:
    """The nearest integer of the target's range toward zero; 0 for NaN."""
    if element(target).width < 32:
        return _saturated_through_i32(b, s, x, target)
    low, high = dtype_info(target).limits
    above, below = s.compare("ge", x, s.const(float(high))), s.compare("le", x, s.const(float(low)))
    inside = arith.AndIOp(s.compare("lt", x, s.const(float(high))), s.compare("gt", x, s.const(float(low)))).result
    safe = s.select(inside, x, s.const(0))
    convert = arith.FPToUIOp if is_unsigned(target) else arith.FPToSIOp
    converted = convert(element(target), safe).result
    return s.select(above, b.scalar(high, target), s.select(below, b.scalar(low, target), converted))


def _saturated_through_i32(b: LinalgBuilder, s: Scalars, x: ir.Value, target: str) -> ir.Value:
    """Like `_saturated`, for a type whose limits are exact floats: bound the float, convert it to i32, and truncate that."""
    integer = arith.FPToSIOp(element("i32"), bounded(s, x, target, None)).result
    return _zero_for_nan(b, s, x, integer, target)


def rounded(b: LinalgBuilder, s: Scalars, x: ir.Value, target: str, zero: ir.Value | None) -> ir.Value:
    """The integer of the target's range (up to 16 bits) nearest to `x + zero`, ties to even; NaN becomes 0; no `zero` means 0.

    Bounds are integers, so it makes no difference whether a number is bounded before or after rounding; rounding and conversion are then one
    instruction (see round-in-conversion).
    """
    shift = None if zero is None else cast(b, zero, target, s.dtype, False)
    integer = arith.FPToSIOp(element("i32"), s.call(math.RoundEvenOp, bounded(s, x, target, shift))).result
    if zero is not None:
        integer = arith.AddIOp(integer, cast(b, zero, target, "i32", False)).result
    return _zero_for_nan(b, s, x, integer, target)


def bounded(s: Scalars, x: ir.Value, target: str, shift: ir.Value | None) -> ir.Value:
    """`x` within the limits of `target`, minus `shift` if there is one; the lower limit for NaN.

    Each bound is a comparison and a select of the same two values, which is one instruction on x86.
    """
    low, high = (s.const(float(end)) if shift is None else s.sub(s.const(float(end)), shift) for end in dtype_info(target).limits)
    above = s.select(s.compare("gt", x, low), x, low)
    return s.select(s.compare("lt", above, high), above, high)


def _zero_for_nan(b: LinalgBuilder, s: Scalars, x: ir.Value, integer: ir.Value, target: str) -> ir.Value:
    """`integer` truncated to the target, 0 if `x` is NaN, for which it is the lower limit: that is 0 if the target is unsigned."""
    if not is_unsigned(target):
        integer = s.select(s.compare("ne", x, x), b.scalar(0, "i32"), integer)
    return arith.TruncIOp(element(target), integer).result


def _truncated(b: LinalgBuilder, s: Scalars, x: ir.Value, target: str) -> ir.Value:
    """The integer part, wrapped to the target's width; numbers beyond the intermediate integer type become its smallest value.

    Converting a number out of range is poison in LLVM, so such numbers are replaced before the conversion.
    """
    through = "i64" if element(target).width == 64 else "i32"
    integer = _guarded(b, s, x, through)
    if target not in ("ui32", "ui64"):
        return _resize_integer(integer, through, target)
    # Above the signed type's range: minus half of the unsigned range, which the top bit then represents.
    least = dtype_info(through).limits[0]
    half = s.const(-float(least))
    upper = arith.XOrIOp(_guarded(b, s, s.sub(x, half), through), b.scalar(least, through)).result
    return s.select(s.compare("ge", x, half), upper, integer)


def _guarded(b: LinalgBuilder, s: Scalars, x: ir.Value, through: str) -> ir.Value:
    least, limit = (s.const(sign * float(dtype_info(through).limits[0])) for sign in (1, -1))
    above_least = s.compare("ge", x, least) if through == "i64" or s.dtype == "f32" else s.compare("gt", x, s.const(-(2.0**31) - 1))
    inside = arith.AndIOp(above_least, s.compare("lt", x, limit)).result
    return arith.FPToSIOp(element(through), s.select(inside, x, least)).result


def _round_once(b: LinalgBuilder, x: ir.Value, target: str, saturate: bool) -> ir.Value:
    """An f64 as a float of 16 bits or fewer, rounded once although it goes through f32: that step rounds to odd (Boldo and Melquiond, 2008)."""
    wide = Scalars(b, "f64")
    bits = Scalars(b, "i32")
    single = arith.TruncFOp(element("f32"), x).result
    back = arith.ExtFOp(element("f64"), single).result
    inexact = arith.CmpFOp(arith.CmpFPredicate.ONE, back, x).result
    away = wide.compare("gt", math.AbsFOp(back).result, math.AbsFOp(x).result)
    pattern = arith.BitcastOp(element("i32"), single).result
    toward = wide.select(away, bits.sub(pattern, bits.const(1)), pattern)
    odd = arith.OrIOp(toward, bits.const(1)).result
    chosen = wide.select(inexact, odd, pattern)
    return _narrowed(b, arith.BitcastOp(element("f32"), chosen).result, target, saturate)
