"""The memory of the boxes of a run: allocated when a tensor is boxed, freed after an iteration of a loop if no box refers to it."""

import ctypes
import itertools

import numpy as np

from stepwell.dialects.core.segments import BOX_ELEMENTS
from stepwell.dialects.support.buffers import address, aligned_empty

_BOX_BYTES = ctypes.sizeof(ctypes.c_int64) * BOX_ELEMENTS
_FREE = 4  # the most free blocks that are kept for reuse
_SPARE = 8  # new blocks are larger than their tensors by one part in this many
_FEW = 64  # the most blocks that are traversed after each iteration
_LITTLE = 1 << 20  # bytes that need not be freed immediately


class Boxes:
    """The blocks of memory that boxes of one run refer to, in order of allocation.

    A loop sets a mark in that order before its first iteration, and reports after each iteration the boxes in its carried values. Blocks that were
    allocated since the mark and that no such box refers to, directly or through others, are unreachable. With many blocks, they are only
    searched when there are twice as many, or twice as many bytes, as after the last search, so that searching takes no longer than allocating.
    """

    def __init__(self, most_bytes: int = 1 << 62) -> None:
        """`most_bytes` is the limit of a run, which also bounds its spare memory."""
        self.bytes = 0
        """The bytes of all blocks that boxes refer to."""
        self._most_bytes = most_bytes
        self._due = (0, 0)  # the numbers of blocks and of bytes at which the next search is due
        self._filled: dict[int, int] = {}
        """The bytes that boxes refer to, by address, for blocks with spare capacity."""
        self._blocks: dict[int, np.ndarray] = {}
        """All blocks, by address."""
        self._nested: set[int] = set()
        """The addresses of blocks that may contain boxes."""
        self._free: list[np.ndarray] = []

    def take(self, size: int, *, nested: bool) -> int:
        """The address of new memory of that many bytes; `nested` if it may contain boxes. Raises MemoryError."""
        fitting = [i for i, block in enumerate(self._free) if size <= block.nbytes <= 2 * size + _BOX_BYTES]
        block = self._free.pop(fitting[0]) if fitting else aligned_empty(size + size // _SPARE)
        place = address(block)
        self._blocks[place] = block
        self.bytes += block.nbytes
        if nested:
            self._nested.add(place)
        return place

    def grows(self, place: int, before: int, size: int) -> bool:
        """Whether the tensor of `before` bytes at `place` can grow to `size` bytes there: the memory behind it is unused and large enough.

        Other boxes of it stay valid; the first caller gets the memory behind it.
        """
        block = self._blocks.get(place)
        return block is not None and self._filled.get(place) == before and size <= block.nbytes

    def grow(self, place: int, before: int, size: int, *, nested: bool) -> int:
        """Like `take`, for a tensor that begins with the `before` bytes at `place`: returns that address if the rest can be written behind them.

        Otherwise it allocates twice the size, or less, at most half of what the run may still allocate. Appending thus has constant amortised cost.
        """
        if not self.grows(place, before, size):
            place = self.take(size + max(min(size, (self._most_bytes - self.bytes - size) // 2), 0), nested=nested)
        self._filled[place] = size
        return place

    def keep(self, record: int, base: int) -> None:
        """Free the blocks that nothing refers to any more; boxes are relative to the address `base`.

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
        """The possible boxes in a block, which may be larger than its content by any number of bytes."""
        block = self._blocks[place]
        return block[: block.nbytes // _BOX_BYTES * _BOX_BYTES].view(np.int64)


def contents(rows: np.ndarray, base: int, dtype: np.dtype, rank: int) -> list[np.ndarray]:
    """Copies of the tensors that the boxes in `rows` refer to, relative to the address `base`."""
    made = []
    for place, *sizes in rows.tolist():
        array = np.empty(sizes[:rank], dtype)
        ctypes.memmove(address(array), base + place, array.nbytes)
        made.append(array)
    return made


def _numbers(place: int, count: int) -> np.ndarray:
    """The i64 numbers at an address."""
    return np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(place))
