"""The pass that rounds vectors to bf16 by the target's instruction."""


from stepwell.dialects.core.mlir import ir, ops_below
from stepwell.dialects.core.vectors import joined, part
from stepwell.dialects.target.capabilities import widest
from stepwell.passes.framework.registry import Pass, PassState, register_pass


@register_pass("select-bf16", level="affine")
class SelectBf16(Pass):
    """Round vectors to bf16 by `vcvtneps2bf16`, if the target has it and subnormal numbers may become zero.

    rewrite: arith.truncf %v : vector<16xf32> to vector<16xbf16>  ->  llvm.call_intrinsic "llvm.x86.avx512bf16.cvtneps2bf16.512"(%v)    if `flush`

    The instruction rounds to nearest, ties to even, and returns zero for subnormal numbers. `arith-expand` expands all other conversions into exact
    integer arithmetic, including all those of a network whose own numbers are bf16. `precision="bf16"` sets `flush`, since the values it rounds were
    f32.
    """

    flush: bool = False  # subnormal numbers may become zero

    def run(self, op: ir.Operation, state: PassState) -> None:
        rounding = state.machine.capabilities.bf16_rounding
        if not self.flush or not rounding or state.machine.reproducible:
            return
        for cast in ops_below(op, "arith.truncf"):
            value, result = cast.operands[0], cast.results[0]
            kind = result.type
            if not isinstance(kind, ir.VectorType) or not isinstance(kind.element_type, ir.BF16Type) or kind.rank != 1:
                continue
            chosen = widest(rounding, kind.shape[0])
            if chosen is None or not isinstance(value.type.element_type, ir.F32Type):
                continue
            with ir.InsertionPoint(cast), cast.location:
                lanes, emit = chosen
                result.replace_all_uses_with(joined([emit(part(value, i, lanes)) for i in range(kind.shape[0] // lanes)]))
            cast.erase()
            state.count(self.name)
