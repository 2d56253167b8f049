"""The pass that rounds vectors to bf16 by the instruction that a target has for it."""

from dataclasses import dataclass

from stepwell.dialects.core.llvm_ops import call_intrinsic
from stepwell.dialects.core.mlir import ir, ops_below
from stepwell.dialects.core.vectors import joined, part
from stepwell.passes.framework.registry import Pass, PassState, register_pass

BF16 = {"avx512bf16"}
LANES = {16: "llvm.x86.avx512bf16.cvtneps2bf16.512", 8: "llvm.x86.avx512bf16.cvtneps2bf16.256"}


@register_pass("select-bf16", level="affine")
@dataclass
class SelectBf16(Pass):
    """Round vectors to bf16 by `vcvtneps2bf16`, where the target has it, and subnormal numbers may become zero.

    rewrite: arith.truncf %v : vector<16xf32> to vector<16xbf16>  ->  llvm.call_intrinsic "llvm.x86.avx512bf16.cvtneps2bf16.512"(%v)    if `flush`

    It rounds to the nearest, even where two are, and gives zero for subnormal numbers. What is left, `arith-expand` spells out in integers, exactly:
    all of a network whose own numbers are bf16. `precision="bf16"` sets `flush`, as what it rounds were numbers of f32.
    """

    flush: bool = False  # subnormal numbers may become zero

    def run(self, op: ir.Operation, state: PassState) -> None:
        if not self.flush or state.target is None or not state.target.features >= BF16:
            return
        for rounding in ops_below(op, "arith.truncf"):
            value, result = rounding.operands[0], rounding.results[0]
            kind = result.type
            if not isinstance(kind, ir.VectorType) or not isinstance(kind.element_type, ir.BF16Type) or kind.rank != 1:
                continue
            lanes = next((n for n in LANES if kind.shape[0] % n == 0), None)
            if lanes is None or not isinstance(value.type.element_type, ir.F32Type):
                continue
            with ir.InsertionPoint(rounding), rounding.location:
                piece = ir.VectorType.get([lanes], kind.element_type)
                rounded = [call_intrinsic(piece, LANES[lanes], [part(value, i, lanes)]) for i in range(kind.shape[0] // lanes)]
                result.replace_all_uses_with(joined(rounded))
            rounding.erase()
            state.count(self.name)
