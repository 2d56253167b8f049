"""The `sched` dialect: schedules of structured ops as attributes, boundaries between ops, and conditions of threaded loops."""

from stepwell.dialects.core.mlir import Attribute, Dialect, Operand, Operation, Pure, Region, Result, ir, register_dialect, report


@register_dialect
class Sched(Dialect, name="sched"):
    """Schedules as attributes: chosen by a pass, replaceable by hand, realised by the lowering to affine."""


class NestAttr(Attribute, dialect=Sched, name="nest"):
    """A loop nest; `knobs` is a dictionary of its parameters by name (see `dialects/sched/nest.py`)."""

    knobs: ir.DictAttr


class FusedAttr(Attribute, dialect=Sched, name="fused"):
    """The loops in which an op is fused with its neighbours in a kernel, outermost first (see `dialects/sched/fused_loops.py`)."""

    loops: ir.ArrayAttr


class BoundaryOp(Operation, dialect=Sched, name="boundary", traits=[Pure]):
    """`x`, kept as the result of a separate op: fused into its consumers, it would be recomputed for each of their tiles."""

    x: Operand
    result: Result

    def verify_invariants(self) -> bool:
        """Whether the result has the type of `x`."""
        operands, results = self.operation.operands, self.operation.results
        same = len(operands) == 1 and len(results) == 1 and operands[0].type == results[0].type
        return report(self, None if same else "must have one operand and one result of its type")


class ThreadedOp(Operation, dialect=Sched, name="threaded", traits=[ir.NoTerminatorTrait]):
    """A region whose parallel loops run on threads if `enough` (an i1) holds, and otherwise on the calling thread."""

    enough: Operand
    body: Region

    def verify_invariants(self) -> bool:
        """Whether there is a condition, and one block without arguments."""
        operands, blocks = self.operation.operands, list(self.operation.regions[0].blocks)
        fits = [str(o.type) for o in operands] == ["i1"] and len(blocks) == 1 and not blocks[0].arguments
        return report(self, None if fits else "must have an i1 as its operand and one block without arguments")
