"""The pass that keeps LLVM from looking through the indices of parallel loops."""

from dataclasses import dataclass
from typing import cast

from stepwell.dialects.core.llvm_ops import inline_asm
from stepwell.dialects.core.mlir import ir, ops_below, use_count
from stepwell.passes.framework.registry import Pass, PassState, register_pass

SAME = "=r,0"  # a value in some register, which is the one that it was in before


@register_pass("hide-indices", level="llvm", optional=True)
@dataclass
class HideIndices(Pass):
    """Give parallel loops of several dimensions indices that LLVM knows nothing of.

    rewrite: omp.loop_nest (%i, %j) { f(%i, %j) }  ->  omp.loop_nest (%i, %j) { f(asm "" (%i), asm "" (%j)) }

    A nest becomes one loop whose number is divided into the indices. Where tiles lie along a loop inside, an address is then a sum of quotients
    and of sequences along loops, and LLVM's reduction of strength no longer sees that the addresses in a tile are a few bytes apart: each gets
    a register of its own, and where there are more of them than registers, they are loaded from the stack in the innermost loop. The
    empty assembly, which is no instruction, makes an index a number like any other.
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
