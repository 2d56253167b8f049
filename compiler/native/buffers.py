"""Memory for compiled code: aligned buffers, and the arena that all weights lie in."""

from collections.abc import Mapping

import numpy as np

from stepwell.dialects.errors import ModelError

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector."""


def aligned_empty(size: int) -> np.ndarray:
    """An uninitialised array of `size` bytes that starts at a multiple of `ALIGNMENT`."""
    raw = np.empty(size + ALIGNMENT, np.uint8)
    return raw[-address(raw) % ALIGNMENT :][:size]


def address(array: np.ndarray) -> int:
    """The address of an array's first element."""
    return int(array.__array_interface__["data"][0])


def pack_arena(weights: Mapping[str, np.ndarray], offsets: Mapping[str, int], size: int) -> np.ndarray:
    """One buffer of `size` bytes with each array of `offsets` at its offset, dense and row-major. Read-only.

    Raises ModelError for a weight that is not there or does not fit.
    """
    arena = aligned_empty(size)
    arena[:] = 0  # what lies between the weights should not differ from run to run
    for name, offset in offsets.items():
        if name not in weights:
            raise ModelError(f"weight '{name}': expected in the weight table, which does not have it")
        array = np.ascontiguousarray(weights[name])
        if offset < 0 or offset + array.nbytes > size:
            raise ModelError(f"weight '{name}': {array.nbytes} bytes at offset {offset} do not fit into an arena of {size} bytes")
        arena[offset : offset + array.nbytes] = array.reshape(-1).view(np.uint8)
    arena.flags.writeable = False
    return arena
