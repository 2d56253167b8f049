"""The runtime's part in sizes that become known while a model runs: compiled code calls back, and gets memory for them.

`main` writes the numbers that it has computed to its table and calls `stepwell_enter`. That checks them, takes memory for the buffers and
outputs that have waited for them, and writes to the table how far from the workspace they lie. Loops call `stepwell_poll` from time to
time. The answer is the last entry of the table. An error is kept, and raised when `main` has returned.
"""

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from stepwell.dialects.core.layout import Layout, Slot, evaluator
from stepwell.dialects.core.segments import Segment, bind_all, new_symbols
from stepwell.dialects.core.sizes import Assumption, Size, evaluated, parse
from stepwell.dialects.support.buffers import address, aligned_empty
from stepwell.dialects.support.errors import IndexRangeError, LimitError, SizesDifferError
from stepwell.dialects.support.limits import how_to
from stepwell.runtime.boxes import Boxes
from stepwell.runtime.callbacks import catching_all

_POLL_SECONDS = 0.05  # how long a loop may go on before it looks for an interrupt
_POLL_ROUNDS = 1 << 20


class LateSizes:
    """What of a program waits for sizes that it computes: shared by its runs."""

    def __init__(
        self, segments: Sequence[Segment], entries: int, assumptions: Sequence[Assumption], symbols: Sequence[str], most: tuple[int, int],
        outputs: Sequence[tuple[Sequence[int | str | None], np.dtype]],
    ) -> None:  # fmt: skip
        """`entries` is the length of the table, of which `symbols` are the first ones, known before.

        `most` are the bytes that a segment may take, and the rounds that a loop may do; `outputs` has the shape and the type of each output.
        """
        self.segments, self.symbols, self.entries = tuple(segments), tuple(symbols), entries
        self.most_bytes, self.most_rounds = most
        self.outputs: list[tuple[list[int | Size], np.dtype]] = [
            ([parse(size) if isinstance(size, str) else size for size in shape if size is not None], dtype) for shape, dtype in outputs
        ]
        names = list(symbols)
        self.new = new_symbols(segments, symbols)
        self.layouts: list[Layout] = []
        self.grown: list[Callable[..., list[int]] | None] = []
        """For each segment what gives the bytes before and after of each slot that grows, from the symbols of its layout."""
        self.assumptions: list[list[Assumption]] = []
        waiting = [a for a in assumptions if not set(names).issuperset(a.symbols)]
        for segment, new in zip(segments, self.new, strict=True):
            names += new
            grown = [size for slot, before in segment.grows for size in (before, segment.slots[slot].size)]
            used = {name for size in (*(slot.size for slot in segment.slots), *grown) if isinstance(size, Size) for name in size.symbols}
            self.layouts.append(Layout(segment.slots, sorted(used)))
            self.grown.append(evaluator(grown, sorted(used)) if grown else None)
            ready = [a for a in waiting if set(names).issuperset(a.symbols)]
            self.assumptions.append(ready)
            waiting = [a for a in waiting if a not in ready]

    def to_json(self) -> dict[str, Any]:
        """What `from_json` makes it of again, with the outputs."""
        segments = [
            {
                "nodes": s.nodes, "start": s.start, "sizes": [str(size) for size in s.sizes], "outputs": [list(pair) for pair in s.outputs],
                "slots": [slot.record for slot in s.slots], "boxes": [list(pair) for pair in s.boxes],
                "grows": [[slot, str(size)] for slot, size in s.grows],
            }
            for s in self.segments
        ]  # fmt: skip
        assumed = [assumption.record for group in self.assumptions for assumption in group]
        return {"segments": segments, "assumptions": assumed, "symbols": list(self.symbols), "entries": self.entries,
                "most": [self.most_bytes, self.most_rounds]}  # fmt: skip

    @staticmethod
    def from_json(record: Mapping[str, Any], outputs: Sequence[tuple[Sequence[int | str | None], np.dtype]]) -> "LateSizes":
        """What `to_json` has recorded."""
        segments = [
            Segment(
                s["nodes"], s["start"], tuple(map(parse, s["sizes"])), tuple(map(Slot.of_record, s["slots"])),
                tuple((slot, output) for slot, output in s["outputs"]), tuple((slot, nested) for slot, nested in s["boxes"]),
                tuple((slot, parse(size)) for slot, size in s["grows"]),
            )
            for s in record["segments"]
        ]  # fmt: skip
        assumed = list(map(Assumption.of_record, record["assumptions"]))
        return LateSizes(segments, record["entries"], assumed, record["symbols"], tuple(record["most"]), outputs)


