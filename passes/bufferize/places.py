"""Where buffers lie: in memory of the program, of the caller, or in some that is asked for while the program runs."""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Workspace:
    """In the workspace, at an offset that the layout gives, or in memory that is asked for once its size is known."""


@dataclass(frozen=True)
class Weights:
    """In the arena of weights."""


@dataclass(frozen=True)
class Input:
    """In the memory of an input."""

    index: int


@dataclass(frozen=True)
class Output:
    """In the memory of a result."""

    index: int


@dataclass(frozen=True)
class BoxMemory:
    """In memory of its own that a `flow.box` keeps."""

    holds_boxes: bool
    """Whether its elements may be boxes themselves."""


@dataclass(frozen=True)
class Opened:
    """Where the `flow.unbox` of this number finds it."""

    number: int


@dataclass(frozen=True)
class TableEntry:
    """So far from the workspace as an entry of the program's table says."""

    entry: int


Place: TypeAlias = Workspace | Weights | Input | Output | BoxMemory | Opened
"""The place of a root buffer."""
