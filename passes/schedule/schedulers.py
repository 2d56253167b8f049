"""The functions that choose schedules: their registry, and the choice for an op."""

from collections.abc import Callable

from stepwell.dialects.support.errors import PassError, ScheduleError, shown
from stepwell.dialects.support.extensions import extension
from stepwell.dialects.support.origins import line_of
from stepwell.dialects.target.description import Target
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.schedule.arithmetic import arithmetic
from stepwell.passes.schedule.nest import Nest
from stepwell.passes.schedule.search import improve

Scheduler = Callable[[Structured, Target | None], Nest]
_SCHEDULERS: dict[tuple[str, str], tuple[Scheduler, bool]] = {}


def schedule(kind: str, target: str = "generic", *, start: bool = False) -> Callable[[Scheduler], Scheduler]:
    """Register a function that chooses the schedule of structured ops of `kind` (see Structured.kind) on a target family.

    With `start`, the schedule is a starting point from which the cost model searches for a better one.
    """

    def add(function: Scheduler) -> Scheduler:
        _SCHEDULERS[kind, target] = function, start
        extension(function)
        return function

    return add


def choose(op: Structured, target: Target | None) -> Nest:
    """The default schedule of `op`: the result of `first`, improved by the cost model if it is a starting point.

    For reproducible results it has the arithmetic of the schedule for `Target.deciding`, which is taken where the target's own has another.
    """
    nest, is_start = first(op, target)
    if target is None:
        return nest
    order = None
    if target.reproducible:
        usual, begins = first(op, target.deciding)
        usual = improve(op, target.deciding, usual) if begins else usual
        order = arithmetic(usual, op)
        nest, is_start = (nest, is_start) if arithmetic(nest, op) == order else (usual, begins)
    return improve(op, target, nest, order) if is_start else nest


def first(op: Structured, target: Target | None) -> tuple[Nest, bool]:
    """The schedule by the most specific function for the kind of `op` and the target's family, and whether the search starts from it."""
    family = "generic" if target is None else target.family
    for key in ((op.kind, family), (op.kind, "generic"), ("any", family), ("any", "generic")):
        if key in _SCHEDULERS:
            scheduler, start = _SCHEDULERS[key]
            nest = scheduler(op, target)
            if not isinstance(nest, Nest):
                what = f"the schedule '{scheduler.__name__}' of ops of kind {op.kind}"
                raise ScheduleError(f"{what} must give a Nest, got {shown(nest)} for '{op.operation.name}'{line_of(scheduler)}")
            return nest, start
    raise PassError(f"no schedule is registered for '{op.operation.name}' of kind {op.kind}")
