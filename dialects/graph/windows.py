"""Sliding-window arithmetic shared by convolutions and poolings: output sizes, attribute checks, window views."""

from collections.abc import Sequence
from typing import TypedDict, Unpack

import numpy as np

from stepwell.dialects.core.sizes import Dim, holds, minimum
from stepwell.dialects.graph.inference import expect_at_least, expect_length
from stepwell.dialects.support.errors import InferenceError


class Steps(TypedDict):
    """The attributes of windows without padding, one number for each spatial dimension."""

    strides: Sequence[int]
    dilations: Sequence[int]


class Window(Steps):
    """The attributes of windows over an image with `pads` around it: the padding before each spatial dimension, then after each."""

    pads: Sequence[int]


def unpadded(steps: Steps) -> Window:
    """The attributes of the same windows over an image without padding."""
    return {**steps, "pads": [0] * 2 * len(steps["strides"])}


def steps_of(window: Window) -> Steps:
    """The attributes without the padding."""
    return {"strides": window["strides"], "dilations": window["dilations"]}


def expect_window(spatial: int, **window: Unpack[Window]) -> None:
    """Check that the attributes of a window over so many spatial dimensions are complete and in range."""
    expect_length("strides", window["strides"], spatial, "one for each spatial dimension")
    expect_length("pads", window["pads"], 2 * spatial, "the begin of each spatial dimension, then the end of each")
    expect_length("dilations", window["dilations"], spatial, "one for each spatial dimension")
    expect_at_least("strides", window["strides"], 1)
    expect_at_least("pads", window["pads"], 0)
    expect_at_least("dilations", window["dilations"], 1)


def window_sizes(sizes: Sequence[Dim], kernel: Sequence[Dim], *, ceil_mode: bool = False, **window: Unpack[Window]) -> tuple[Dim, ...]:
    """The number of window positions along each spatial dimension; None if the dimension is unknown.

    With `ceil_mode`, the last window may extend past the end, if it begins inside the input or the padding before it. A window larger than its
    dimension has no position; if it is larger by more than a stride, ONNX's formula gives no size, and this is an error.
    """
    strides, pads, dilations = window["strides"], window["pads"], window["dilations"]
    out: list[Dim] = []
    for i, (size, taps) in enumerate(zip(sizes, kernel, strict=True)):
        if size is None or taps is None:
            out.append(None)
            continue
        low, high = pads[i], pads[len(sizes) + i]
        span = dilations[i] * (taps - 1) + 1
        room = size + low + high - span
        count = room // strides[i] + 1
        if ceil_mode and not isinstance(room, int):
            count = minimum(-(-room // strides[i]) + 1, -(-(size + low) // strides[i]))
        elif ceil_mode and room % strides[i] and count * strides[i] < size + low:
            count += 1
        if not holds(count, ">=", 0):
            raise InferenceError(f"a window of {span} does not fit into spatial dimension {i}, which has {size} and padding {low} and {high}")
        out.append(count)
    return tuple(out)


def window_counts(sizes: Sequence[int], kernel: Sequence[int], *, ceil_mode: bool = False, **window: Unpack[Window]) -> tuple[int, ...]:
    """Like `window_sizes`, for sizes that are all known."""
    counts = window_sizes(sizes, kernel, ceil_mode=ceil_mode, **window)
    return tuple(c for c in counts if isinstance(c, int))


def always_meets_image(sizes: Sequence[Dim], kernel: Sequence[int], counts: Sequence[Dim], **window: Unpack[Window]) -> bool:
    """Whether each window over an image with at least one element always covers an image element, not only padding."""
    strides, pads, dilations = window["strides"], window["pads"], window["dilations"]

    def meets(i: int, start: int, size: int) -> bool:
        return any(0 <= start + tap * dilations[i] < size for tap in range(kernel[i]))

    for i, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        low, high = pads[i], pads[len(sizes) + i]
        if isinstance(size, int) and isinstance(count, int):
            starts = (position * strides[i] - low for position in range(count))
            if not all(0 <= start < size or meets(i, start, size) for start in starts):
                return False
        # windows with dilation may skip all elements of an image of any size
        elif max(low, high) >= kernel[i] or (dilations[i] > 1 and max(low, high) > 0):
            return False
    return True


def windows(x: np.ndarray, kernel: Sequence[int], counts: Sequence[int], **steps: Unpack[Steps]) -> np.ndarray:
    """A view of padded `x` (N, C, spatial…) as (N, C, positions…, taps…)."""
    positions, taps = ((n * size for n, size in zip(steps[name], x.strides[2:], strict=True)) for name in ("strides", "dilations"))
    return np.lib.stride_tricks.as_strided(x, (*x.shape[:2], *counts, *kernel), (*x.strides[:2], *positions, *taps), writeable=False)


def padded(x: np.ndarray, low: Sequence[int], high: Sequence[int], value: object) -> np.ndarray:
    """`x` (N, C, spatial…) padded with `value` around its spatial dimensions."""
    out = np.full((*x.shape[:2], *(a + s + b for a, s, b in zip(low, x.shape[2:], high, strict=True))), value, dtype=x.dtype)
    out[(slice(None), slice(None), *(slice(a, a + s) for a, s in zip(low, x.shape[2:], strict=True)))] = x
    return out


def overhang(sizes: Sequence[int], kernel: Sequence[int], counts: Sequence[int], **window: Unpack[Window]) -> tuple[int, ...]:
    """The padding after each spatial dimension that the windows reach, at least `pads`."""
    strides, pads, dilations, spatial = window["strides"], window["pads"], window["dilations"], len(sizes)
    return tuple(
        max(pads[spatial + i], (counts[i] - 1) * strides[i] + dilations[i] * (kernel[i] - 1) + 1 - sizes[i] - pads[i]) for i in range(spatial)
    )


def unblocked(x: np.ndarray) -> np.ndarray:
    """An image (N, C / b, spatial…, b) as (N, C, spatial…)."""
    moved = np.moveaxis(x, -1, 2)
    return moved.reshape(x.shape[0], x.shape[1] * x.shape[-1], *x.shape[2:-1])


def blocked(x: np.ndarray, block: int) -> np.ndarray:
    """An image (N, C, spatial…) as (N, C / block, spatial…, block); C is a multiple of the block."""
    return np.moveaxis(x.reshape(x.shape[0], x.shape[1] // max(block, 1), block, *x.shape[2:]), 2, -1)
