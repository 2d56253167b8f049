"""The pass that takes away the boundaries that kept element-wise ops out of what reads them."""

from dataclasses import dataclass

from stepwell.dialects.core.mlir import ir
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import ops_below


@register_pass("remove-boundaries", level="linalg", anchor="func.func")
@dataclass
class RemoveBoundaries(Pass):
    """Take away `sched.boundary`, once element-wise ops are fused.

    rewrite: sched.boundary(x)  ->  x

    A contraction reads each element of its operands many times. What computes an operand in the same kernel has to stay an op before it:
    upstream's fusion would make it part of the contraction's body, where each of these times computes it anew.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        for boundary in ops_below(op, "sched.boundary"):
            boundary.results[0].replace_all_uses_with(boundary.operands[0])
            boundary.erase()
            state.count(self.name)
