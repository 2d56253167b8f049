"""Sizes that become known while a program runs: which buffers have to wait for them, and where these lie then."""

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
    """A place in a function where sizes become known, or where those that it knows already are asked for memory: its beginning.

    `ops` are those in a row that make them known, none at the beginning; `buffers` those whose own sizes are known from then on.
    """

    ops: list[ir.Operation]
    position: int
    """Of the last of them in the function."""
    nodes: str
    """The ONNX nodes that ask for them."""
    sizes: list[int | Size] = field(default_factory=list)
    buffers: list[Any] = field(default_factory=list)
    slots: list[Slot] = field(default_factory=list)
    """How the buffers lie on top of each other."""
    number: int = 0
    """Of its segment in the program."""
    start: int = 0
    """Where its numbers begin in the table."""
    results: Sequence[Sequence[Dim]] = ()
    """The shapes of the program's results."""
    grows: list[tuple[int, Any, int | Size]] = field(default_factory=list)
    """Buffers, by their slots, that begin with all of what a box leads to: the box, a value, and the bytes of that."""

    @property
    def segment(self) -> Segment:
        """What is said of it to the runtime."""
        places = [(slot, buffer.place) for slot, buffer in enumerate(self.buffers)]
        outputs = tuple((slot, place.index) for slot, place in places if isinstance(place, Output))
        boxes = tuple((slot, int(place.holds_boxes)) for slot, place in places if isinstance(place, BoxMemory))
        grows = tuple((slot, size) for slot, _, size in self.grows)
        shapes = tuple(tuple(size for size in self.results[output] if size is not None) for _, output in outputs)
        return Segment(self.nodes, self.start, tuple(self.sizes), tuple(self.slots), outputs, boxes, grows, shapes)


def number_all(late: Sequence[LateSizes], start: int, results: Sequence[Sequence[Dim]]) -> None:
    """Give the places of a program numbers, and entries of the table from `start` on; `results` are the shapes of what @main returns."""
    for number, place in enumerate(late):
        place.number, place.start, place.results = number, start, results
        start = place.segment.end


def late_sizes(ops: Sequence[ir.Operation]) -> list[LateSizes]:
    """The places in a function where sizes become known, in order; what stands between two launches is one place."""
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
    """The symbols that each function of a program knows when it begins, by its name: `inputs` are those of @main, and a function of a region knows
    what its caller knows when it comes to it. Callers come before what they call."""
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
    """Says which sizes have to be waited for."""

    def __init__(self, late: Sequence[LateSizes], known: Sequence[str], beginning: LateSizes | None = None) -> None:
        """`known` are the symbols that are known from the start. Buffers of such sizes wait for the `beginning`, if there is one."""
        self.late, self.beginning = late, beginning
        self._number: dict[str, int] = {}
        for number, place in enumerate(late):
            for size in place.sizes:
                if isinstance(size, Size) and size.is_symbol and str(size) not in known:
                    self._number.setdefault(str(size), number)

    def of(self, size: int | Size) -> LateSizes | None:
        """The place where there is memory for a buffer of a size; None if that is known from the start."""
        if not isinstance(size, Size):
            return None
        numbers = [self._number[name] for name in size.symbols if name in self._number]
        return self.late[max(numbers)] if numbers else self.beginning

    def until(self, size: int | Size) -> int:
        """The position from which on a size is known."""
        late = self.of(size)
        return -1 if late is None else late.position
