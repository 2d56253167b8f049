"""Memory for compiled code: the arena of all weights, and pages that are returned to the system."""

import mmap
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from stepwell.dialects.support.buffers import address, aligned_empty
from stepwell.dialects.support.errors import ModelError

if TYPE_CHECKING:
    from stepwell.dialects.core.weights import WeightTable  # not loaded on a start from the cache

_LARGE = 1 << 20  # bytes: smaller arrays fit a cache anyway
_BLOCK = (1024, 32)  # elements along the dimension that is contiguous, and along the one that will be


def can_give_back(array: np.ndarray) -> bool:
    """Whether pages of an array can be returned to the system while the rest stays: only for large arrays made by `aligned_empty`."""
    return hasattr(mmap, "MADV_DONTNEED") and _mapped(array) is not None


def give_back(array: np.ndarray) -> int:
    """Return the whole pages of an unused array to the system; returns their bytes, 0 if the system takes none."""
    block = _mapped(array)
    if block is None or not hasattr(mmap, "MADV_DONTNEED"):
        return 0
    begin = address(array) - address(np.frombuffer(block, np.uint8))
    first, end = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE, (begin + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if first >= end:
        return 0
    try:
        block.madvise(mmap.MADV_DONTNEED, first, end - first)
    except OSError:  # for example locked pages
        return 0
    return end - first


def _mapped(array: np.ndarray) -> mmap.mmap | None:
    """The mapping that contains the array."""
    base: Any = array
    while isinstance(base, (np.ndarray, memoryview)):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    return base if isinstance(base, mmap.mmap) else None


def dense(array: np.ndarray) -> np.ndarray:
    """The array if it is contiguous and row-major, otherwise such a copy. A transposed matrix is copied in blocks that fit the caches."""
    if array.flags.c_contiguous or array.nbytes < _LARGE:
        return np.ascontiguousarray(array)
    out = np.empty(array.shape, array.dtype)
    fastest = array.strides.index(min(array.strides))
    if fastest == array.ndim - 1:
        out[...] = array
        return out
    part: list[slice] = [slice(None)] * array.ndim
    for start in range(0, array.shape[fastest], _BLOCK[0]):
        for last in range(0, array.shape[-1], _BLOCK[1]):
            part[fastest], part[-1] = slice(start, start + _BLOCK[0]), slice(last, last + _BLOCK[1])
            out[tuple(part)] = array[tuple(part)]
    return out


def arena_places(weights: "WeightTable", offsets: Mapping[str, int]) -> list[tuple[int, int]]:
    """Each offset at which a weight begins in the arena, in ascending order, with the bytes of the weight."""
    places: dict[int, int] = {}
    for name, offset in offsets.items():
        places[offset] = max(places.get(offset, 0), weights.entry(name).nbytes if name in weights else 0)
    return sorted(places.items())


def pack_arena(weights: "WeightTable", offsets: Mapping[str, int], size: int) -> np.ndarray:
    """One buffer of `size` bytes with each array of `offsets` at its offset, dense and row-major. Read-only.

    Raises ModelError for a weight that is missing or has the wrong size.
    """
    arena = aligned_empty(size)
    end = 0
    for chunk in arena_chunks(weights, offsets, size):
        arena[end : end + len(chunk)] = chunk
        end += len(chunk)
    arena.flags.writeable = False
    return arena


def arena_chunks(weights: "WeightTable", offsets: Mapping[str, int], size: int) -> Iterator[np.ndarray]:
    """The content of the arena from its first byte to its last, as arrays of bytes: weights, and zeros between them. Raises like `pack_arena`.

    Deferred weights are computed here, one at a time, and not kept.
    """
    missing = [name for name in offsets if name not in weights]
    if missing:
        raise ModelError(f"weight '{missing[0]}': expected in the weight table, which does not have it")
    end = 0
    placed = sorted((offset, weights.entry(name).nbytes, name) for name, offset in offsets.items())  # empty ones come first at an offset
    for offset, nbytes, name in placed:
        if offset < 0 or offset + nbytes > size:
            raise ModelError(f"weight '{name}': {nbytes} bytes at offset {offset} do not fit into an arena of {size} bytes")
        if offset < end:
            raise ModelError(f"weight '{name}' at offset {offset} overlaps the one before it, which ends at {end}")
        if offset > end:
            yield np.zeros(offset - end, np.uint8)
        for part in weights.parts(name):
            if part.nbytes:
                yield dense(part).reshape(-1).view(np.uint8)
        end = offset + nbytes
    if size > end:
        yield np.zeros(size - end, np.uint8)
