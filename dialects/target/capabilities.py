"""The instructions of a machine that passes may use beyond plain vector arithmetic. Passes ask `Target.capabilities`; no pass names a feature."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

Emit: TypeAlias = Callable[..., Any]
"""Builds an instruction at the current insertion point. Operands and result are vectors (`ir.Value`) with the lanes that the instruction has."""
ByLanes: TypeAlias = tuple[tuple[int, Emit], ...]
"""One instruction in several widths: the lanes of each, the widest first."""


@dataclass(frozen=True)
class Capabilities:
    """What the instructions of a machine can do. The default is a machine without any of it, for which passes use plain arithmetic."""

    masked_bits: frozenset[int] = frozenset()
    """Widths in bits of the elements that a vector can be loaded and stored in under a mask."""
    maximum_selects: bool = False
    """Whether a maximum is `y > x ? y : x`, which gives `x` where either is NaN (`maxps`), instead of IEEE 754's `maximum`; and so for minima."""
    conversion_rounds: bool = False
    """Whether the conversion of f32 to i32 rounds to nearest even, and LLVM must be told to leave a rounding before it out (`cvtps2dq`)."""
    bf16_rounding: ByLanes = ()
    """`emit(x)` rounds f32 to bf16, to nearest even. Subnormal numbers may become zero."""
    power_scaling: ByLanes = ()
    """`emit(x, n)` is `x * 2**n` for f32, rounded once, with the whole number `n` given as f32 of any size."""
    tile_registers: int = 0
    """The number of registers of two dimensions (AMX)."""


PLAIN = Capabilities()
"""Plain vector arithmetic, and nothing beyond it."""


def widest(instructions: ByLanes, lanes: int) -> tuple[int, Emit] | None:
    """The widest instruction that fills its lanes on vectors of so many, and how many it has; None if there is none."""
    return next(((width, emit) for width, emit in instructions if lanes % width == 0), None)
