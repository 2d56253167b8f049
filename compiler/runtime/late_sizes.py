"""The runtime's part in data-dependent sizes: compiled code calls back when they become known, and gets memory for them.

`main` writes the numbers that it has computed to its table, computes what they ask for, and calls `enter` of the runtime, to which the table leads.
That takes memory for the buffers and outputs that have waited for them, and writes to the table how far from the workspace they lie. Loops call
`poll` from time to time. The answer is the last entry of the table. An error is kept, and raised when `main` has returned its status (`Verdict`).
docs/sizes.md has all of it as an interface in C.
"""

import ctypes
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepwell.dialects.core.runtime_interface import ANSWER, FUNCTIONS, RUNTIME, VERSION
from stepwell.dialects.core.size_table import MOST_TOTAL, Status, Verdict
from stepwell.dialects.support.buffers import address, aligned_empty
from stepwell.dialects.support.errors import CodegenError, IndexRangeError, LimitError, SizesDifferError
from stepwell.dialects.support.limits import how_to
from stepwell.runtime.boxes import Boxes
from stepwell.runtime.callbacks import catching_all
from stepwell.runtime.context import current
from stepwell.signature import TensorInfo

_POLL_SECONDS = 0.05  # the most seconds that a loop runs before it checks for an interrupt
_POLL_ROUNDS = 1 << 20


@dataclass(frozen=True)
class LateSegment:
    """The runtime's part of a `Segment`: the code has checked the numbers, and reports the sizes that it needs."""

    nodes: str
    start: int
    sizes: Sequence[str]
    """The sizes that the numbers stand for, for messages."""
    slots: int
    outputs: Sequence[tuple[int, int]]
    shapes: Sequence[Sequence[int | None]]
    """The shape of each output; None for a size that the code reports."""
    boxes: Sequence[tuple[int, int]]
    grows: Sequence[int]
    assumptions: Sequence[str]
    """The assumptions about sizes that are known at this point."""
    symbols: Sequence[str]
    """The symbols that determine the bytes, for messages."""


@dataclass(frozen=True)
class LateSizes:
    """The parts of a program that wait for sizes that it computes: shared by its runs."""

    segments: Sequence[LateSegment]
    entries: int
    """The length of the table."""
    places: Mapping[str, int]
    """The entry of the table for each symbol."""
    most_bytes: int
    """The most bytes of a segment."""
    most_rounds: int
    """The most iterations of a loop."""
    outputs: Sequence[TensorInfo]
    """The results of the code, in order."""


