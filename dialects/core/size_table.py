"""The table of sizes that a program for all sizes works with, and the status of the function that completes it, `@sizes`.

The caller writes the symbols (`ModuleInfo.symbols`) to its first entries and calls `@sizes`, which writes the rest: where buffers lie in the
workspace, how many bytes that takes, and the sizes of results. docs/sizes.md says how a program in C does it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from stepwell.dialects.core.sizes import Size

SIZES_FUNCTION = "sizes"
"""The name of the function; those of segments have a number behind it."""
MOST_TOTAL = 1 << 62
"""The bytes from which on a workspace counts as too large for 64 bits."""


@dataclass(frozen=True)
class SizeTable:
    """Where `@sizes` writes to. All entries before `workspace` are those that `@main` reads."""

    workspace: int
    """The entry for the bytes of the workspace."""
    sizes: tuple[int | Size, ...] = ()
    """The expressions in the entries behind it."""

    @property
    def entries(self) -> int:
        """How many numbers the table holds, each an i64."""
        return self.workspace + 1 + len(self.sizes)

    def places(self, symbols: Sequence[str]) -> dict[str, int]:
        """The entry of each size by its text; `symbols` are those of the module."""
        sizes = enumerate(self.sizes, self.workspace + 1)
        return {name: entry for entry, name in enumerate(symbols)} | {str(size): entry for entry, size in sizes}


class SizeStatus(IntEnum):
    """What `@sizes` finds wrong first, in this order. A segment looks at the numbers that were computed first, then at assumptions."""

    OK = 0
    NEGATIVE = 1
    """The symbol of that number is below 0."""
    ASSUMPTION = 2
    """The sizes do not fulfil the assumption of that number (`ModuleInfo.assumptions`, those about symbols of inputs alone)."""
    DIVISION = 3
    """A size divides by 0."""
    OVERFLOW = 4
    """A size does not fit 64 bits, or the workspace 62."""
    WORKSPACE = 5
    """The workspace takes more than the limit `workspace_bytes`."""
    OUTPUT = 6
    """The result of that number takes more than the limit `value_bytes`."""
    DIMENSION = 7
    """The symbol of that number, the largest one, is above the limit `value_bytes`."""
    MISMATCH = 8
    """Of a segment: the number that was computed for the size of that number is another than what the size is."""
    BROADCAST = 9
    """Of a segment: as `ASSUMPTION`, of two sizes that were to be equal and of which one is 1."""


def segment_function(segment: int) -> str:
    """The name of the function that completes the part of the table that is for a segment (`dialects/core/segments.py`)."""
    return f"{SIZES_FUNCTION}_{segment}"


def completes_table(name: str) -> bool:
    """Whether a function of this name completes the table of sizes: before a run, or for a segment."""
    return re.fullmatch(rf"{SIZES_FUNCTION}(_\d+)?", name) is not None


class Verdict(NamedTuple):
    """The status that `@sizes` returns: the kind in the low byte, the number above it. For a segment its number comes behind 32 bits."""

    status: SizeStatus
    number: int = 0
    segment: int = 0

    @property
    def code(self) -> int:
        """It as one number."""
        return self.status | self.number << 8 | self.segment << 32

    @classmethod
    def decoded(cls, code: int) -> "Verdict":
        """The verdict that a number stands for."""
        return cls(SizeStatus(code & 0xFF), code >> 8 & 0xFFFFFF, code >> 32)
