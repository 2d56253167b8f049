"""The pass that keeps LLVM from analysing the indices of parallel loops."""

from typing import cast

from stepwell.dialects.core.llvm_ops import inline_asm
from stepwell.dialects.core.mlir import ir, ops_below, use_count
from stepwell.passes.framework.registry import Pass, PassState, register_pass

SAME = "=r,0"  # the same register as input and output


@register_pass("hide-indices", level="llvm", optional=True)
class HideIndices(Pass):
    """Hide the indices of multi-dimensional parallel loops from LLVM.

    rewrite: omp.loop_nest (%i, %j) { f(%i, %j) }  ->  omp.loop_nest (%i, %j) { f(asm "" (%i), asm "" (%j)) }

    A nest becomes one loop whose induction variable is divided into the indices. If tiles lie along an inner loop, an address is then a sum of
    quotients and of loop sequences, and LLVM's strength reduction no longer sees that the addresses in a tile are a few bytes apart: each gets a
    register of its own, and if there are not enough registers, they are reloaded from the stack in the innermost loop. The empty assembly, which
    emits no instruction, makes an index an opaque number.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        for nest in ops_below(op, "omp.loop_nest"):
            block = nest.regions[0].blocks[0]
            if len(block.arguments) < 2:
                continue
            first = block.operations[0]
            for index in block.arguments:
                if not use_count(index):
                    continue
                with ir.InsertionPoint(first), nest.location:
                    hidden = inline_asm(index.type, [index], "", SAME)
                index.replace_all_uses_except(hidden, cast(ir.OpView, hidden.owner).operation)
            state.count(self.name)