class Run:
    """One run of such a program: its table, its memory, and its error."""

    def __init__(self, late: LateSizes, table: np.ndarray, workspace: int, outputs: "list[Any]") -> None:
        """`workspace` is an address; `outputs` has None for each output that waits for a size, which the run replaces."""
        self.late, self.table, self.workspace, self.outputs = late, table, workspace, outputs
        table[RUNTIME] = RUNTIME_ADDRESS
        self.error: BaseException | None = None
        self.blocks: dict[int, np.ndarray] = {}
        """The last block of each segment; in a loop it is allocated again."""
        self._asked = time.monotonic()
        self._round = 0
        self.boxes = Boxes(late.most_bytes)

    @property
    def values(self) -> dict[str, int]:
        """The numbers of the symbols that the run knows so far."""
        return {name: int(self.table[place]) for name, place in self.late.places.items()}

    def error_for(self, code: int) -> BaseException:
        """The error that ended the run early, with the status of that `code`."""
        if self.error is not None:
            return self.error
        verdict = Verdict.decoded(code)
        return KeyboardInterrupt() if verdict.status is Status.STOPPED else self._refused(verdict)  # it came before there could be an answer

    def _refused(self, verdict: Verdict) -> Exception:
        """The error for what the code has found wrong with sizes."""
        status = verdict.status
        if status is Status.INTERFACE:
            return CodegenError(f"the code is for another version of the runtime than {VERSION}")
        segment = self.late.segments[verdict.segment]
        if status is Status.OVERFLOW:
            return self._too_large(segment, f"at least {MOST_TOTAL}")
        if status is Status.DIVISION:
            return IndexRangeError(f"{segment.nodes}: the data ask for a size that divides by 0")
        if status in (Status.ASSUMPTION, Status.BROADCAST):
            assumption = segment.assumptions[verdict.number]
            names = sorted(set(re.findall(r"[^\W\d]\w*", assumption)) & self.late.places.keys())
            kind = SizesDifferError if status is Status.BROADCAST else IndexRangeError
            return kind(f"{segment.nodes}: the data ask for sizes that do not fit: expected {assumption}, got {self._given(names)}")
        size, number = segment.sizes[verdict.number], int(self.table[segment.start + verdict.number])
        asked = f"{segment.nodes}: the data ask for the size {number}"
        if status is Status.NEGATIVE:
            return IndexRangeError(f"{asked}; expected a number from 0{f' for {size}' if size.isidentifier() else ''}")
        expected = int(self.table[segment.start + len(segment.sizes) + segment.slots])
        is_number = size.lstrip("-").isdigit()
        return IndexRangeError(f"{asked}, where {f'{expected} is expected' if is_number else f'{size} is {expected}'}")

    def _given(self, names: Sequence[str]) -> str:
        """The numbers of symbols, for a message."""
        values = self.values
        return ", ".join(f"{name} = {values[name]}" for name in names)

    def _too_large(self, segment: LateSegment, needed: int | str) -> LimitError:
        most = f"more than {self.late.most_bytes} (limit workspace_bytes)"
        return LimitError(f"{segment.nodes}: results for {self._given(segment.symbols)} would take {needed} bytes of memory, {most}")

    def enter(self, number: int) -> int:
        """Allocate the memory of a segment, and write its addresses; returns 1. Raises LimitError or MemoryError."""
        segment = self.late.segments[number]
        first = segment.start + len(segment.sizes)
        told = iter(self.table[first + segment.slots :].tolist())
        total = next(told)
        outputs, boxes = dict(segment.outputs), dict(segment.boxes)
        sizes = {slot: next(told) for slot, _ in (*segment.outputs, *segment.boxes)}
        grown = {slot: (int(self.table[first + slot]) + self.workspace, next(told), next(told)) for slot in segment.grows}
        new = sum(sizes[slot] for slot in boxes if slot not in grown or not self.boxes.grows(*grown[slot]))
        needed = total + sum(sizes[slot] for slot in outputs) + new + self.boxes.bytes
        if needed > self.late.most_bytes:
            raise self._too_large(segment, needed)
        block = self.blocks.get(number)
        if block is None or block.nbytes < total:
            block = self.blocks[number] = aligned_empty(total)
        alone: dict[int, int] = {}
        for (slot, output), shape in zip(segment.outputs, segment.shapes, strict=True):
            sizes_of_output = [next(told) if size is None else size for size in shape]
            array = self.outputs[output] = np.empty(sizes_of_output, self.late.outputs[output].dtype)
            alone[slot] = address(array)
        for slot, nested in boxes.items():
            take, asked = (self.boxes.grow, grown[slot]) if slot in grown else (self.boxes.take, (sizes[slot],))
            alone[slot] = take(*asked, nested=bool(nested))
        begin = address(block)
        for slot in range(segment.slots):
            self.table[first + slot] = alone.get(slot, begin + int(self.table[first + slot])) - self.workspace
        return 1

    def keep(self, record: int) -> int:
        """Free the boxes that the record of a loop does not refer to; returns 1."""
        self.boxes.keep(record, self.workspace)
        return 1

    def poll(self, number: int) -> int:
        """The iteration of a loop before which compiled code should call again: about when an interrupt has waited long enough.

        Raises LimitError for too many iterations, CancelledError if the run was stopped; Python raises a pending interrupt.
        """
        if current.context is not None:
            current.context.check()
        if number >= self.late.most_rounds:
            raise LimitError(f"a loop goes on after {number} rounds, more than it may ({how_to('loop_rounds')})")
        now = time.monotonic()
        rounds = number - self._round if number > self._round else number
        quick = max(now - self._asked, 1e-6)
        self._asked, self._round = now, number
        ahead = min(max(int(rounds * _POLL_SECONDS / quick), 1), _POLL_ROUNDS)
        return min(number + ahead, max(self.late.most_rounds, number + 1))


running: dict[int, Run] = {}
"""The runs that compiled code may call back for, by the addresses of their tables."""


_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


def _callback(answer: Callable[[Run, int], int]) -> Any:
    """The C function by which compiled code gets an answer of its run; an error is kept."""

    @catching_all
    def call(_runtime: int, table: int, number: int, answer: Callable[[Run, int], int] = answer) -> None:
        try:
            running[table].table[ANSWER] = answer(running[table], number)
        except BaseException as error:  # Python cannot raise it through compiled code; what handlers of signals raise is among them
            running[table].error = error

    return _FUNCTION(call)


class _Runtime(ctypes.Structure):
    """See `dialects/core/runtime_interface.py`."""

    _fields_ = [("version", ctypes.c_int64), *((name, _FUNCTION) for name in FUNCTIONS)]  # as ctypes has it


_runtime = _Runtime(VERSION, *map(_callback, (Run.enter, Run.poll, Run.keep)))
RUNTIME_ADDRESS = ctypes.addressof(_runtime)
"""The address of the functions that compiled code calls, for the table of a run."""
