"""Instructions of x86-64 without an op in MLIR, as calls of LLVM's intrinsics."""

from stepwell.dialects.core.llvm_ops import call_intrinsic
from stepwell.dialects.core.mlir import arith, ir

_WIDEST = 512  # bits of a vector
_CURRENT_ROUNDING = 4  # the operand of full-width instructions that selects the current rounding mode


def round_to_bf16(x: ir.Value) -> ir.Value:
    """`vcvtneps2bf16`: a vector of 8 or 16 f32, rounded to nearest even. Subnormal numbers become zero."""
    lanes = ir.VectorType(x.type).shape[0]
    return call_intrinsic(ir.VectorType.get([lanes], ir.BF16Type.get()), f"llvm.x86.avx512bf16.cvtneps2bf16.{32 * lanes}", [x])


def scale_by_power(x: ir.Value, n: ir.Value) -> ir.Value:
    """`vscalefps`: a vector of 4, 8 or 16 f32 `x` times `2**n`, rounded once."""
    lanes = ir.VectorType(x.type).shape[0]
    mask = ir.IntegerType.get_signless(max(lanes, 8))
    nothing = arith.ConstantOp(x.type, ir.DenseElementsAttr.get_splat(x.type, ir.FloatAttr.get(ir.F32Type.get(), 0.0))).result
    rest = [nothing, arith.ConstantOp(mask, ir.IntegerAttr.get(mask, -1)).result]  # for masked-off lanes, and the mask of all lanes
    if 32 * lanes == _WIDEST:
        rest.append(arith.ConstantOp(ir.IntegerType.get_signless(32), _CURRENT_ROUNDING).result)
    return call_intrinsic(x.type, f"llvm.x86.avx512.mask.scalef.ps.{32 * lanes}", [x, n, *rest])
