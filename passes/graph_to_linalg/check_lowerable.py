"""The pass that reports every op that cannot be lowered, before lowering begins."""


from stepwell.dialects.core.locations import nodes_text
from stepwell.dialects.core.mlir import ir, ops_below, registered_dialects
from stepwell.dialects.core.module_info import ModuleInfo
from stepwell.dialects.core.sizes import Dim, Size
from stepwell.dialects.core.types import type_of
from stepwell.dialects.graph.base import GraphOp
from stepwell.dialects.graph.control import ControlInfo
from stepwell.dialects.support.errors import UnsupportedError
from stepwell.passes.framework.registry import Pass, PassState, converting_pass, register_pass
from stepwell.passes.framework.rewriting import program_functions
from stepwell.passes.graph_to_linalg.lowerings import conversions
from stepwell.passes.graph_to_linalg.shape import in_kernel

SHOWN = 40
"""The largest number of problems in a message."""
_STRUCTURAL = ("graph.parameter", "graph.constant", "graph.fused", "graph.yield", "graph.bind_sizes")


@register_pass("check-lowerable", level="graph")
class CheckLowerable(Pass):
    """Raise one UnsupportedError that lists every graph op without a lowering and every result whose size is not known.

    It runs after folding and simplification, which remove many ops that compute shapes.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        known = {c.root for c in conversions()}
        dialects = {dialect.DIALECT_NAMESPACE for dialect in registered_dialects()}
        sizes = [type_of(argument).shape for function in program_functions(op) for argument in function.arguments]
        symbols = {str(s) for found in (*sizes, *ModuleInfo(op).elements) for s in found if isinstance(s, Size) and s.is_symbol}
        bound = [size for inner in ops_below(op, "graph.bind_sizes") for size in inner.opview.attribute_values()["sizes"]]
        symbols |= {str(size) for size in bound if isinstance(size, Size) and size.is_symbol}
        problems = []
        for inner in ops_below(op):
            reason = None
            if isinstance(inner.opview, GraphOp):
                reason = _reason(inner, known, symbols) if inner.name not in _STRUCTURAL else None
            elif inner.name.partition(".")[0] in dialects and not in_kernel(inner):
                reason = f"'{inner.name}' is no GraphOp: outside of kernels all ops of this level derive from it (docs/kernels.md)"
            if reason:
                problems.append(f"{nodes_text(inner.location)}: {reason}")
        if problems:
            different = list(dict.fromkeys(problems))
            more = [f"and {len(different) - SHOWN} more"] if len(different) > SHOWN else []
            raise UnsupportedError("; ".join([*different[:SHOWN], *more]), details=different)


def _reason(op: ir.Operation, known: set[str], symbols: set[str]) -> str | None:
    dynamic = next((result.type for result in op.results if not all(_is_known(size, symbols) for size in type_of(result).shape)), None)
    why_not = ControlInfo(op).reason if op.name in ControlInfo.on else None
    if dynamic is not None and why_not is None:
        return f"'{op.name}' gives {dynamic}, whose size is not known before it runs; supported: sizes known at compile time"
    if op.name not in known and converting_pass(op.name) is None:
        why = f" ({why_not})" if why_not else ""
        passes = "" if op.name.startswith("graph.") else ", and no pass says that it converts it"
        return f"'{op.name}' has no lowering to linalg{why}{passes}"
    return None


def _is_known(size: Dim, symbols: set[str]) -> bool:
    """Whether a size follows from those of the inputs."""
    return isinstance(size, int) or (size is not None and symbols.issuperset(size.symbols))
