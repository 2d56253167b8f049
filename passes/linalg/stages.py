"""Stages of a kernel: the structured ops over one buffer, or continuing one tensor, that become one loop nest."""

from dataclasses import dataclass

from stepwell.dialects.core.mlir import ir, ops_below
from stepwell.passes.linalg.accesses import Access
from stepwell.passes.linalg.structured import STRUCTURED, Structured, Walk, walk


@dataclass(eq=False)
class Stage:
    """Structured ops that become one nest: an optional fill, the root, element-wise epilogues in place."""

    fill: Structured | None
    root: Structured
    epilogues: list[Structured]

    @property
    def members(self) -> list[Structured]:
        return [*([self.fill] if self.fill else []), self.root, *self.epilogues]

    def loop(self, member: Structured, dim: int) -> int | None:
        """The loop of `member` that corresponds to loop `dim` of the root: an epilogue's loops are the results of the map of the root's output."""
        if member is self.root:
            return dim
        results = list(self.root.outputs[0].map.results)
        own = [d for d, result in enumerate(results) if isinstance(result, ir.AffineDimExpr) and result.position == dim]
        return own[0] if len(own) == 1 else None

    def walk(self, member: Structured, access: Access, dim: int) -> Walk | None:
        """How loop `dim` of the root goes through an operand of one of the ops (see `structured.walk`).

        An epilogue's access to the root's result counts as the root's own access.
        """
        if access.value == self.root.outputs[0].value:
            member, access = self.root, self.root.outputs[0]
        own = self.loop(member, dim)
        return None if own is None else walk(member, access, own)

    def moves(self, member: Structured, access: Access, dim: int) -> bool:
        """Whether an operand of one of the ops moves along loop `dim` of the root."""
        own = self.loop(member, dim)
        return own is not None and access.kind(own) != "scalar"


def stages_on_tensors(function: ir.Operation) -> list[Stage]:
    """The stages below `function`, in the order of their first ops: ops that continue each other's output are one stage."""
    started: list[list[Structured]] = []
    ends: dict[ir.Value, list[Structured]] = {}
    for operation in ops_below(function):
        if operation.name not in STRUCTURED or len(operation.results) != 1:
            continue
        stage = ends.pop(operation.operands[len(operation.operands) - 1], None)
        if stage is None:
            stage = []
            started.append(stage)
        stage.append(Structured(operation))
        ends[operation.results[0]] = stage
    out = []
    for stage in started:
        fill = stage[0] if stage[0].is_fill and len(stage) > 1 else None
        root, *epilogues = stage[1:] if fill else stage
        out.append(Stage(fill, root, epilogues))
    return out


def stages_on_memrefs(ops: list[Structured]) -> list[Stage]:
    """Group neighbours over one output: fill + reduction + in-place element-wise ops. Each op is in exactly one stage."""
    out: list[Stage] = []
    i = 0
    while i < len(ops):
        fill: Structured | None = None
        root = ops[i]
        if root.is_fill and i + 1 < len(ops) and _initialises(root, ops[i + 1]):
            fill, root = root, ops[i + 1]
            i += 1
        i += 1
        epilogues: list[Structured] = []
        while i < len(ops) and _continues(root, ops[i]):
            epilogues.append(ops[i])
            i += 1
        out.append(Stage(fill, root, epilogues))
    return out


def _initialises(fill: Structured, root: Structured) -> bool:
    return (
        not root.is_fill
        and len(root.outputs) == 1
        and root.outputs[0].value == fill.outputs[0].value
        and root.outputs[0].used
        and all(a.value != fill.outputs[0].value for a in root.inputs)
        and root.operation.block == fill.operation.block
        and _covers(root)
    )


def _covers(root: Structured) -> bool:
    """Every element of the output is written, so that no filled element is left behind: its map is a permutation of whole extents."""
    out = root.outputs[0]
    return all(isinstance(r, ir.AffineDimExpr) and root.extents[r.position] == n for r, n in zip(out.map.results, out.shape, strict=True))


def _continues(root: Structured, op: Structured) -> bool:
    """Whether `op` is element-wise in place over the root's output, readable from the root's register tile."""
    if op.is_fill or not op.is_elementwise or op.scalar_op is not None or op.reads or op.loops or len(root.outputs) != 1:
        return False
    out = root.outputs[0]
    return (
        op.outputs[0].value == out.value
        and op.outputs[0].used
        and op.operation.block == root.operation.block
        and all(a.value != out.value for a in op.inputs)
        and all(isinstance(r, (ir.AffineDimExpr, ir.AffineConstantExpr)) for r in out.map.results)
    )
