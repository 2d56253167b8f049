"""Neighbouring structured ops over one buffer, which become one nest."""

from dataclasses import dataclass

from stepwell.dialects.core.mlir import ir
from stepwell.passes.linalg.structured import Structured


@dataclass
class Chain:
    """Structured ops over one buffer that become one nest: an optional fill, the root, element-wise epilogues in place."""

    fill: Structured | None
    root: Structured
    epilogues: list[Structured]

    @property
    def members(self) -> list[Structured]:
        return [*([self.fill] if self.fill else []), self.root, *self.epilogues]


def chains(ops: list[Structured]) -> list[Chain]:
    """Group neighbours over one output: fill + reduction + in-place element-wise ops. Each op is in exactly one chain."""
    out: list[Chain] = []
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
        out.append(Chain(fill, root, epilogues))
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
    if op.is_fill or not op.is_elementwise or op.scalar_op is not None or len(root.outputs) != 1:
        return False
    out = root.outputs[0]
    return (
        op.outputs[0].value == out.value
        and op.outputs[0].used
        and op.operation.block == root.operation.block
        and all(a.value != out.value for a in op.inputs)
        and all(isinstance(r, (ir.AffineDimExpr, ir.AffineConstantExpr)) for r in out.map.results)
    )
