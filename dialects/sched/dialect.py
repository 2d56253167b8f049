"""The `sched` dialect: how structured ops are computed, as attributes on them and boundaries between them."""

from stepwell.dialects.core.mlir import Attribute, Dialect, Operand, Operation, Pure, Result, ir, register_dialect


@register_dialect
class Sched(Dialect, name="sched"):
    """Schedules as attributes: chosen by a pass, replaceable by hand, realised by the lowering to affine."""


class NestAttr(Attribute, dialect=Sched, name="nest"):
    """A loop nest; `knobs` is a dictionary of them by name (see `dialects/sched/nest.py`)."""

    knobs: ir.DictAttr


class FusedAttr(Attribute, dialect=Sched, name="fused"):
    """The loops that an op is fused in with its neighbours in a kernel, outermost first (see `dialects/sched/fused_loops.py`)."""

    loops: ir.ArrayAttr


class BoundaryOp(Operation, dialect=Sched, name="boundary", traits=[Pure]):
    """`x`, kept a separate op: fused into its readers, it would be computed again for each of their tiles."""

    x: Operand
    result: Result

    def verify_invariants(self) -> bool:
        """Whether the result has the type of `x`."""
        operands, results = self.operation.operands, self.operation.results
        if len(operands) == 1 and len(results) == 1 and operands[0].type == results[0].type:
            return True
        self.location.emit_error(f"'{self.OPERATION_NAME}' must have one operand and one result of its type")
        return False
