"""The pass that removes the boundaries between ops of a kernel once element-wise ops are fused."""


from stepwell.dialects.core.mlir import ir, ops_below, replace_op
from stepwell.passes.framework.registry import Pass, PassState, register_pass


@register_pass("remove-boundaries", level="linalg", anchor="func.func")
class RemoveBoundaries(Pass):
    """Remove `sched.boundary`, once element-wise ops are fused.

    rewrite: sched.boundary(x)  ->  x

    A contraction reads each element of its operands many times. An op in the same kernel that computes an operand must stay a separate op: upstream's
    fusion would move it into the contraction's body, which would recompute it for each read.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        for boundary in ops_below(op, "sched.boundary"):
            replace_op(boundary, boundary.operands)
            state.count(self.name)
