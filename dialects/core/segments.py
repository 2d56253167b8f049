"""The segments of a program: steps in a run at which data-dependent sizes become known."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from stepwell.dialects.core.layout import Slot
from stepwell.dialects.core.sizes import Assumption, Size, evaluated
from stepwell.dialects.support.errors import IndexRangeError

BOX_ELEMENTS = 9
"""The entries of a box (`dialects/flow/boxes.py`): the address of a tensor, then up to 8 sizes."""


@dataclass(frozen=True)
class Segment:
    """The step between computing sizes and using them: the program checks them and allocates memory.

    Its part of the table starts at entry `start`. It holds the computed numbers, then the address of each slot, then what the code reports to the
    runtime: the bytes of the block with all slots except those of `outputs` and `boxes`, the bytes of each of these, the old and new bytes of each
    slot that grows, and the dynamic sizes of `shapes`.
    """

    nodes: str
    """The ONNX nodes that need the sizes, for messages."""
    start: int
    sizes: tuple[int | Size, ...]
    """For each computed number, a new symbol that it defines, or a size that it must equal."""
    slots: tuple[Slot, ...]
    """Stacked buffers; those of `outputs` and `boxes` are allocated separately."""
    outputs: tuple[tuple[int, int], ...] = ()
    """Pairs of a slot and the number of the model's output that it holds."""
    boxes: tuple[tuple[int, int], ...] = ()
    """Pairs of a slot that is the memory of a box, and 1 if it may hold boxes itself, else 0."""
    grows: tuple[tuple[int, int | Size], ...] = ()
    """Pairs of a slot and the bytes of another box that it begins with. The slot's entry holds the address of that box when the segment begins; the
    slot gets the same address if the memory behind the box is free and large enough."""
    shapes: tuple[tuple[int | Size, ...], ...] = ()
    """The shape of each of the `outputs`."""

    @property
    def first_slot(self) -> int:
        """The table entry with the address of the first slot."""
        return self.start + len(self.sizes)

    @property
    def reported(self) -> "tuple[int | Size, ...]":
        """The sizes that the code reports after the bytes of the block and of the separate slots."""
        grown = (size for slot, before in self.grows for size in (before, self.slots[slot].size))
        return (*grown, *(size for shape in self.shapes for size in shape if isinstance(size, Size)))

    @property
    def end(self) -> int:
        """The first table entry after the segment."""
        return self.first_slot + len(self.slots) + 1 + len(self.outputs) + len(self.boxes) + len(self.reported)


def bind_all(sizes: Sequence[int | Size], numbers: Sequence[int], values: dict[str, int], new: Collection[str]) -> None:
    """Bind the symbols among `sizes` that are `new` to their numbers. Raises IndexRangeError if a number differs from the size it must equal."""
    for name in new:
        values.pop(name, None)  # from the previous iteration
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
    """For each segment, the symbols that become known with it and their table entries; `known` lists those known before the first."""
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
    """The table entry of each symbol of a program; `known` are the first ones."""
    places = {name: place for place, name in enumerate(known)}
    for new in new_symbols(segments, known):
        places |= new
    return places


def decided_assumptions(segments: Sequence[Segment], known: Collection[str], assumptions: Sequence[Assumption]) -> list[list[Assumption]]:
    """For each segment, the assumptions that can be checked with it but not earlier; `known` lists the symbols known before the first."""
    names, waiting, found = set(known), [a for a in assumptions if not a.symbols <= set(known)], []
    for new in new_symbols(segments, list(known)):
        names |= new.keys()
        found.append([a for a in waiting if a.symbols <= names])
        waiting = [a for a in waiting if not a.symbols <= names]
    return found
