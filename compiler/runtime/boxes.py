"""The memory of the boxes of a run: taken when a tensor is boxed, let go when a round of a loop has ended and no box leads to it."""

import ctypes

import numpy as np

from stepwell.dialects.core.segments import BOX_ELEMENTS
from stepwell.runtime.buffers import address, aligned_empty

_BOX_BYTES = ctypes.sizeof(ctypes.c_int64) * BOX_ELEMENTS
_FREE = 4  # blocks that are kept for tensors of about their size
_SPARE = 8  # a block is taken for a tensor of at least this part of its size, and made larger by one part in so many


class Boxes:
    """The blocks of memory that boxes of one run lead to, in the order in which they were taken.

    A loop puts a mark into that order before its first round, and says after each round which boxes its carried values hold. What was taken
    since the mark and what none of them leads to, not by way of others either, can be reached by nothing.
    """

    def __init__(self) -> None:
        self.bytes = 0
        """Of all blocks that boxes lead to."""
        self._blocks: dict[int, np.ndarray] = {}
        """By their addresses."""
        self._nested: set[int] = set()
        """The addresses of those that may hold boxes themselves."""
        self._free: list[np.ndarray] = []

    def take(self, size: int, *, nested: bool) -> int:
        """The address of new memory of so many bytes; `nested` if it may hold boxes. Raises MemoryError."""
        fitting = [i for i, block in enumerate(self._free) if size <= block.nbytes <= 2 * size + _BOX_BYTES]
        block = self._free.pop(fitting[0]) if fitting else aligned_empty(size + size // _SPARE)
        place = address(block)
        self._blocks[place] = block
        self.bytes += block.nbytes
        if nested:
            self._nested.add(place)
        return place

    def keep(self, record: int, base: int) -> None:
        """Let go of what nothing leads to any more; boxes count from the address `base`.

        The record is a count and a mark, then for each carried value its address and its number of boxes (`passes/bufferize/runtime.py`).
        """
        count, mark = _numbers(record, 2)
        if mark < 0:
            _numbers(record, 2)[1] = len(self._blocks)
            return
        since = list(self._blocks)[mark:]
        if not since:
            return
        rest = set(since)
        waiting = [_numbers(place, rows * BOX_ELEMENTS) for place, rows in _numbers(record, 2 + 2 * count)[2:].reshape(-1, 2).tolist()]
        while waiting and rest:
            found = rest.intersection((waiting.pop().reshape(-1, BOX_ELEMENTS)[:, 0] + base).tolist())
            rest -= found
            waiting += [self._whole_boxes(place) for place in found & self._nested]
        for place in rest:
            block = self._blocks.pop(place)
            self._nested.discard(place)
            self.bytes -= block.nbytes
            self._free.append(block)
        del self._free[:-_FREE]

    def _whole_boxes(self, place: int) -> np.ndarray:
        """What may be boxes in a block, which may be larger than what lies in it, by any number of bytes."""
        block = self._blocks[place]
        return block[: block.nbytes // _BOX_BYTES * _BOX_BYTES].view(np.int64)


def contents(rows: np.ndarray, base: int, dtype: np.dtype, rank: int) -> list[np.ndarray]:
    """Copies of the tensors that the boxes in `rows` lead to, which count from the address `base`."""
    made = []
    for place, *sizes in rows.tolist():
        array = np.empty(sizes[:rank], dtype)
        ctypes.memmove(address(array), base + place, array.nbytes)
        made.append(array)
    return made


def _numbers(place: int, count: int) -> np.ndarray:
    """The i64 at an address."""
    return np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(place))
