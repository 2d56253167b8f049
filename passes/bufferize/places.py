"""The places of buffers: memory of the program, of the caller, or memory that is allocated while the program runs."""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Workspace:
    """The workspace, at an offset of the layout, or memory that is allocated once the size is known."""


@dataclass(frozen=True)
class Weights:
    """The arena of weights."""


@dataclass(frozen=True)
class Input:
    """The memory of an input."""

    index: int


@dataclass(frozen=True)
class Output:
    """The memory of a result."""

    index: int


@dataclass(frozen=True)
class BoxMemory:
    """Separate memory that a `flow.box` keeps."""

    holds_boxes: bool
    """Whether its elements may be boxes themselves."""


@dataclass(frozen=True)
class Opened:
    """The memory that the `flow.unbox` with this number finds."""

    number: int


@dataclass(frozen=True)
class TableEntry:
    """The memory at the distance from the workspace that is stored in an entry of the program's table."""

    entry: int


Place: TypeAlias = Workspace | Weights | Input | Output | BoxMemory | Opened
"""The place of a root buffer."""
