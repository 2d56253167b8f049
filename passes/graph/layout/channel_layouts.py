"""Which channel lies in which lane of a channel-blocked image, and what a grouped convolution asks of that.

A layout is an array of integers (blocks, lanes of a block): the channel that each lane holds, or FILLING.
"""

from collections.abc import Sequence

import numpy as np

from stepwell.passes.framework.decisions import NoMatch

FILLING = -1
MOST_FILLING = 1.25  # a layout for its readers may be this much larger than the plain one


def in_order(channels: int, used: int, lanes: int) -> np.ndarray:
    """Blocks of `lanes`, the first `used` of each filled with channels in order."""
    blocks = -(-channels // used)
    slots = np.full((blocks, lanes), FILLING)
    slots[:, :used] = np.where(np.arange(blocks * used) < channels, np.arange(blocks * used), FILLING).reshape(blocks, used)
    return slots


def used_lanes(slots: np.ndarray) -> int | None:
    """The `used` of `in_order` that gives this layout; None if none does."""
    used, channels = int(np.sum(slots[0] >= 0)), int(np.sum(slots >= 0))
    return used if used and np.array_equal(slots, in_order(channels, used, slots.shape[1])) else None


def natural(channels: int, group: int, block: int) -> np.ndarray:
    """The layout of channels in groups: blocks of `block` lanes, if no block lies in two groups; else one block a group, of half blocks."""
    members = channels // group
    if group == 1 or members % block == 0:
        return in_order(channels, block, block)
    return in_order(channels, members, _halves(members, block))


def _halves(lanes: int, block: int) -> int:
    """`lanes` filled up to a multiple of half a block: vectors of half the width take what is left over."""
    return lanes + -lanes % max(1, block // 2)


def for_readers(channels: int, group: int, block: int, readers: np.ndarray) -> np.ndarray | NoMatch:
    """The layout for the result of a convolution in `group` groups whose channel i goes on to group `readers[i]` of another one.

    In the block of each group, the channels for one reader lie side by side, and the stretches for all readers are of one length.
    NoMatch where there is no such layout, or it wastes much.
    """
    parts = readers.reshape(group, -1)
    served = [np.unique(part) for part in parts]
    if len({len(s) for s in served}) != 1:
        return NoMatch("its groups serve different numbers of those of the convolution that reads them")
    if len(served[0]) == 1:
        return NoMatch("each of its groups serves one of the convolution that reads them, in any order")
    stretch = max(int(np.sum(part == reader)) for part, mine in zip(parts, served, strict=True) for reader in mine)
    if group == 1 and stretch % block == 0 and stretch * len(served[0]) == channels:
        return np.argsort(readers, kind="stable").reshape(-1, block)
    slots = np.full((group, _halves(stretch * len(served[0]), block)), FILLING)
    for g, (part, mine) in enumerate(zip(parts, served, strict=True)):
        for i, reader in enumerate(mine):
            members = np.flatnonzero(part == reader) + g * len(part)
            slots[g, i * stretch : i * stretch + len(members)] = members
    size = natural(channels, group, block).size
    if slots.size > MOST_FILLING * size:
        return NoMatch(f"in the order of who reads them, channels would take {slots.size} lanes in the place of {size}")
    return slots


def groups_of(slots: np.ndarray, group: int) -> np.ndarray | None:
    """The channels that each group of a convolution in `group` groups finds where `blocked_conv` reads: (group, blocks, lanes), or FILLING.

    None if the layout does not give every group its own channels, and no others.
    """
    blocks, lanes = slots.shape
    channels = int(slots.max()) + 1
    owner = np.where(slots >= 0, slots // (channels // group), FILLING)
    for sets in (n for n in range(1, blocks + 1) if group % n == blocks % n == 0):
        side = group // sets
        first = np.repeat(np.arange(sets) * side, blocks // sets)[:, None]
        for stretch in range(1, lanes // side + 1):
            place = np.arange(lanes) // stretch
            if np.all((owner == FILLING) | ((owner == first + place) & (place < side))):
                dealt = slots[:, : side * stretch].reshape(sets, blocks // sets, side, stretch)
                return dealt.transpose(0, 2, 1, 3).reshape(group, blocks // sets, stretch)
    return None


def stretches(sources: Sequence[np.ndarray], target: np.ndarray) -> tuple[list[int], list[int]]:
    """`starts` and `sizes` of the `reblock` that takes the layouts `sources`, whose channels count on from each other, to `target`."""
    offsets = np.cumsum([0, *(int(np.sum(s >= 0)) for s in sources)])
    lanes = np.concatenate([np.where(s >= 0, s + offset, FILLING).ravel() for s, offset in zip(sources, offsets, strict=False)])
    place = np.full(offsets[-1], FILLING)
    place[lanes[lanes >= 0]] = np.flatnonzero(lanes >= 0)
    wanted = np.where(target >= 0, place[target], FILLING).ravel()
    goes_on = np.where(wanted[1:] >= 0, wanted[1:] == wanted[:-1] + 1, wanted[:-1] == FILLING) & ((wanted[1:] >= 0) == (wanted[:-1] >= 0))
    begins = np.concatenate([[0], np.flatnonzero(~goes_on) + 1])
    return [int(wanted[i]) for i in begins], [int(n) for n in np.diff([*begins, wanted.size])]


def take(array: np.ndarray, axis: int, slots: np.ndarray) -> np.ndarray:
    """`array` with `axis`, along channels, replaced by (blocks, lanes) of them; zeros where there is filling."""
    taken = np.take(array, np.maximum(slots, 0), axis=axis)
    kept = (slots >= 0).reshape((1,) * axis + slots.shape + (1,) * (array.ndim - axis - 1))
    return np.where(kept, taken, np.zeros((), array.dtype))
