"""The layout of a workspace with dynamic sizes: an order in which buffers are stacked."""

from collections.abc import Sequence
from dataclasses import dataclass

from stepwell.dialects.core.sizes import Size

ALIGNMENT = 64  # bytes: a cache line, and the widest vector register


@dataclass(frozen=True)
class Slot:
    """A buffer of `size` bytes. It begins at the end of the highest slot `below` it, rounded up to `ALIGNMENT`, or `inside` another slot."""

    size: int | Size
    below: tuple[int, ...]
    """The numbers of earlier slots in the layout's order that are live at the same time and lie below."""
    inside: "tuple[int, int | Size] | None" = None
    """The number of the slot that contains it, and its offset in bytes in that slot."""


@dataclass(frozen=True)
class Joined:
    """A layout for runs in which the symbol `one` is 1. Operands of concatenations then lie inside the results, and need no copies."""

    one: Size
    slots: Sequence[Slot]
    """The slots of the layout, in the same order."""


def aligned(size: int) -> int:
    """`size` bytes rounded up to whole cache lines."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def aligned_size(size: int | Size) -> int | Size:
    """Like `aligned`, also for a dynamic size."""
    return aligned(size) if isinstance(size, int) else -(-size // ALIGNMENT) * ALIGNMENT


def lowest_first(slots: Sequence[Slot]) -> list[int]:
    """The slots in an order in which each follows those below it."""
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
