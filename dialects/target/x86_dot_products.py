"""Dot products of x86-64, for narrow integers and bf16: AVX2, AVX-512, VNNI in 256 and 512 bits, AMX.

None of them saturates: `vpmaddwd` adds two products of 16 bits in 32, which wraps around only where the sum in 32 bits would; `vpdpbusd` and
`vpdpwssd` (their saturating forms end in another `s`) are defined modulo 2**32.
"""

from collections.abc import Sequence

from stepwell.dialects.core.llvm_ops import call_intrinsic
from stepwell.dialects.core.mlir import arith, ir, vector, x86
from stepwell.dialects.target.dot_products import Tile, bf16_pairs, intrinsic
from stepwell.dialects.target.x86 import AMX_REGISTERS

AVX512, VNNI, VNNI_256, BF16 = {"avx512bw"}, {"avx512vnni"}, {"avxvnni"}, {"avx512bf16"}


@intrinsic("pmaddwd.256", features={"avx2"}, lanes=8, depth=2, operands=("s16", "s16"), instructions=2)
def pmaddwd_256(acc: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Products of 16 bits, added in pairs to sums of 32."""
    return arith.addi(acc, call_intrinsic(acc.type, "llvm.x86.avx2.pmadd.wd", [x, y]))


@intrinsic("pmaddwd.512", features=AVX512, lanes=16, depth=2, operands=("s16", "s16"), instructions=2)
def pmaddwd_512(acc: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Like `pmaddwd_256`, with twice the width."""
    return arith.addi(acc, call_intrinsic(acc.type, "llvm.x86.avx512.pmaddw.d.512", [x, y]))


@intrinsic("vpdpwssd.512", features=VNNI, lanes=16, depth=2, operands=("s16", "s16"))
def vpdpwssd_512(acc: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Like `pmaddwd_512`, including the addition to the sums."""
    return call_intrinsic(acc.type, "llvm.x86.avx512.vpdpwssd.512", [acc, x, y])


@intrinsic("vpdpbusd.512", features=VNNI, lanes=16, depth=4, operands=("u8", "s8"))
def vpdpbusd_512(acc: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Products of unsigned with signed bytes, added in fours to sums of 32 bits."""
    return call_intrinsic(acc.type, "llvm.x86.avx512.vpdpbusd.512", [acc, x, y])


@intrinsic("vpdpwssd.256", features=VNNI_256, lanes=8, depth=2, operands=("s16", "s16"))
def vpdpwssd_256(acc: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Like `vpdpwssd_512`, with half the width."""
    return call_intrinsic(acc.type, "llvm.x86.avx512.vpdpwssd.256", [acc, x, y])


@intrinsic("vpdpbusd.256", features=VNNI_256, lanes=8, depth=4, operands=("u8", "s8"))
def vpdpbusd_256(acc: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Like `vpdpbusd_512`, with half the width."""
    return call_intrinsic(acc.type, "llvm.x86.avx512.vpdpbusd.256", [acc, x, y])


@intrinsic("vdpbf16ps.512", features=BF16, lanes=16, depth=2, operands=("b16", "b16"), result="f32")
def vdpbf16ps_512(acc: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Products of bf16, added in pairs to sums of f32, each rounded; subnormal numbers count as zero."""
    pairs = ir.VectorType.get([32], ir.BF16Type.get())
    return call_intrinsic(acc.type, "llvm.x86.avx512bf16.dpbf16ps.512", [acc, vector.bitcast(pairs, x), vector.bitcast(pairs, y)])


@intrinsic("pairs-bf16.512", features=AVX512, lanes=16, depth=2, operands=("b16", "b16"), result="f32", instructions=3)
def pairs_bf16_512(acc: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Like `pairs_bf16_256`, with twice the width."""
    return bf16_pairs(acc, x, y)


@intrinsic("pairs-bf16.256", features={"avx2"}, lanes=8, depth=2, operands=("b16", "b16"), result="f32", instructions=3)
def pairs_bf16_256(acc: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Products of bf16, each of which is the upper half of an f32: two fused multiply-adds, and the instructions that split the pairs."""
    return bf16_pairs(acc, x, y)


def tile_type(element: ir.Type, rows: int, columns: int) -> ir.Type:
    """The type of an AMX register with this content."""
    return ir.Type.parse(f"!x86.amx.tile<{rows}x{columns}x{element}>")


def zero_tile(element: ir.Type, rows: int, columns: int) -> ir.Value:
    """See `Tile`."""
    return x86.amx_tile_zero(tile_type(element, rows, columns))


def load_tile(memory: ir.Value, place: Sequence[ir.Value], stride: int, rows: int, columns: int) -> ir.Value:
    """See `Tile`."""
    apart = arith.constant(ir.IndexType.get(), stride)
    return x86.amx_tile_load(tile_type(ir.MemRefType(memory.type).element_type, rows, columns), memory, place, stride=apart)


def store_tile(tile: ir.Value, memory: ir.Value, place: Sequence[ir.Value], stride: int) -> None:
    """See `Tile`."""
    x86.amx_tile_store(memory, place, tile, stride=arith.constant(ir.IndexType.get(), stride))


AMX = Tile(AMX_REGISTERS.rows, AMX_REGISTERS.groups, zero_tile, load_tile, store_tile)
# in half cycles, since two vector instructions start per cycle (Intel, "Optimization Reference Manual", 20.5: a product every 16 cycles)
AMX_CYCLES = 32


@intrinsic(
    "tdpbf16ps", features={"amx-bf16"}, lanes=AMX_REGISTERS.groups, depth=2, operands=("b16", "b16"), result="f32", instructions=AMX_CYCLES, tile=AMX
)
def tdpbf16ps(acc: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Rows of bf16 times pairs of bf16, in sums of f32, rounded as by `vdpbf16ps`."""
    return x86.amx_tile_mulf(x, y, acc)


@intrinsic("tdpbssd", features={"amx-int8"}, lanes=AMX_REGISTERS.groups, depth=4, operands=("s8", "s8"), instructions=AMX_CYCLES, tile=AMX)
def tdpbssd(acc: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Rows of bytes times groups of four bytes."""
    return x86.amx_tile_muli(x, y, acc)


@intrinsic("tdpbusd", features={"amx-int8"}, lanes=AMX_REGISTERS.groups, depth=4, operands=("u8", "s8"), instructions=AMX_CYCLES, tile=AMX)
def tdpbusd(acc: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Like `tdpbssd`, for unsigned times signed bytes."""
    return x86.amx_tile_muli(x, y, acc, is_zext_lhs=True)


@intrinsic("tdpbsud", features={"amx-int8"}, lanes=AMX_REGISTERS.groups, depth=4, operands=("s8", "u8"), instructions=AMX_CYCLES, tile=AMX)
def tdpbsud(acc: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Like `tdpbssd`, for signed times unsigned bytes."""
    return x86.amx_tile_muli(x, y, acc, is_zext_rhs=True)


@intrinsic("tdpbuud", features={"amx-int8"}, lanes=AMX_REGISTERS.groups, depth=4, operands=("u8", "u8"), instructions=AMX_CYCLES, tile=AMX)
def tdpbuud(acc: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Like `tdpbssd`, for unsigned bytes."""
    return x86.amx_tile_muli(x, y, acc, is_zext_lhs=True, is_zext_rhs=True)
