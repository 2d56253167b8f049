"""Fused multiply-adds by sums and products of f64, for machines without an instruction for them."""

from stepwell.dialects.core.mlir import arith, ir
from stepwell.passes.affine_to_llvm.vector_math.lanes import Floats


def fused(x: Floats, y: Floats, z: Floats) -> Floats:
    """`x * y + z` of f32, rounded once.

    The product is exact in f64. The sum is rounded to odd there: truncated, with the last bit set if anything is lost, which D. E. Knuth's exact
    error of a sum tells. Rounding that to f32 is like rounding the exact sum (S. Boldo and G. Melquiond, "Emulation of FMA and correctly rounded
    sums: proved algorithms using rounding to odd", IEEE Transactions on Computers 57, 2008). Infinities and NaN have no error, and stay.
    """
    product, addend = x.wide() * y.wide(), z.wide()
    total = product + addend
    share = total - product
    lost = (product - (total - share)) + (addend - share)
    return to_odd(total, lost).narrow()


def to_odd(total: Floats, lost: Floats) -> Floats:
    """`total + lost` rounded to odd, of a sum and its rounding error: `total`, or its odd neighbour towards `lost` if something is lost."""
    shape = total.shape
    kind = shape.lane_type(ir.IntegerType.get_signless(64))
    zero, one, last = (shape.constant(kind, value) for value in (0, 1, 63))
    bits, below = (arith.BitcastOp(kind, v.value).result for v in (total, lost))
    is_even = arith.CmpIOp(arith.CmpIPredicate.eq, arith.AndIOp(bits, one).result, zero).result
    is_rounded = arith.CmpFOp(arith.CmpFPredicate.ONE, lost.value, lost.operand(0.0)).result
    # 1 if both have the same sign, so that the magnitude grows, else -1
    step = arith.OrIOp(arith.ShRSIOp(arith.XOrIOp(bits, below).result, last).result, one).result
    moved = arith.AddIOp(bits, step).result
    chosen = arith.SelectOp(arith.AndIOp(is_even, is_rounded).result, moved, bits).result
    return Floats(shape, arith.BitcastOp(shape.f64, chosen).result)
