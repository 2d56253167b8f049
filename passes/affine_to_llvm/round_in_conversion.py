"""The pass that rounds and converts to an integer in one instruction."""

from typing import Any

from stepwell.dialects.core.llvm_ops import call_intrinsic
from stepwell.dialects.core.mlir import defining_op, ir
from stepwell.passes.framework.registry import PassState, register_pass
from stepwell.passes.framework.rewriting import NoMatch, PatternPass, Rewriter, pattern


@pattern("arith.fptosi")
def round_in_conversion(op: Any, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: fptosi(roundeven(x)) : f32 -> i32  ->  llvm.lrint(x)   exact; what i32 does not hold is undefined in both"""
    [x], [result] = op.operation.operands, op.operation.results
    whole = defining_op(x)
    if whole is None or whole.name != "math.roundeven":
        return NoMatch("what it converts is not rounded to even")
    source, target = (getattr(v.type, "element_type", v.type) for v in (x, result))
    if not isinstance(source, ir.F32Type) or target != ir.IntegerType.get_signless(32):
        return NoMatch("it does not convert f32 to i32")
    return call_intrinsic(result.type, "llvm.lrint", [whole.operands[0]])


@register_pass("round-in-conversion", level="affine", optional=True)
class RoundInConversion(PatternPass):
    """Let the conversion to an integer do the rounding to even, which it does anyway.

    rewrite: fptosi(roundeven(x))  ->  llvm.lrint(x)

    `cvtps2dq` of x86 rounds by the current mode, which is round-to-even at program start and which Stepwell does not change. Separately, the two ops
    take three micro-operations on Intel's processors. For other machines LLVM has its own patterns for the pair.
    """

    patterns = (round_in_conversion,)

    def run(self, op: ir.Operation, state: PassState) -> None:
        if not state.machine.capabilities.conversion_rounds:
            state.decline(self.name, op, NoMatch(f"LLVM has a pattern for both on {state.machine.triple}"))
            return
        super().run(op, state)
