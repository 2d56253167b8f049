"""Moves the code of kernels into branches."""

from collections.abc import Sequence

from stepwell.dialects.core.mlir import ir, scf
from stepwell.passes.linalg.views import VIEWS

_PLACES = frozenset({*VIEWS, "memref.dim", "memref.get_global", "affine.apply", "affine.min", "affine.max"})
"""Ops, besides arithmetic, that only compute addresses and sizes."""


def move_into(block: ir.Block, branch: ir.Operation, ops: Sequence[ir.Operation]) -> None:
    """Move ops into an empty block of a branch, and terminate it.

    Ops that only compute addresses and sizes move in front of the branch instead: bounds of affine loops must be computed at the top of a function.
    """
    with ir.InsertionPoint(block), branch.location:
        end = scf.YieldOp([])
    inside: set[ir.Value] = set()
    for op in ops:
        if not (op.name in _PLACES or op.name.startswith("arith.")) or any(operand in inside for operand in op.operands):
            op.move_before(end.operation)
            inside |= set(op.results)
        else:
            op.move_before(branch)


def body(function: ir.Operation) -> list[ir.Operation]:
    """The ops of a function without its return."""
    return [o.operation for o in function.regions[0].blocks[0].operations][:-1]
