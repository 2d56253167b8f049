"""Decisions of passes, op by op: what was done, what was declined, and why. Kept only on request."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from stepwell.dialects.core.kernel_info import KernelInfo, function_around
from stepwell.dialects.core.mlir import ir

T = TypeVar("T")


@dataclass(unsafe_hash=True)
class NoMatch(Exception):
    """The reason why a rewrite, rule or choice does not apply, for the user (`--explain`): returned by it, or raised by a function that it calls."""

    reason: str


def expect(value: T | None, why_not: str) -> T:
    """`value`, which a rewrite needs. Raises NoMatch with the reason `why_not` if it is None."""
    if value is None:
        raise NoMatch(why_not)
    return value


@dataclass(frozen=True)
class Decision:
    """A decision about an op."""

    run: str
    """The pass that was running."""
    by: str
    """The author of the decision: a pattern of that pass, or the pass itself."""
    op: str
    location: Any
    """An MLIR location, converted to text only when read, since the location of many fused ops is long."""
    kernel: str | None
    """The kernel that contains the op, if any; it may stand for several groups of nodes."""
    done: bool
    what: str
    """The action, or the reason against it."""


@dataclass
class Decisions:
    """The decisions of a run of passes, in order."""

    entries: list[Decision] = field(default_factory=list)

    def add(self, run: str, by: str, op: ir.Operation | ir.OpView, done: bool, what: str) -> None:
        """Record a decision about `op` in its current state."""
        operation = op.operation
        self.entries.append(Decision(run or by, by, operation.name, operation.location, kernel_of(operation), done, what))

    @property
    def declined(self) -> list[Decision]:
        """The decisions not to do something, with their reasons."""
        return [decision for decision in self.entries if not decision.done]

    def __iter__(self) -> Iterator[Decision]:
        return iter(self.entries)


def kernel_of(op: ir.Operation) -> str | None:
    """The name of the kernel that an op is, or is in; None outside kernels."""
    inner = function_around(op)
    return ir.StringAttr(inner.attributes["sym_name"]).value if inner is not None and KernelInfo(inner).is_kernel else None
