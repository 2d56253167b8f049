"""The pass that gives each structured op its schedule, as an attribute."""

from dataclasses import dataclass, replace

from stepwell.dialects.mlir import ir
from stepwell.passes.linalg import default_schedules  # noqa: F401  (registers the default schedules)
from stepwell.passes.linalg.schedules import ATTRIBUTE, choose
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.registry import Pass, PassState, register_pass
from stepwell.passes.rewriting import ops_below


@register_pass("assign-schedules", level="linalg", anchor="func.func")
@dataclass
class AssignSchedules(Pass):
    """Put the default schedule of its kind and target on every structured op that carries none; one that is there stays."""

    def run(self, op: ir.Operation, state: PassState) -> None:
        for operation in ops_below(op):
            if operation.name in ("linalg.generic", "linalg.fill") and ATTRIBUTE not in operation.attributes:
                structured = Structured(operation)
                chosen = choose(structured, state.target)
                if structured.shared:  # the loop around it may be on threads
                    chosen = replace(chosen, parallel=0)
                operation.attributes[ATTRIBUTE] = chosen.to_attribute()
