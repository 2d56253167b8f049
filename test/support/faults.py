"""Faults that are planted in passes, for tests of what should see them."""

from typing import Any
from unittest import mock

from stepwell.dialects.core.mlir import ir, ops_below


def broken(cls: type, name: str, other: str) -> Any:
    """Have a pass make another op of the first op of a name."""
    plain = cls.run  # type: ignore[attr-defined]

    def run(self: Any, op: ir.Operation, state: Any) -> None:
        plain(self, op, state)
        for found in ops_below(op, name)[:1]:
            with ir.InsertionPoint(found), found.location:
                made = ir.Operation.create(other, results=[r.type for r in found.results], operands=list(found.operands))
            found.results[0].replace_all_uses_with(made.results[0])
            found.erase()

    return mock.patch.object(cls, "run", run)
