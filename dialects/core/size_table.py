"""The table of sizes of a shape-polymorphic program, and the status of `@sizes`, the function that completes it.

The caller writes the symbols (`ModuleInfo.symbols`) to the first entries and calls `@sizes`, which writes the rest: the offsets of buffers in
the workspace, its size in bytes, and the sizes of results. docs/sizes.md shows a caller in C.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from stepwell.dialects.core.sizes import Size

SIZES_FUNCTION = "sizes"
"""The name of the function; functions of segments have a number appended."""
CHECKS_FUNCTION = "checks"
"""The name of the function that compares hidden results (`dialects/core/index_checks.py`)."""
MOST_TOTAL = 1 << 62
"""The bytes from which a workspace counts as too large for 64 bits."""


@dataclass(frozen=True)
class SizeTable:
    """The entries that `@sizes` writes. `@main` reads all entries before `workspace`."""

    workspace: int
    """The entry with the bytes of the workspace."""
    sizes: tuple[int | Size, ...] = ()
    """The expressions in the entries after it."""

    @property
    def entries(self) -> int:
        """The number of entries, each an i64."""
        return self.workspace + 1 + len(self.sizes)

    def places(self, symbols: Sequence[str]) -> dict[str, int]:
        """The entry of each size, by the size's text; `symbols` are those of the module."""
        sizes = enumerate(self.sizes, self.workspace + 1)
        return {name: entry for entry, name in enumerate(symbols)} | {str(size): entry for entry, size in sizes}


class Status(IntEnum):
    """The first problem of a run, as code returns it: `@sizes` in this order. A segment checks the computed numbers first, then assumptions."""

    OK = 0
    NEGATIVE = 1
    """The symbol with that number is negative."""
    ASSUMPTION = 2
    """The sizes violate the assumption with that number (`ModuleInfo.assumptions`, counting those about input symbols only)."""
    DIVISION = 3
    """A size divides by 0."""
    OVERFLOW = 4
    """A size does not fit 64 bits, or the workspace 62."""
    WORKSPACE = 5
    """The workspace exceeds the limit `workspace_bytes`."""
    OUTPUT = 6
    """The result with that number exceeds the limit `value_bytes`."""
    DIMENSION = 7
    """The symbol with that number, the largest one, exceeds the limit `value_bytes`."""
    MISMATCH = 8
    """In a segment: the computed number differs from the size that it must equal."""
    BROADCAST = 9
    """In a segment: like `ASSUMPTION`, for two sizes that should be equal and one of which is 1."""
    STOPPED = 10
    """A function of the runtime has ended the run (`dialects/core/runtime_interface.py`)."""
    INTERFACE = 11
    """The table holds no runtime, or one of another version."""
    INDEX = 12
    """An index is out of range: the check with that number finds it (`ModuleInfo.checks`)."""


def segment_function(segment: int) -> str:
    """The name of the function that completes a segment's part of the table (`dialects/core/segments.py`)."""
    return f"{SIZES_FUNCTION}_{segment}"


def gives_status(name: str) -> bool:
    """Whether a function with this name computes a status from numbers alone: it completes the table of sizes, or compares hidden results."""
    return re.fullmatch(rf"{CHECKS_FUNCTION}|{SIZES_FUNCTION}(_\d+)?", name) is not None


class Verdict(NamedTuple):
    """The status that code returns: the kind in the low byte, the number above it; a segment stores its number above 32 bits."""

    status: Status
    number: int = 0
    segment: int = 0

    @property
    def code(self) -> int:
        """The verdict encoded as one number."""
        return self.status | self.number << 8 | self.segment << 32

    @classmethod
    def decoded(cls, code: int) -> "Verdict":
        """The verdict that a number encodes."""
        return cls(Status(code & 0xFF), code >> 8 & 0xFFFFFF, code >> 32)
