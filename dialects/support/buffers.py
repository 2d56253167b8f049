"""Aligned memory, and addresses of arrays."""

import contextlib
import ctypes
import mmap

import numpy as np

ALIGNMENT = 64
"""The alignment in bytes: a cache line, and the widest vector."""
_HUGE_PAGE = 1 << 21


def aligned_empty(size: int) -> np.ndarray:
    """An uninitialised array of `size` bytes that starts at a multiple of `ALIGNMENT`. A large one is on huge pages if the system has them.

    Small pages are scattered in physical memory, so the share of the cache that a buffer can use would be a matter of luck.
    """
    if size < _HUGE_PAGE // 2 or not hasattr(mmap, "MADV_HUGEPAGE"):
        raw = np.empty(size + ALIGNMENT, np.uint8)
        return raw[-address(raw) % ALIGNMENT :][:size]
    whole = -(-size // _HUGE_PAGE) * _HUGE_PAGE
    block = mmap.mmap(-1, whole + _HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # untouched, the margin takes no memory
    raw = np.frombuffer(block, np.uint8)
    start = -address(raw) % _HUGE_PAGE
    with contextlib.suppress(OSError):  # a kernel without them
        block.madvise(mmap.MADV_HUGEPAGE, start, whole)
    return raw[start : start + size]


def address(array: np.ndarray) -> int:
    """The address of an array's first element."""
    # An array's C struct has it first, after the common object header: reading it takes a tenth of the time of using the interface.
    if not isinstance(array, np.ndarray):
        raise TypeError(f"an array is expected, got {type(array).__name__}, which owns no memory that stays")
    return _pointer_at(id(array) + _HEAD).value or 0 if _IS_FIRST else _declared_address(array)


def _declared_address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


_HEAD = object.__basicsize__
_pointer_at = ctypes.c_void_p.from_address
_PROBE = np.zeros(4, np.uint8)[1:]
_IS_FIRST = _pointer_at(id(_PROBE) + _HEAD).value == _declared_address(_PROBE)
