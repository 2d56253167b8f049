"""The layout of a workspace whose sizes are known only at run time: which buffer lies on top of which."""

from collections.abc import Sequence
from dataclasses import dataclass

from stepwell.dialects.core.sizes import Size

ALIGNMENT = 64  # bytes: a cache line, and the widest vector register


@dataclass(frozen=True)
class Slot:
    """A buffer of `size` bytes. It begins where the last of the slots `below` it ends, at a multiple of `ALIGNMENT`, or `inside` another one."""

    size: int | Size
    below: tuple[int, ...]
    """Numbers of slots before it in the layout's order: those that live at the same time and lie lower."""
    inside: "tuple[int, int | Size] | None" = None
    """The number of the slot that it is a part of, and how many bytes behind its begin."""


@dataclass(frozen=True)
class Joined:
    """A layout for runs in which the symbol `one` is 1. Operands of concatenations lie inside the results there, and need not be copied."""

    one: Size
    slots: Sequence[Slot]
    """Those of the layout, in the same order."""


def aligned(size: int) -> int:
    """`size` bytes rounded up to whole cache lines."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def aligned_size(size: int | Size) -> int | Size:
    """As `aligned`, for a size that may be known only at run time."""
    return aligned(size) if isinstance(size, int) else -(-size // ALIGNMENT) * ALIGNMENT


def lowest_first(slots: Sequence[Slot]) -> list[int]:
    """The slots such that each comes after those below it."""
    done: dict[int, None] = {}
    waiting = list(reversed(range(len(slots))))
    while waiting:
        number = waiting[-1]
        missing = [below for below in slots[number].below if below not in done]
        if missing:
            waiting += missing
        else:
            done.setdefault(waiting.pop())
    return list(done)
