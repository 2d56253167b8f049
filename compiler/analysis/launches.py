"""Kernel launches as plain data, which also processes without the bindings read."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Operand:
    """The placement of a launch's operand: an argument of @main, an offset and a size in bytes; and its type, as `2x3xf32`."""

    argument: int
    offset: int
    size: int
    type: str

    @property
    def end(self) -> int:
        """The end of its bytes (exclusive)."""
        return self.offset + self.size

    def overlaps(self, other: "Operand") -> bool:
        """Whether the two share memory."""
        return self.argument == other.argument and self.offset < other.end and other.offset < self.end


@dataclass(frozen=True)
class KernelLaunch:
    """One launch: the kernel, the ONNX nodes it computes, its inputs, its outputs, its scratch if any."""

    kernel: str
    nodes: tuple[str, ...]
    sources: tuple[Operand, ...]
    destinations: tuple[Operand, ...]
    """One for each result of the kernel."""
    scratch: Operand | None
    carried: tuple[Operand, ...] = ()
    """The buffers that a loop keeps for its iterations or carries between them: it reads one and writes the other, in turn."""
    unplaced: int = 0
    """The number of operands whose placement or size is known only at run time."""
    is_region: bool = False
    """Whether this is not a kernel but the function of a branch or of a loop's body; the scratch is its workspace."""

    @property
    def operands(self) -> tuple[Operand, ...]:
        """All operands, in the order of the kernel's arguments."""
        return (*self.sources, *self.destinations, *([] if self.scratch is None else [self.scratch]))
