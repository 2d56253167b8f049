"""The runtime's part in sizes that become known while a model runs: compiled code calls back, and gets memory for them.

`main` writes the numbers that it has computed to its table and calls `stepwell_enter`. That checks them, takes memory for the buffers and
outputs that have waited for them, and writes to the table how far from the workspace they lie. Loops call `stepwell_poll` from time to
time. The answer is the last entry of the table. An error is kept, and raised when `main` has returned.
"""

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepwell.dialects.core.layout import Layout, evaluator
from stepwell.dialects.core.segments import Segment, bind_all, new_symbols
from stepwell.dialects.core.sizes import Assumption, Size, evaluated, parse
from stepwell.dialects.support.buffers import address, aligned_empty
from stepwell.dialects.support.errors import IndexRangeError, LimitError, SizesDifferError
from stepwell.dialects.support.limits import how_to
from stepwell.dialects.support.properties import cached_property
from stepwell.runtime.boxes import Boxes
from stepwell.runtime.callbacks import catching_all
from stepwell.signature import TensorInfo

_POLL_SECONDS = 0.05  # how long a loop may go on before it looks for an interrupt
_POLL_ROUNDS = 1 << 20


@dataclass(frozen=True)
class LateSizes:
    """What of a program waits for sizes that it computes: shared by its runs."""

    segments: Sequence[Segment]
    entries: int
    """The length of the table, of which `symbols` are the first ones, known before."""
    assumptions: Sequence[Assumption]
    """What sizes must fulfil. Those about `symbols` alone hold before a run begins, and are not looked at here."""
    symbols: Sequence[str]
    most_bytes: int
    """How many bytes a segment may take."""
    most_rounds: int
    """How many rounds a loop may do."""
    outputs: Sequence[TensorInfo]
    """The results of the code, in order."""

    @cached_property
    def steps(self) -> "tuple[_Step, ...]":
        """What is done at each segment."""
        found, names = list[_Step](), set(self.symbols)
        waiting = [a for a in self.assumptions if not a.symbols <= names]
        for segment, new in zip(self.segments, new_symbols(self.segments, self.symbols), strict=True):
            names |= new.keys()
            grown = [size for slot, before in segment.grows for size in (before, segment.slots[slot].size)]
            used = sorted({name for size in (*(slot.size for slot in segment.slots), *grown) if isinstance(size, Size) for name in size.symbols})
            ready = [a for a in waiting if a.symbols <= names]
            waiting = [a for a in waiting if a not in ready]
            found.append(_Step(segment, new, Layout(segment.slots, used), evaluator(grown, used) if grown else None, ready))
        return tuple(found)

    @cached_property
    def shapes(self) -> tuple[tuple[int | Size, ...], ...]:
        """The sizes of each output."""
        sizes = ((size for size in info.shape if size is not None) for info in self.outputs)
        return tuple(tuple(parse(size) if isinstance(size, str) else size for size in shape) for shape in sizes)


@dataclass(frozen=True)
class _Step:
    """A segment, and what its sizes become with it."""

    segment: Segment
    new: Mapping[str, int]
    """The symbols that become known, each with its entry in the table."""
    layout: Layout
    grown: Callable[..., list[int]] | None
    """Gives the bytes before and after of each slot that grows, from the symbols of the layout."""
    assumptions: Sequence[Assumption]
    """Those that can be looked at from here on."""


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
        step = self.late.steps[number]
        segment = step.segment
        try:
            numbers = self.table[segment.start : segment.start + len(segment.sizes)].tolist()
            bind_all(segment.sizes, numbers, self.values, step.new)
        except IndexRangeError as error:
            raise IndexRangeError(f"{segment.nodes}: {error.args[0]}") from None
        for assumption in step.assumptions:
            if not assumption.holds(self.values):
                given = ", ".join(f"{name} = {self.values[name]}" for name in sorted(assumption.symbols))
                kind = SizesDifferError if assumption.is_of_one(self.values) else IndexRangeError
                raise kind(f"{segment.nodes}: the data ask for sizes that do not fit: expected {assumption}, got {given}")
        self._take(number, step)

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

    def _take(self, number: int, step: _Step) -> None:
        segment, layout = step.segment, step.layout
        places, boxes = dict(segment.outputs), dict(segment.boxes)
        values = {name: self.values[name] for name in layout.symbols}
        offsets, sizes, total = layout.placed(values, apart=places.keys() | boxes.keys())
        first = segment.start + len(segment.sizes)
        grown = self._grown(step, first, values)
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
                output = places[slot]
                shape = [evaluated(size, self.values) for size in self.late.shapes[output]]
                array = self.outputs[output] = np.empty(shape, self.late.outputs[output].dtype)
                self.table[first + slot] = address(array) - self.workspace
            elif slot in grown:
                self.table[first + slot] = self.boxes.grow(*grown[slot], nested=bool(boxes[slot])) - self.workspace
            elif slot in boxes:
                self.table[first + slot] = self.boxes.take(sizes[slot], nested=bool(boxes[slot])) - self.workspace
            else:
                self.table[first + slot] = begin + offset - self.workspace

    def _grown(self, step: _Step, first: int, values: Mapping[str, int]) -> dict[int, tuple[int, int, int]]:
        """For each slot that begins with what another box leads to where that lies, its bytes, and the bytes of all."""
        if step.grown is None:
            return {}
        found = step.grown(**values)
        return {
            slot: (int(self.table[first + slot]) + self.workspace, found[2 * i], found[2 * i + 1]) for i, (slot, _) in enumerate(step.segment.grows)
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
