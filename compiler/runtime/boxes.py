"""The memory of the boxes of a run: taken when a tensor is boxed, let go when a round of a loop has ended and no box leads to it."""

import ctypes
import itertools

import numpy as np

from stepwell.dialects.core.segments import BOX_ELEMENTS
from stepwell.dialects.support.buffers import address, aligned_empty

_BOX_BYTES = ctypes.sizeof(ctypes.c_int64) * BOX_ELEMENTS
_FREE = 4  # blocks that are kept for tensors of about their size
_SPARE = 8  # a block is taken for a tensor of at least this part of its size, and made larger by one part in so many
_FEW = 64  # blocks that can be looked through after each round
_LITTLE = 1 << 20  # bytes that need not be let go at once


class Boxes:
    """The blocks of memory that boxes of one run lead to, in the order in which they were taken.

    A loop puts a mark into that order before its first round, and says after each round which boxes its carried values hold. What was taken
    since the mark and what none of them leads to, not by way of others either, can be reached by nothing. Of many blocks that is found out when there
    are twice as many, or twice as many bytes, as the last time, so that it takes no longer than to make them.
    """

    def __init__(self, most_bytes: int = 1 << 62) -> None:
        """`most_bytes` are what a run may hold, which says how much of it may be spare."""
        self.bytes = 0
        """Of all blocks that boxes lead to."""
        self._most_bytes = most_bytes
        self._due = (0, 0)  # how many blocks, or of how many bytes, are looked through again
        self._filled: dict[int, int] = {}
        """Of blocks that were taken with room for more, the bytes that boxes lead to, by their addresses."""
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

    def grows(self, place: int, before: int, size: int) -> bool:
        """Whether the tensor of `before` bytes at `place` can become one of `size` bytes there: nothing lies behind it, and there is room.

        It stays what it is, for boxes that lead to it; who asks first has what is behind it.
        """
        block = self._blocks.get(place)
        return block is not None and self._filled.get(place) == before and size <= block.nbytes

    def grow(self, place: int, before: int, size: int, *, nested: bool) -> int:
        """As `take`, for a tensor that begins with those `before` bytes at `place`: that is the address, if the rest can be written behind them.

        Otherwise there is as much room again, or half of what a run may have, so that to append costs the same each time, on average.
        """
        if not self.grows(place, before, size):
            place = self.take(size + max(min(size, (self._most_bytes - self.bytes - size) // 2), 0), nested=nested)
        self._filled[place] = size
        return place

    def keep(self, record: int, base: int) -> None:
        """Let go of what nothing leads to any more; boxes count from the address `base`.

        The record is a count and a mark, then for each carried value its address and its number of boxes (`passes/bufferize/runtime.py`).
        """
        count, mark = _numbers(record, 2)
        if mark < 0:
            _numbers(record, 2)[1] = len(self._blocks)
            return
        count_since = len(self._blocks) - mark
        if count_since <= 0 or (count_since > _FEW and len(self._blocks) < self._due[0] and self.bytes < self._due[1]):
            return
        rest = set(itertools.islice(reversed(self._blocks), count_since))
        waiting = [_numbers(place, rows * BOX_ELEMENTS) for place, rows in _numbers(record, 2 + 2 * count)[2:].reshape(-1, 2).tolist()]
        while waiting and rest:
            found = rest.intersection((waiting.pop().reshape(-1, BOX_ELEMENTS)[:, 0] + base).tolist())
            rest -= found
            waiting += [self._whole_boxes(place) for place in found & self._nested]
        for place in rest:
            block = self._blocks.pop(place)
            self._nested.discard(place)
            self._filled.pop(place, None)
            self.bytes -= block.nbytes
            self._free.append(block)
        del self._free[:-_FREE]
        allowed = min(max(self.bytes, _LITTLE), (self._most_bytes - self.bytes) // 4)
        self._due = 2 * len(self._blocks), self.bytes + allowed

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
