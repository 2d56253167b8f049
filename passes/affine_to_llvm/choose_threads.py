"""The pass that runs the parallel loops of a `sched.threaded` on one thread if there is little to do at run time."""


from stepwell.dialects.core.mlir import ir, ops_below
from stepwell.passes.affine_to_llvm.openmp_operands import with_operand
from stepwell.passes.framework.registry import Pass, PassState, register_pass

_CONDITION = 2  # index among the operand groups of omp.parallel


@register_pass("choose-threads", level="affine")
class ChooseThreads(Pass):
    """Make the condition of `sched.threaded` the condition of the OpenMP regions in it.

    rewrite: sched.threaded(%enough) { … omp.parallel { … } … }  ->  … omp.parallel if(%enough) { … } …

    The OpenMP run time enters a region whose condition is false on the calling thread, within a tenth of a microsecond. Without OpenMP, only the
    loops remain.
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
