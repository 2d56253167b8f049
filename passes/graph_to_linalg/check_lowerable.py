"""The pass that reports everything which cannot be lowered, before anything is."""

from dataclasses import dataclass
from typing import Any

from stepwell.dialects.core.locations import nodes_text
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import type_of
from stepwell.dialects.graph.base import GraphOp
from stepwell.dialects.graph.control import ControlInfo
from stepwell.dialects.support.errors import UnsupportedError
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import ops_below
from stepwell.passes.graph_to_linalg.lowerings import conversions

SHOWN = 40  # problems spelled out in the message
_STRUCTURAL = ("graph.parameter", "graph.constant", "graph.fused", "graph.yield")


@register_pass("check-lowerable", level="graph")
@dataclass
class CheckLowerable(Pass):
    """Raise one UnsupportedError that lists every graph op without a lowering and every result whose size is not known.

    It runs after folding and simplification, which remove much of what computes shapes.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        known = {c.root for c in conversions()}
        problems = []
        for inner in ops_below(op):
            if isinstance(inner.opview, GraphOp) and inner.name not in _STRUCTURAL:
                reason = _reason(inner, known)
                if reason:
                    problems.append(f"{nodes_text(inner.location)}: {reason}")
        if problems:
            different = list(dict.fromkeys(problems))
            more = [f"and {len(different) - SHOWN} more"] if len(different) > SHOWN else []
            raise UnsupportedError("; ".join([*different[:SHOWN], *more]), details=different)


def _reason(op: Any, known: set[str]) -> str | None:
    if op.name not in known:
        why = ControlInfo(op).reason if op.name in ControlInfo.on else None
        return f"'{op.name}' has no lowering to linalg{f' ({why})' if why else ''}"
    for result in op.results:
        if not type_of(result).is_static:
            return f"'{op.name}' gives {result.type}, whose size is not known before it runs; supported: sizes known at compile time"
    return None