class Run:
    """One run of such a program: its table, the memory that it took, and what went wrong."""

    def __init__(self, late: LateSizes, table: np.ndarray, workspace: int, outputs: "list[Any]") -> None:
        """`workspace` is an address; `outputs` holds None for each output that waits for a size, which the run replaces."""
        self.late, self.table, self.workspace, self.outputs = late, table, workspace, outputs
        table[-1] = 1
        self.error: BaseException | None = None
        self.blocks: dict[int, np.ndarray] = {}
        """Of each segment what it took last; in a loop it is taken again."""
        self._asked = time.monotonic()
        self._round = 0
        self.values: dict[str, int] = {name: int(table[place]) for place, name in enumerate(late.symbols)}
        self.boxes = Boxes(late.most_bytes)

    def raise_any(self) -> None:
        """Raise what ended the run early, if it did. Without an answer, an interrupt came before there could be one."""
        if self.error is not None:
            raise self.error
        if not self.table[-1]:
            raise KeyboardInterrupt

    def enter(self, number: int) -> None:
        """Check the numbers of a segment and take memory. Raises IndexRangeError, LimitError or MemoryError."""
        late, segment = self.late, self.late.segments[number]
        try:
            numbers = self.table[segment.start : segment.start + len(segment.sizes)].tolist()
            bind_all(segment.sizes, numbers, self.values, late.new[number])
        except IndexRangeError as error:
            raise IndexRangeError(f"{segment.nodes}: {error.args[0]}") from None
        for assumption in late.assumptions[number]:
            if not assumption.holds(self.values):
                given = ", ".join(f"{name} = {self.values[name]}" for name in sorted(assumption.symbols))
                kind = SizesDifferError if assumption.is_of_one(self.values) else IndexRangeError
                raise kind(f"{segment.nodes}: the data ask for sizes that do not fit: expected {assumption}, got {given}")
        self._take(number, segment, late.layouts[number])

    def poll(self, number: int) -> int:
        """The round of a loop before which compiled code should ask again: about then when an interrupt has waited long enough.

        Raises LimitError for too many rounds; Python raises an interrupt that came here.
        """
        if number >= self.late.most_rounds:
            raise LimitError(f"a loop goes on after {number} rounds, more than it may ({how_to('loop_rounds')})")
        now = time.monotonic()
        rounds = number - self._round if number > self._round else number
        quick = max(now - self._asked, 1e-6)
        self._asked, self._round = now, number
        ahead = min(max(int(rounds * _POLL_SECONDS / quick), 1), _POLL_ROUNDS)
        return min(number + ahead, max(self.late.most_rounds, number + 1))

    def _take(self, number: int, segment: Segment, layout: Layout) -> None:
        places, boxes = dict(segment.outputs), dict(segment.boxes)
        values = {name: self.values[name] for name in layout.symbols}
        offsets, sizes, total = layout.placed(values, apart=places.keys() | boxes.keys())
        first = segment.start + len(segment.sizes)
        grown = self._grown(number, segment, first, values)
        new = sum(sizes[slot] for slot in boxes if slot not in grown or not self.boxes.grows(*grown[slot]))
        needed = total + sum(sizes[slot] for slot in places) + new + self.boxes.bytes
        if needed > self.late.most_bytes:
            shown = ", ".join(f"{name} = {self.values[name]}" for name in layout.symbols)
            most = f"more than {self.late.most_bytes} (limit workspace_bytes)"
            raise LimitError(f"{segment.nodes}: results for {shown} would take {needed} bytes of memory, {most}")
        block = self.blocks.get(number)
        if block is None or block.nbytes < total:
            block = self.blocks[number] = aligned_empty(total)
        begin = address(block)
        for slot, offset in enumerate(offsets):
            if slot in places:
                shape, dtype = self.late.outputs[places[slot]]
                array = np.empty([evaluated(size, self.values) for size in shape], dtype)
                self.outputs[places[slot]] = array
                self.table[first + slot] = address(array) - self.workspace
            elif slot in grown:
                self.table[first + slot] = self.boxes.grow(*grown[slot], nested=bool(boxes[slot])) - self.workspace
            elif slot in boxes:
                self.table[first + slot] = self.boxes.take(sizes[slot], nested=bool(boxes[slot])) - self.workspace
            else:
                self.table[first + slot] = begin + offset - self.workspace

    def _grown(self, number: int, segment: Segment, first: int, values: Mapping[str, int]) -> dict[int, tuple[int, int, int]]:
        """For each slot that begins with what another box leads to where that lies, its bytes, and the bytes of all."""
        sizes = self.late.grown[number]
        if sizes is None:
            return {}
        found = sizes(**values)
        return {
            slot: (int(self.table[first + slot]) + self.workspace, found[2 * i], found[2 * i + 1]) for i, (slot, _) in enumerate(segment.grows)
        }


running: dict[int, Run] = {}
"""The runs that compiled code may call back for, by the addresses of their tables."""


@catching_all
def _enter(table: int, segment: int) -> None:
    try:
        running[table].enter(segment)
        running[table].table[-1] = 1
    except BaseException as error:  # Python cannot raise it through compiled code; what handlers of signals raise is among them
        running[table].error = error


@catching_all
def _poll(table: int, number: int) -> None:
    try:
        running[table].table[-1] = running[table].poll(number)
    except BaseException as error:  # as above
        running[table].error = error


@catching_all
def _keep(table: int, record: int) -> None:
    try:
        running[table].boxes.keep(record, running[table].workspace)
        running[table].table[-1] = 1
    except BaseException as error:  # as above
        running[table].error = error


_TYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
_FUNCTIONS = {"stepwell_enter": _TYPE(_enter), "stepwell_poll": _TYPE(_poll), "stepwell_keep": _TYPE(_keep)}
CALLBACKS: Mapping[str, int] = {name: ctypes.cast(function, ctypes.c_void_p).value or 0 for name, function in _FUNCTIONS.items()}
"""The addresses of what compiled code calls."""
