"""The runtime's part in sizes that become known while a model runs: compiled code calls back, and gets memory for them.

`main` writes the numbers that it has computed to its table and calls `stepwell_enter`. That checks them, takes memory for the buffers
and outputs that have waited for them, and writes to the table how far from the workspace they lie. An error is kept, and raised when
`main` has returned.
"""

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stepwell.dialects.core.layout import Layout, Slot
from stepwell.dialects.core.segments import Segment, bind_all, new_symbols
from stepwell.dialects.core.sizes import Assumption, Size, evaluated, parse
from stepwell.dialects.support.errors import IndexRangeError, LimitError
from stepwell.runtime.buffers import address, aligned_empty


class LateSizes:
    """What of a program waits for sizes that it computes: shared by its runs."""

    def __init__(
        self, segments: Sequence[Segment], assumptions: Sequence[Assumption], symbols: Sequence[str], most_bytes: int,
        outputs: Sequence[tuple[Sequence[int | str | None], np.dtype]],
    ) -> None:  # fmt: skip
        """`symbols` are known before, as the first entries of the table; `outputs` has the shape and the type of each output."""
        self.segments, self.most_bytes, self.symbols = tuple(segments), most_bytes, tuple(symbols)
        self.entries = segments[-1].end
        self.outputs: list[tuple[list[int | Size], np.dtype]] = [
            ([parse(size) if isinstance(size, str) else size for size in shape if size is not None], dtype) for shape, dtype in outputs
        ]
        names = list(symbols)
        self.layouts: list[Layout] = []
        self.assumptions: list[list[Assumption]] = []
        waiting = [a for a in assumptions if not set(names).issuperset(a.symbols)]
        for segment, new in zip(segments, new_symbols(segments, symbols), strict=True):
            names += new
            self.layouts.append(Layout(segment.slots, names))
            ready = [a for a in waiting if set(names).issuperset(a.symbols)]
            self.assumptions.append(ready)
            waiting = [a for a in waiting if a not in ready]


    def to_json(self) -> dict[str, Any]:
        """What `from_json` makes it of again, with the outputs."""
        segments = [
            {
                "nodes": s.nodes, "start": s.start, "sizes": [str(size) for size in s.sizes], "outputs": [list(pair) for pair in s.outputs],
                "slots": [[str(slot.size), *slot.below] for slot in s.slots],
            }
            for s in self.segments
        ]  # fmt: skip
        assumed = [[str(a.left), a.relation, str(a.right)] for group in self.assumptions for a in group]
        return {"segments": segments, "assumptions": assumed, "symbols": list(self.symbols), "most_bytes": self.most_bytes}

    @staticmethod
    def from_json(record: Mapping[str, Any], outputs: Sequence[tuple[Sequence[int | str | None], np.dtype]]) -> "LateSizes":
        """What `to_json` has recorded."""
        segments = [
            Segment(
                s["nodes"], s["start"], tuple(map(parse, s["sizes"])), tuple(Slot(parse(size), tuple(below)) for size, *below in s["slots"]),
                tuple((slot, output) for slot, output in s["outputs"]),
            )
            for s in record["segments"]
        ]  # fmt: skip
        assumed = [Assumption(parse(left), relation, parse(right)) for left, relation, right in record["assumptions"]]
        return LateSizes(segments, assumed, record["symbols"], record["most_bytes"], outputs)


class Run:
    """One run of such a program: its table, the memory that it took, and what went wrong."""

    def __init__(self, late: LateSizes, table: np.ndarray, workspace: int, outputs: "list[Any]") -> None:
        """`workspace` is an address; `outputs` holds None for each output that waits for a size, which the run replaces."""
        self.late, self.table, self.workspace, self.outputs = late, table, workspace, outputs
        self.error: BaseException | None = None
        self.blocks: list[np.ndarray] = []
        self.values: dict[str, int] = {name: int(table[place]) for place, name in enumerate(late.symbols)}

    def enter(self, number: int) -> None:
        """Check the numbers of a segment and take memory. Raises IndexRangeError, LimitError or MemoryError."""
        late, segment = self.late, self.late.segments[number]
        try:
            bind_all(segment.sizes, self.table[segment.start : segment.start + len(segment.sizes)].tolist(), self.values)
        except IndexRangeError as error:
            raise IndexRangeError(f"{segment.nodes}: {error.args[0]}") from None
        for assumption in late.assumptions[number]:
            if not assumption.holds(self.values):
                given = ", ".join(f"{name} = {self.values[name]}" for name in sorted(assumption.symbols))
                raise IndexRangeError(f"{segment.nodes}: the data ask for sizes that do not fit: expected {assumption}, got {given}")
        self._take(segment, late.layouts[number])

    def _take(self, segment: Segment, layout: Layout) -> None:
        places = dict(segment.outputs)
        offsets, sizes, total = layout.placed(self.values, apart=places)
        needed = total + sum(sizes[slot] for slot in places)
        if needed > self.late.most_bytes:
            shown = ", ".join(f"{name} = {self.values[name]}" for name in layout.symbols if name in self.values)
            most = f"more than {self.late.most_bytes} (limit workspace_bytes)"
            raise LimitError(f"{segment.nodes}: results for {shown} would take {needed} bytes of memory, {most}")
        first = segment.start + len(segment.sizes)
        block = aligned_empty(total)
        self.blocks.append(block)
        begin = address(block)
        for slot, offset in enumerate(offsets):
            if slot in places:
                shape, dtype = self.late.outputs[places[slot]]
                array = np.empty([evaluated(size, self.values) for size in shape], dtype)
                self.outputs[places[slot]] = array
                self.table[first + slot] = address(array) - self.workspace
            else:
                self.table[first + slot] = begin + offset - self.workspace


_running: dict[int, Run] = {}
"""By the address of the table."""


class Running:
    """While it is entered, compiled code reaches the run by its table."""

    def __init__(self, run: Run) -> None:
        self.run, self.key = run, address(run.table)

    def __enter__(self) -> Run:
        _running[self.key] = self.run
        return self.run

    def __exit__(self, *_: object) -> None:
        del _running[self.key]


def _enter(table: int, segment: int) -> int:
    run = _running[table]
    try:
        run.enter(segment)
    except BaseException as error:  # Python cannot raise it through compiled code; an interrupt may be among them
        run.error = error
        return 0
    return 1


_ENTER = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(_enter)
CALLBACKS: Mapping[str, int] = {"stepwell_enter": ctypes.cast(_ENTER, ctypes.c_void_p).value or 0}
"""The addresses of what compiled code calls."""
