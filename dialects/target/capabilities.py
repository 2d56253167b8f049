"""The instructions of a machine that passes may use beyond plain vector arithmetic. Passes ask `Target.capabilities`; no pass names a feature."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

Emit: TypeAlias = Callable[..., Any]
"""Builds an instruction at the current insertion point. Operands and result are vectors (`ir.Value`) with as many lanes as the instruction."""
ByLanes: TypeAlias = tuple[tuple[int, Emit], ...]
"""One instruction in several widths, as pairs of lanes and builder, the widest first."""


@dataclass(frozen=True)
class TileRegisters:
    """The registers of two dimensions of a machine (AMX)."""

    count: int
    rows: int
    """Rows of a whole register."""
    row_bytes: int
    """Bytes of a row of a whole register."""
    group: int
    """Bytes of the left operand that a product multiplies by one row of the right operand, and that add up to one sum."""

    @property
    def groups(self) -> int:
        """Groups in a row: sums in a row of results, and rows of a right operand."""
        return self.row_bytes // self.group


@dataclass(frozen=True)
class Capabilities:
    """The capabilities of a machine's instructions. By default a machine has none, and passes use plain arithmetic."""

    masked_bits: frozenset[int] = frozenset()
    """Widths, in bits, of the elements with which vectors support masked loads and stores."""
    maximum_selects: bool = False
    """Whether a maximum is `y > x ? y : x`, which returns `x` if either is NaN (`maxps`), instead of IEEE 754's `maximum`; likewise for minima."""
    folds_in_halves: bool = True
    """Whether LLVM folds the lanes of a vector by halves, halves of these and so on where it may choose the order. Otherwise a pass says it."""
    conversion_rounds: bool = False
    """Whether the conversion of f32 to i32 rounds to nearest even, and LLVM does not remove a redundant rounding before it (`cvtps2dq`)."""
    bf16_rounding: ByLanes = ()
    """`emit(x)` rounds f32 to bf16, to nearest even. Subnormal numbers may become zero."""
    power_scaling: ByLanes = ()
    """`emit(x, n)` is `x * 2**n` for f32, rounded once; `n` is an integer of any size, given as f32."""
    tile_registers: TileRegisters | None = None
    """Its tile registers; None if it has none."""


PLAIN = Capabilities()
"""A machine with only plain vector arithmetic."""


def widest(instructions: ByLanes, lanes: int) -> tuple[int, Emit] | None:
    """The widest instruction that a vector of `lanes` fills, and its number of lanes; None if there is none."""
    return next(((width, emit) for width, emit in instructions if lanes % width == 0), None)
