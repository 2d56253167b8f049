"""Layouts of channel-blocked images: the channel in each lane, and the requirements of grouped convolutions.

A layout is an array of integers (blocks, width of a block): the channel in each lane, or FILLING.
"""

from collections.abc import Sequence

import numpy as np

from stepwell.passes.framework.decisions import NoMatch

FILLING = -1  # the channel of a lane that holds none
MOST_FILLING = 1.25
"""The largest size of a blocked layout, relative to the plain one."""


def in_order(channels: int, used: int, width: int) -> np.ndarray:
    """Blocks of `width` lanes, the first `used` of each filled with channels in order."""
    blocks = -(-channels // used)
    lanes = np.full((blocks, width), FILLING)
    lanes[:, :used] = np.where(np.arange(blocks * used) < channels, np.arange(blocks * used), FILLING).reshape(blocks, used)
    return lanes


def used_lanes(lanes: np.ndarray) -> int | None:
    """The `used` with which `in_order` gives this layout; None if there is none."""
    used, channels = int(np.sum(lanes[0] >= 0)), int(np.sum(lanes >= 0))
    return used if used and np.array_equal(lanes, in_order(channels, used, lanes.shape[1])) else None


def natural(channels: int, group: int, block: int) -> np.ndarray:
    """The layout of channels in groups: blocks of `block` lanes if no block lies in two groups, else one block per group, in half blocks."""
    members = channels // group
    if group == 1 or members % block == 0:
        return in_order(channels, block, block)
    return in_order(channels, members, _halves(members, block))


def _halves(width: int, block: int) -> int:
    """`width` rounded up to a multiple of half a block: vectors of half the width handle the remainder."""
    return width + -width % max(1, block // 2)


def for_readers(channels: int, group: int, block: int, readers: np.ndarray) -> np.ndarray:
    """The layout for the result of a convolution in `group` groups whose channel i is read by group `readers[i]` of another one.

    In the block of each group, the channels for one reader are contiguous, in stretches of equal length for all readers.
    Raises NoMatch if there is no such layout, or if it wastes too much.
    """
    parts = readers.reshape(group, -1)
    served = [np.unique(part) for part in parts]
    if len({len(s) for s in served}) != 1:
        raise NoMatch("its groups are read by different numbers of groups of the next convolution")
    if len(served[0]) == 1:
        raise NoMatch("each of its groups is read by one group of the next convolution, in any order")
    stretch = max(int(np.sum(part == reader)) for part, mine in zip(parts, served, strict=True) for reader in mine)
    if group == 1 and stretch % block == 0 and stretch * len(served[0]) == channels:
        return np.argsort(readers, kind="stable").reshape(-1, block)
    lanes = np.full((group, _halves(stretch * len(served[0]), block)), FILLING)
    for g, (part, mine) in enumerate(zip(parts, served, strict=True)):
        for i, reader in enumerate(mine):
            members = np.flatnonzero(part == reader) + g * len(part)
            lanes[g, i * stretch : i * stretch + len(members)] = members
    size = natural(channels, group, block).size
    if lanes.size > MOST_FILLING * size:
        raise NoMatch(f"in the order of who reads them, channels would take {lanes.size} lanes in the place of {size}")
    return lanes


def groups_of(lanes: np.ndarray, group: int) -> np.ndarray | None:
    """The channels, or FILLING, that `packed.conv` reads for each group of a convolution in `group` groups: (group, blocks, lanes).

    None unless the layout gives every group its own channels, and no others.
    """
    blocks, width = lanes.shape
    channels = int(lanes.max()) + 1
    owner = np.where(lanes >= 0, lanes // (channels // group), FILLING)
    for sets in (n for n in range(1, blocks + 1) if group % n == blocks % n == 0):
        side = group // sets
        first = np.repeat(np.arange(sets) * side, blocks // sets)[:, None]
        for stretch in range(1, width // side + 1):
            place = np.arange(width) // stretch
            if np.all((owner == FILLING) | ((owner == first + place) & (place < side))):
                dealt = lanes[:, : side * stretch].reshape(sets, blocks // sets, side, stretch)
                return dealt.transpose(0, 2, 1, 3).reshape(group, blocks // sets, stretch)
    return None


def stretches(sources: Sequence[np.ndarray], target: np.ndarray) -> tuple[list[int], list[int]]:
    """`starts` and `sizes` of the `packed.relayout` from the layouts `sources`, whose channels are numbered consecutively, to `target`."""
    offsets = np.cumsum([0, *(int(np.sum(s >= 0)) for s in sources)])
    held = np.concatenate([np.where(s >= 0, s + offset, FILLING).ravel() for s, offset in zip(sources, offsets, strict=False)])
    place = np.full(offsets[-1], FILLING)
    place[held[held >= 0]] = np.flatnonzero(held >= 0)
    wanted = np.where(target >= 0, place[target], FILLING).ravel()
    goes_on = np.where(wanted[1:] >= 0, wanted[1:] == wanted[:-1] + 1, wanted[:-1] == FILLING) & ((wanted[1:] >= 0) == (wanted[:-1] >= 0))
    begins = np.concatenate([[0], np.flatnonzero(~goes_on) + 1])
    return [int(wanted[i]) for i in begins], [int(n) for n in np.diff([*begins, wanted.size])]


def take(array: np.ndarray, axis: int, lanes: np.ndarray) -> np.ndarray:
    """`array` with its channel axis `axis` replaced by (blocks, lanes) of channels, and zeros for filling."""
    taken = np.take(array, np.maximum(lanes, 0), axis=axis)
    kept = (lanes >= 0).reshape((1,) * axis + lanes.shape + (1,) * (array.ndim - axis - 1))
    return np.where(kept, taken, np.zeros((), array.dtype))
