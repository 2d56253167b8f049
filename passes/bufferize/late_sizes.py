"""Sizes that become known while @main runs: which of its buffers have to wait for them, and where these lie then."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from stepwell.dialects.core.attributes import sizes_value
from stepwell.dialects.core.locations import nodes_text
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.segments import Segment
from stepwell.dialects.core.sizes import Size

BINDS = "flow.bind_sizes"
_LAUNCHES = ("func.call", "tensor.concat")


@dataclass(eq=False)
class LateSizes:
    """The ops in a row that make sizes known, and the buffers whose own sizes are known from then on."""

    ops: list[ir.Operation]
    position: int
    """Of the last of them in @main."""
    sizes: list[int | Size] = field(default_factory=list)
    buffers: list[Any] = field(default_factory=list)
    start: int = 0
    """Where its numbers begin in the table."""

    @property
    def count(self) -> int:
        """The entries that it takes in the table."""
        return len(self.sizes) + len(self.buffers)

    def segment(self, slots: Sequence[Any]) -> Segment:
        """What is said of it to the runtime."""
        nodes = " and ".join(dict.fromkeys(nodes_text(op.location) for op in self.ops))
        outputs = [(slot, buffer.place[1]) for slot, buffer in enumerate(self.buffers) if buffer.place != "workspace"]
        return Segment(nodes, self.start, tuple(self.sizes), tuple(slots), tuple(outputs))


def late_sizes(ops: Sequence[ir.Operation]) -> list[LateSizes]:
    """The places in @main where sizes become known, in order; what stands between two launches is one place."""
    found: list[LateSizes] = []
    open_ = False
    for position, op in enumerate(ops):
        if op.name == BINDS:
            if not open_:
                found.append(LateSizes([], position))
            found[-1].ops.append(op)
            found[-1].sizes += sizes_value(op.attributes["sizes"])
            found[-1].position, open_ = position, True
        elif op.name in _LAUNCHES:
            open_ = False
    return found


class Waits:
    """Says which sizes have to be waited for."""

    def __init__(self, late: Sequence[LateSizes], known: Sequence[str]) -> None:
        """`known` are the symbols that are known from the start."""
        self.late = late
        self._number: dict[str, int] = {}
        for number, place in enumerate(late):
            for size in place.sizes:
                if isinstance(size, Size) and size.is_symbol and str(size) not in known:
                    self._number.setdefault(str(size), number)

    def of(self, size: int | Size) -> LateSizes | None:
        """The place where a size becomes known; None if it is known from the start."""
        numbers = [self._number[name] for name in size.symbols if name in self._number] if isinstance(size, Size) else []
        return self.late[max(numbers)] if numbers else None

    def until(self, size: int | Size) -> int:
        """The position in @main from which on a size is known."""
        late = self.of(size)
        return -1 if late is None else late.position
