"""The pass that has the parallel loops of a `sched.threaded` run on one thread where a run has little to do."""

from dataclasses import dataclass

from stepwell.dialects.core.mlir import ir, ops_below
from stepwell.passes.framework.registry import Pass, PassState, register_pass

_SEGMENTS = "operandSegmentSizes"
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
                _make_conditional(parallel, enough)
            for inner in [o.operation for o in threaded.regions[0].blocks[0].operations]:
                inner.move_before(threaded)
            threaded.erase()
            state.count(self.name)


def _make_conditional(parallel: ir.Operation, condition: ir.Value) -> None:
    attributes = {name: parallel.attributes[name] for name in parallel.attributes}
    sizes = list(attributes[_SEGMENTS])
    at = sum(sizes[:_CONDITION])
    operands = list(parallel.operands)
    sizes[_CONDITION] = 1
    with ir.InsertionPoint(parallel), parallel.location:
        attributes[_SEGMENTS] = ir.DenseI32ArrayAttr.get(sizes)
        made = ir.Operation.create("omp.parallel", operands=[*operands[:at], condition, *operands[at:]], attributes=attributes, regions=1)
    for block in list(parallel.regions[0].blocks):
        block.append_to(made.regions[0])
    parallel.erase()
