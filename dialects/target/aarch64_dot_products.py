"""Dot products of AArch64, for narrow integers and bf16: Neon and the dot-product extension. `sdot` and `udot` are defined modulo 2**32."""

from stepwell.dialects.core.llvm_ops import call_intrinsic
from stepwell.dialects.core.mlir import arith, ir
from stepwell.dialects.target.dot_products import bf16_pairs, intrinsic


@intrinsic("smlal.128", features={"neon"}, lanes=4, depth=1, operands=("s16", "s16"))
def smlal_128(acc: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Products of 16 bits, each added to its sum of 32 bits in one Neon instruction."""
    return arith.addi(acc, arith.muli(arith.extsi(acc.type, x), arith.extsi(acc.type, y)))


@intrinsic("sdot.128", features={"dotprod"}, lanes=4, depth=4, operands=("s8", "s8"))
def sdot_128(acc: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Products of signed bytes, added in fours to sums of 32 bits."""
    return call_intrinsic(acc.type, "llvm.aarch64.neon.sdot.v4i32.v16i8", [acc, x, y])


@intrinsic("udot.128", features={"dotprod"}, lanes=4, depth=4, operands=("u8", "u8"))
def udot_128(acc: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Like `sdot_128`, for unsigned bytes."""
    return call_intrinsic(acc.type, "llvm.aarch64.neon.udot.v4i32.v16i8", [acc, x, y])


@intrinsic("pairs-bf16.128", features={"neon"}, lanes=4, depth=2, operands=("b16", "b16"), result="f32", instructions=3)
def pairs_bf16_128(acc: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Products of bf16, each of which is the upper half of an f32: two fused multiply-adds, and the instructions that split the pairs."""
    return bf16_pairs(acc, x, y)
