"""Schedules of structured ops: a nest's knobs, their legality, and the registry of functions that choose them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stepwell.dialects.attributes import to_attribute, to_python
from stepwell.dialects.errors import PassError
from stepwell.dialects.extensions import extension
from stepwell.dialects.mlir import ir
from stepwell.dialects.sched import NestAttr
from stepwell.passes.linalg.structured import Structured

ATTRIBUTE = "sched"  # the name under which an op carries its schedule


@dataclass(frozen=True)
class Nest:
    """How a structured op's iteration space is walked.

    - `order`: the parallel dimensions, outermost first; reductions follow inside, in the op's order.
    - `parallel`: how many leading loops of `order` run on threads.
    - `unroll`: for each dimension, how many of its iterations the register tile holds.
    - `vector`: the dimension along which vectors lie, or -1 for none. A reduction dimension gives vector accumulators that are
      added up at the end.
    - `width`: elements of one vector.
    """

    order: tuple[int, ...]
    parallel: int
    unroll: tuple[int, ...]
    vector: int
    width: int

    def to_attribute(self) -> NestAttr:
        """The `#sched.nest` attribute of these knobs, in the current context."""
        knobs = {"order": self.order, "parallel": self.parallel, "unroll": self.unroll, "vector": self.vector, "width": self.width}
        encoded = {k: ir.DenseI64ArrayAttr.get(list(v)) if isinstance(v, tuple) else v for k, v in knobs.items()}
        attribute: NestAttr = NestAttr.get(to_attribute(encoded))
        return attribute

    @staticmethod
    def of(op: Structured) -> "Nest":
        """The schedule that `op` carries. Raises PassError, naming the op, if there is none or if it is not legal for the op."""
        operation = op.operation
        if ATTRIBUTE not in operation.attributes:
            raise PassError(f"'{operation.name}' at {operation.location} carries no '{ATTRIBUTE}' attribute")
        attribute = operation.attributes[ATTRIBUTE]
        if not isinstance(attribute, NestAttr):
            raise PassError(f"'{operation.name}' at {operation.location}: schedule must be a #sched.nest, got {attribute}")
        knobs = to_python(ir.DictAttr(attribute.knobs))
        expected = {"order", "parallel", "unroll", "vector", "width"}
        if set(knobs) != expected:
            raise PassError(f"{attribute} at {operation.location} must have the knobs {', '.join(sorted(expected))}")
        nest = Nest(**knobs)
        problem = nest.problem(op)
        if problem:
            raise PassError(f"{attribute} at {operation.location} is not legal: {problem}")
        return nest

    def problem(self, op: Structured) -> str | None:
        """Why this schedule is not legal for `op`; None if it is."""
        dims = len(op.sizes)
        if sorted(self.order) != op.parallel_dims:
            return f"order must list the parallel dimensions {op.parallel_dims}, got {list(self.order)}"
        if not 0 <= self.parallel <= len(self.order):
            return f"parallel must lie in 0..{len(self.order)}, got {self.parallel}"
        if len(self.unroll) != dims or any(u < 1 for u in self.unroll):
            return f"unroll must have {dims} positive entries, got {list(self.unroll)}"
        if any(self.unroll[d] > 1 for d in op.reduction_dims):
            return "a reduction dimension cannot be unrolled into the register tile"
        if not -1 <= self.vector < dims or self.width < 1:
            return f"vector must be -1 or a dimension below {dims} and width positive, got {self.vector} and {self.width}"
        if self.vector >= 0 and not op.can_vectorise(self.vector):
            return f"dimension {self.vector} cannot be vectorised: {op.why_not_vector(self.vector)}"
        return None


Scheduler = Callable[[Structured, Any], Nest]
_SCHEDULERS: dict[tuple[str, str], Scheduler] = {}


def schedule(kind: str, target: str = "generic") -> Callable[[Scheduler], Scheduler]:
    """Register a function that chooses the schedule of structured ops of `kind` (see Structured.kind) on a target family."""

    def add(function: Scheduler) -> Scheduler:
        _SCHEDULERS[kind, target] = function
        extension(function)
        return function

    return add


def choose(op: Structured, target: Any) -> Nest:
    """The default schedule of `op`: the most specific function registered for its kind and the target's family."""
    family = getattr(target, "family", "generic")
    for key in ((op.kind, family), (op.kind, "generic"), ("any", family), ("any", "generic")):
        if key in _SCHEDULERS:
            return _SCHEDULERS[key](op, target)
    raise PassError(f"no schedule is registered for '{op.operation.name}' of kind {op.kind}")
