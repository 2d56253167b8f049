"""Sizes that become known while a program runs: the buffers that wait for them, and the places of these buffers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from stepwell.dialects.core.attributes import sizes_value
from stepwell.dialects.core.layout import Slot
from stepwell.dialects.core.locations import nodes_text
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.segments import Segment
from stepwell.dialects.core.sizes import Dim, Size
from stepwell.dialects.flow.control import CONTROL, called_by
from stepwell.passes.bufferize.places import BoxMemory, Output

BINDS = "flow.bind_sizes"
_LAUNCHES = ("func.call", "tensor.concat", "flow.if", "flow.loop", "flow.box")


@dataclass(eq=False)
class LateSizes:
    """A point in a function where sizes become known, or its beginning, where buffers of sizes that are already known are allocated.

    `ops` are consecutive ops that make them known, none at the beginning; `buffers` are those whose sizes are known from then on.
    """

    ops: list[ir.Operation]
    position: int
    """The position of the last of the ops in the function."""
    nodes: str
    """The ONNX nodes that need the sizes."""
    sizes: list[int | Size] = field(default_factory=list)
    buffers: list[Any] = field(default_factory=list)
    slots: list[Slot] = field(default_factory=list)
    """The layout of the buffers."""
    number: int = 0
    """The index of its segment in the program."""
    start: int = 0
    """The first entry of its numbers in the table."""
    results: Sequence[Sequence[Dim]] = ()
    """The shapes of the program's results."""
    grows: list[tuple[int, Any, int | Size]] = field(default_factory=list)
    """Buffers, by their slots, that begin with the whole content of a box: the box, a value, and the bytes of the content."""

    @property
    def segment(self) -> Segment:
        """The segment for the runtime."""
        places = [(slot, buffer.place) for slot, buffer in enumerate(self.buffers)]
        outputs = tuple((slot, place.index) for slot, place in places if isinstance(place, Output))
        boxes = tuple((slot, int(place.holds_boxes)) for slot, place in places if isinstance(place, BoxMemory))
        grows = tuple((slot, size) for slot, _, size in self.grows)
        shapes = tuple(tuple(size for size in self.results[output] if size is not None) for _, output in outputs)
        return Segment(self.nodes, self.start, tuple(self.sizes), tuple(self.slots), outputs, boxes, grows, shapes)


def number_all(late: Sequence[LateSizes], start: int, results: Sequence[Sequence[Dim]]) -> None:
    """Number the points of a program, and assign entries of the table from `start` on; `results` are the shapes of @main's results."""
    for number, place in enumerate(late):
        place.number, place.start, place.results = number, start, results
        start = place.segment.end


def late_sizes(ops: Sequence[ir.Operation]) -> list[LateSizes]:
    """The points in a function where sizes become known, in order; everything between two launches is one point."""
    found: list[LateSizes] = []
    open_ = False
    for position, op in enumerate(ops):
        if op.name == BINDS:
            if not open_:
                found.append(LateSizes([], position, nodes_text(op.location)))
            elif nodes_text(op.location) not in found[-1].nodes:
                found[-1].nodes += f" and {nodes_text(op.location)}"
            found[-1].ops.append(op)
            found[-1].sizes += sizes_value(op.attributes["sizes"])
            found[-1].position, open_ = position, True
        elif op.name in _LAUNCHES:
            open_ = False
    return found


def known_symbols(program: Sequence[Any], inputs: Sequence[str]) -> dict[str, list[str]]:
    """The symbols that each function of a program knows when it begins, by its name. `inputs` are those of @main; a region function knows
    those that its caller knows at the call. Callers come before their callees."""
    known: dict[str, list[str]] = {"main": list(inputs)}
    for function in program:
        here = dict.fromkeys(known[function.sym_name.value])
        for op in function.regions[0].blocks[0].operations:
            if op.operation.name == BINDS:
                sizes = sizes_value(op.operation.attributes["sizes"])
                here |= dict.fromkeys(str(size) for size in sizes if isinstance(size, Size) and size.is_symbol)
            elif op.operation.name in CONTROL:
                known |= {name: list(here) for name in called_by(op.operation)}
    return known


class Waits:
    """Determines the sizes that must be waited for."""

    def __init__(self, late: Sequence[LateSizes], known: Sequence[str], beginning: LateSizes | None = None) -> None:
        """`known` are the symbols known from the start. Buffers of such sizes wait for the `beginning`, if there is one."""
        self.late, self.beginning = late, beginning
        self._number: dict[str, int] = {}
        for number, place in enumerate(late):
            for size in place.sizes:
                if isinstance(size, Size) and size.is_symbol and str(size) not in known:
                    self._number.setdefault(str(size), number)

    def for_size(self, size: int | Size) -> LateSizes | None:
        """The point at which a buffer of that size can be allocated; None if the size is known from the start."""
        if not isinstance(size, Size):
            return None
        numbers = [self._number[name] for name in size.symbols if name in self._number]
        return self.late[max(numbers)] if numbers else self.beginning

    def until(self, size: int | Size) -> int:
        """The first position at which a size is known."""
        late = self.for_size(size)
        return -1 if late is None else late.position
