"""The pass that computes fused multiply-adds where the target has no instruction for them, so that results are those of other machines."""

from stepwell.dialects.core.mlir import ir
from stepwell.passes.affine_to_llvm.expand_math import element_type, lanes
from stepwell.passes.affine_to_llvm.vector_math.fused import fused
from stepwell.passes.affine_to_llvm.vector_math.lanes import Floats
from stepwell.passes.framework.registry import PassState, register_pass
from stepwell.passes.framework.rewriting import NoMatch, PatternPass, Rewriter, pattern


@pattern("math.fma")
def expand_fma(op: ir.Operation, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: math.fma(x, y, z) : f32 -> a product and a sum in f64, rounded once to f32"""
    kind = op.operation.results[0].type
    if not isinstance(element_type(kind), ir.F32Type):
        return NoMatch("it is not of f32")
    shape = lanes(kind)
    return fused(*(Floats(shape, operand) for operand in op.operation.operands)).value


@register_pass("expand-fma", level="affine")
class ExpandFma(PatternPass):
    """Compute fused multiply-adds of f32 in f64, with the same bits as the instruction, if results are reproducible and the target has none.

    Those of f64 are calls of C's `fma`, which rounds once too.
    """

    patterns = (expand_fma,)

    def run(self, op: ir.Operation, state: PassState) -> None:
        if state.target is None or state.target.fma or not state.target.reproducible:
            state.decline(self.name, op, NoMatch("the target has instructions for them, or results need not be reproducible"))
            return
        super().run(op, state)
