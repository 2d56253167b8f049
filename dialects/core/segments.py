"""The segments of a program: what follows when sizes become known while it runs."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from stepwell.dialects.core.layout import Slot
from stepwell.dialects.core.sizes import Assumption, Size, evaluated
from stepwell.dialects.support.errors import IndexRangeError

BOX_ELEMENTS = 9
"""Of a box (`dialects/flow/boxes.py`): where a tensor lies, then up to 8 sizes."""


@dataclass(frozen=True)
class Segment:
    """What a program does before it goes on with sizes that it has just computed: it checks them, and gets memory for them.

    Its table holds, from entry `start` on, first the numbers that were computed, then the place of each slot, then what the code tells the runtime:
    the bytes of the block that holds all slots but those of `outputs` and `boxes`, the bytes of each of these, the bytes before and after of each
    that grows, and the sizes of `shapes` that are no numbers.
    """

    nodes: str
    """The ONNX nodes that ask for the sizes, for messages."""
    start: int
    sizes: tuple[int | Size, ...]
    """What the numbers are: a symbol that is new, or else something that they must be equal to."""
    slots: tuple[Slot, ...]
    """Buffers, one on top of others; those of `outputs` and `boxes` lie by themselves."""
    outputs: tuple[tuple[int, int], ...] = ()
    """Pairs of a slot and the output of the model that it is."""
    boxes: tuple[tuple[int, int], ...] = ()
    """Pairs of a slot that is the memory of a box, and whether it may hold boxes itself: 1, or else 0."""
    grows: tuple[tuple[int, int | Size], ...] = ()
    """Of those slots some, each with the bytes that it begins with: they are those of another box, whose place its entry has when the segment begins.
    It gets the same place, if nothing lies behind them there and there is room."""
    shapes: tuple[tuple[int | Size, ...], ...] = ()
    """Of each of the `outputs`."""

    @property
    def first_slot(self) -> int:
        """The entry of the table for the place of the first slot."""
        return self.start + len(self.sizes)

    @property
    def reported(self) -> "tuple[int | Size, ...]":
        """What the code tells behind the bytes of the block and of the slots that lie by themselves."""
        grown = (size for slot, before in self.grows for size in (before, self.slots[slot].size))
        return (*grown, *(size for shape in self.shapes for size in shape if isinstance(size, Size)))

    @property
    def end(self) -> int:
        """The entry of the table behind those of the segment."""
        return self.first_slot + len(self.slots) + 1 + len(self.outputs) + len(self.boxes) + len(self.reported)


def bind_all(sizes: Sequence[int | Size], numbers: Sequence[int], values: dict[str, int], new: Collection[str]) -> None:
    """Give the symbols among `sizes` that are `new` here their numbers. Raises IndexRangeError where a number is not what it must be."""
    for name in new:
        values.pop(name, None)  # from the round before
    for size, number in zip(sizes, numbers, strict=True):
        if number < 0:
            what = f" for {size}" if isinstance(size, Size) and size.is_symbol else ""
            raise IndexRangeError(f"the data ask for the size {number}; expected a number from 0{what}")
        if str(size) in new:
            values.setdefault(str(size), number)
    for size, number in zip(sizes, numbers, strict=True):
        expected = evaluated(size, values)
        if expected != number:
            where = f"where {size} is {expected}" if isinstance(size, Size) else f"where {expected} is expected"
            raise IndexRangeError(f"the data ask for the size {number}, {where}")


def new_symbols(segments: Sequence[Segment], known: Sequence[str]) -> list[dict[str, int]]:
    """For each segment the symbols that become known with it, each with its entry in the table; `known` are those before the first."""
    seen, found = set(known), []
    for segment in segments:
        new: dict[str, int] = {}
        for place, size in enumerate(segment.sizes):
            if isinstance(size, Size) and size.is_symbol and str(size) not in seen:
                seen.add(str(size))
                new[str(size)] = segment.start + place
        found.append(new)
    return found


def symbol_places(segments: Sequence[Segment], known: Sequence[str]) -> dict[str, int]:
    """The entry of the table for each symbol of a program; `known` are the first ones."""
    places = {name: place for place, name in enumerate(known)}
    for new in new_symbols(segments, known):
        places |= new
    return places


def decided_assumptions(segments: Sequence[Segment], known: Collection[str], assumptions: Sequence[Assumption]) -> list[list[Assumption]]:
    """For each segment the assumptions whose sizes are all known with it, and not before; `known` are those before the first."""
    names, waiting, found = set(known), [a for a in assumptions if not a.symbols <= set(known)], []
    for new in new_symbols(segments, list(known)):
        names |= new.keys()
        found.append([a for a in waiting if a.symbols <= names])
        waiting = [a for a in waiting if not a.symbols <= names]
    return found
