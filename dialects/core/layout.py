"""The layout of a workspace whose sizes are known only at run time: which buffer lies on top of which."""

from collections.abc import Callable, Collection, Mapping, Sequence
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


def evaluator(sizes: Sequence[int | Size], symbols: Sequence[str]) -> Callable[..., list[int]]:
    """A function of the symbols by name that gives these sizes, quickly: the expressions are compiled once. It may raise ZeroDivisionError."""
    # The text of a size is an expression of Python's, of words, numbers, arithmetic, max and min alone (see `sizes`).
    text = f"lambda {', '.join(symbols)}: [{', '.join(map(str, sizes))}]"
    compiled: Callable[..., list[int]] = eval(text, {"max": max, "min": min, "__builtins__": {}})
    return compiled


class Layout:
    """Computes offsets quickly."""

    def __init__(self, slots: Sequence[Slot], symbols: Sequence[str]) -> None:
        self.slots, self.symbols = slots, tuple(symbols)
        self._sizes = evaluator([slot.size for slot in slots], symbols)
        self._order = lowest_first(slots)

    def placed(self, values: Mapping[str, int], apart: Collection[int] = ()) -> tuple[list[int], list[int], int]:
        """The offset and the size of each slot in bytes, and the size of all but those that lie `apart`. Raises
        ZeroDivisionError where a size divides by 0."""
        sizes = [aligned(max(size, 0)) for size in self._sizes(**values)]
        found = [0] * len(sizes)
        for number in self._order:
            found[number] = max((found[below] + sizes[below] for below in self.slots[number].below), default=0)
        ends = (offset + size for number, (offset, size) in enumerate(zip(found, sizes, strict=True)) if number not in apart)
        return found, sizes, max(ends, default=0)


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
