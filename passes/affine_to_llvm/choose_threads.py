"""The pass that has the parallel loops of a `sched.threaded` run on one thread where a run has little to do."""

from dataclasses import dataclass

from stepwell.dialects.core.mlir import ir, ops_below
from stepwell.passes.affine_to_llvm.openmp_operands import with_operand
from stepwell.passes.framework.registry import Pass, PassState, register_pass

_CONDITION = 2  # of the groups of operands of omp.parallel


@register_pass("choose-threads", level="affine")
@dataclass
class ChooseThreads(Pass):
    """Make the condition of `sched.threaded` that of the OpenMP regions in it.

    rewrite: sched.threaded(%enough) { … omp.parallel { … } … }  ->  … omp.parallel if(%enough) { … } …

    The runtime enters a region whose condition is false on the calling thread, in a tenth of a microsecond. Without OpenMP nothing but the
    loops is left.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        for threaded in ops_below(op, "sched.threaded"):
            enough = threaded.operands[0]
            for parallel in ops_below(threaded, "omp.parallel"):
                with_operand(parallel, _CONDITION, enough)
            for inner in [o.operation for o in threaded.regions[0].blocks[0].operations]:
                inner.move_before(threaded)
            threaded.erase()
            state.count(self.name)
