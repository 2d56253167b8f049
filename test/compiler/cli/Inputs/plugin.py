"""Passes for the tests of stepwell-opt: small, and nobody else's business."""

from dataclasses import dataclass

from stepwell.dialects.core.mlir import ir, ops_below
from stepwell.dialects.support.errors import PassError
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import NoMatch, PatternPass, Rewriter, pattern


@register_pass("tag", level="graph", anchor="func.func")
@dataclass
class Tag(Pass):
    """Append to the attribute `tags` of every function."""

    text: str = "tagged"
    only_public: bool = False

    def run(self, op: ir.Operation, state: PassState) -> None:
        if self.only_public and "sym_visibility" in op.attributes:
            return
        old = list(ir.ArrayAttr(op.attributes["tags"])) if "tags" in op.attributes else []
        op.attributes["tags"] = ir.ArrayAttr.get([*old, ir.StringAttr.get(self.text)])
        state.count("functions tagged")


@register_pass("count-ops", level="graph")
@dataclass
class CountOps(Pass):
    """Put the number of ops below the module on it."""

    def run(self, op: ir.Operation, state: PassState) -> None:
        op.attributes["test.count"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), len(ops_below(op)))


@register_pass("fail-here", level="graph")
@dataclass
class FailHere(Pass):
    """Erase the first function, then fail at the second."""

    def run(self, op: ir.Operation, state: PassState) -> None:
        first, second = list(op.regions[0].blocks[0].operations)[:2]
        first.operation.erase()
        raise PassError(f"'func.func' at {second.location}: the second function is too much")


@register_pass("break-ir", level="graph")
@dataclass
class BreakIR(Pass):
    """Take a function's type away, which no verifier accepts."""

    def run(self, op: ir.Operation, state: PassState) -> None:
        del op.regions[0].blocks[0].operations[0].attributes["function_type"]


@register_pass("raise-error", level="graph")
@dataclass
class RaiseError(Pass):
    """Fail as a pass with a mistake in it does."""

    def run(self, op: ir.Operation, state: PassState) -> None:
        raise KeyError("no such thing")


@pattern("graph.relu")
def relu_of_relu(op, rw: Rewriter):  # type: ignore[no-untyped-def]
    """rewrite: relu(relu(x)) -> relu(x)"""
    inner = op.operands[0].owner
    if isinstance(inner, ir.Block) or inner.name != "graph.relu":
        return NoMatch("its operand is no relu")
    return op.operands[0]


@register_pass("merge-relus", level="graph")
@dataclass
class MergeRelus(PatternPass):
    """Remove a relu of a relu."""

    patterns = (relu_of_relu,)
