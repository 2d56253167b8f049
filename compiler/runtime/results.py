"""Memory for large results, which is used again when nobody has them any more: fresh memory takes the system long to clear."""

import math
import sys
from collections.abc import Sequence

import numpy as np

LARGE = 1 << 20
"""Bytes from which on a result's memory is kept."""
KEPT = 2
"""Blocks at most: that of the last result, which the caller may still have when the next one is made, and that of the next one."""
IDLE_CALLS = 64
"""A block is let go when it was not used for so many calls in a row."""


class Results:
    """Makes arrays for results. For one thread at a time."""

    def __init__(self) -> None:
        self._blocks: list[np.ndarray] = []
        self._calls: list[int] = []
        """For each block how many calls have not used it."""

    def begin(self) -> None:
        """Begin a call."""
        self._calls = [count + 1 for count in self._calls]
        kept = [i for i, count in enumerate(self._calls) if count <= IDLE_CALLS]
        self._blocks, self._calls = [self._blocks[i] for i in kept], [self._calls[i] for i in kept]

    def empty(self, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
        """An array of that shape, whose elements are anything. It is the caller's for as long as he has it, or a view of it."""
        size = math.prod(shape) * dtype.itemsize
        if size < LARGE:
            return np.empty(shape, dtype)
        for i in range(len(self._blocks)):
            # Every view of a block refers to it.
            if self._blocks[i].nbytes >= size and _references(self._blocks, i) == _UNUSED:
                self._calls[i] = 0
                return self._blocks[i][:size].view(dtype).reshape(shape)
        if len(self._blocks) == KEPT:
            oldest = max(range(KEPT), key=self._calls.__getitem__)
            del self._blocks[oldest], self._calls[oldest]
        self._blocks.append(np.empty(size, np.uint8))
        self._calls.append(0)
        return self._blocks[-1].view(dtype).reshape(shape)


def _references(blocks: list[np.ndarray], place: int) -> int:
    """How many references there are to a block of a list, with those that counting takes."""
    return sys.getrefcount(blocks[place])


_UNUSED = _references([np.empty(1, np.uint8)], 0)
"""What that is for a block which only the list has."""
