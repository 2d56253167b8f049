"""What passes decide, op by op: what was done, what was declined, and why. Kept only on request."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from stepwell.dialects.core.kernel_info import KernelInfo, function_around
from stepwell.dialects.core.mlir import ir


@dataclass(frozen=True)
class NoMatch:
    """What a rewrite, a rule or a choice returns if it does not apply: the reason, which reaches the user (`--explain`)."""

    reason: str


@dataclass(frozen=True)
class Decision:
    """What was decided about an op."""

    run: str
    """The pass that was running."""
    by: str
    """What decided: a pattern of that pass, or the pass itself."""
    op: str
    location: Any
    """As MLIR has it: as text only for who reads it, since what many ops were fused into has a long one."""
    kernel: str | None
    """The function that the op is in, if that is a kernel, which may stand for several groups of nodes."""
    done: bool
    what: str
    """What was done, or why it was not."""


@dataclass
class Decisions:
    """The decisions of a run of passes, in order."""

    entries: list[Decision] = field(default_factory=list)

    def add(self, run: str, by: str, op: ir.Operation | ir.OpView, done: bool, what: str) -> None:
        """Note a decision about `op` as it is now."""
        operation = op.operation
        self.entries.append(Decision(run or by, by, operation.name, operation.location, kernel_of(operation), done, what))

    @property
    def declined(self) -> list[Decision]:
        """Those that say why something was not done."""
        return [decision for decision in self.entries if not decision.done]

    def __iter__(self) -> Iterator[Decision]:
        return iter(self.entries)


def kernel_of(op: ir.Operation) -> str | None:
    """The name of the kernel that an op is, or is in; None outside of kernels."""
    inner = function_around(op)
    return ir.StringAttr(inner.attributes["sym_name"]).value if inner is not None and KernelInfo(inner).is_kernel else None
