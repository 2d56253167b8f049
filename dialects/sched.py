"""The `sched` dialect: how a structured op is computed, as an attribute on it."""

from stepwell.dialects.mlir import Attribute, Dialect, ir, register_dialect


@register_dialect
class Sched(Dialect, name="sched"):
    """Schedules as attributes: chosen by a pass, replaceable by hand, realised by the lowering to affine."""


class NestAttr(Attribute, dialect=Sched, name="nest"):
    """A loop nest; `knobs` is a dictionary of named, legal values (see `passes/linalg/schedules.py`)."""

    knobs: ir.DictAttr


class SharedAttr(Attribute, dialect=Sched, name="shared"):
    """Loops that an op has in common with its neighbours in a kernel, outermost first (see `passes/linalg/shared_loops.py`)."""

    loops: ir.ArrayAttr
