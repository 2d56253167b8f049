"""Memory for large results, which is reused after the caller has dropped them: the system takes long to clear fresh memory."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from stepwell.dialects.support.buffers import address

LARGE = 1 << 20
"""The smallest result in bytes whose memory is kept."""
KEPT = 2
"""The most blocks: that of the last result, which the caller may still hold when the next one is made, and that of the next one."""
IDLE_CALLS = 64
"""A block is freed after this many consecutive calls without use."""


class _Block:
    """Memory for one result at a time."""

    def __init__(self, size: int) -> None:
        self.memory = np.empty(size, np.uint8)
        self.is_lent = False
        self.idle_calls = 0

    def lend(self, size: int) -> np.ndarray:
        """An array of its first bytes."""
        self.is_lent, self.idle_calls = True, 0
        return np.asarray(_Loan(self, size))


class _Loan:
    """The owner of arrays in a lent block, and of all views of them: it is freed with the last of these, in any thread, and then the block is free.

    So nothing has to read reference counts, which are unreliable in a Python without the GIL.
    """

    def __init__(self, block: _Block, size: int) -> None:
        self.block = block
        self.__array_interface__: dict[str, Any] = {
            "version": 3, "shape": (size,), "typestr": "|u1", "data": (address(block.memory), False),
        }  # fmt: skip

    def __del__(self) -> None:
        self.block.is_lent = False


class Results:
    """Makes arrays for results. Used by one thread at a time; the arrays may be dropped in any."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []

    def begin(self) -> None:
        """Begin a call."""
        for block in self._blocks:
            block.idle_calls += 1
        self._blocks = [block for block in self._blocks if block.idle_calls <= IDLE_CALLS]

    def empty(self, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
        """An array of that shape with undefined elements. It belongs to the caller as long as it, or a view of it, is referenced."""
        size = math.prod(shape) * dtype.itemsize
        if size < LARGE:
            return np.empty(shape, dtype)
        block = next((block for block in self._blocks if block.memory.nbytes >= size and not block.is_lent), None)
        if block is None:
            if len(self._blocks) == KEPT:
                self._blocks.remove(max(self._blocks, key=lambda kept: kept.idle_calls))
            block = _Block(size)
            self._blocks.append(block)
        return block.lend(size).view(dtype).reshape(shape)
