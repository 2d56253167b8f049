"""Poolings that are composed of several ops, and the index of the maximum of each window, for poolings that return indices."""

import functools
import math
from collections.abc import Sequence

import numpy as np

from stepwell.dialects.core.sizes import Size, is_static, static_sizes
from stepwell.dialects.support.errors import UnsupportedError
from stepwell.frontends.blocks.slicing import counting, size_scalar
from stepwell.frontends.blocks.windows import FreeWindow, Window
from stepwell.frontends.builder import ModelBuilder, Value, dims_of

MAX_TAPS = 1 << 24  # the largest number of window elements that are listed at compile time


def places_of_maxima(b: ModelBuilder, x: Value, win: Window, shape: Sequence[int | Size], column_major: bool) -> Value:
    """The index of each window's maximum in flattened `x`: lay out the windows, find the maximum of each, look up its index.

    `column_major` numbers the elements of each image column by column. A tap in the padding reads the window's first tap outside the padding: it wins
    only if that tap does, whatever the data.
    """
    n, c, *dims = dims_of(x)
    whole, positions, taps = math.prod(dims), math.prod(shape[2:]), math.prod(win.kernel)
    rows, numbers = (listed if is_static([*dims, *shape[2:]]) else computed)(b, dims, win, shape[2:], column_major and len(dims) > 1)
    windows = b.gather(b.with_shape(x, (n, c, whole)), rows, axis=2)
    best = b.arg_max(windows, axis=3, keepdims=True, select_last=False)
    numbers = b.expand(numbers, shape=(n, c, positions, taps))
    if is_static([n, c, whole]):
        images, channels, elements = static_sizes([n, c, whole])
        image = b.literal((np.arange(images * channels) * elements).reshape(images, channels, 1, 1))
    else:
        planes = counting(b, n * c)
        image = b.with_shape(b.mul(planes, size_scalar(b, whole, planes)), (n, c, 1, 1))
    return b.with_shape(b.add(b.gather_elements(numbers, best, axis=3), image), shape)


def listed(b: ModelBuilder, sizes: Sequence[int | Size], win: Window, positions: Sequence[int | Size], column_major: bool) -> tuple[Value, Value]:
    """Tables (positions, taps): the element of a flattened image at each tap of each window, and its number in the requested order."""
    dims, counts = static_sizes(sizes), static_sizes(positions)
    if math.prod(counts) * math.prod(win.kernel) > MAX_TAPS:
        raise UnsupportedError(f"indices of {math.prod(counts)} windows of {win.kernel} are not supported; supported: {MAX_TAPS} taps in all")
    grids = [
        np.arange(o)[:, np.newaxis] * s - p + np.arange(k) * d
        for o, k, s, p, d in zip(counts, win.kernel, win.strides, win.pads, win.dilations, strict=False)
    ]
    inside = np.ones((1, 1), bool)
    rows, columns = np.zeros((1, 1), np.int64), np.zeros((1, 1), np.int64)
    for axis, grid in enumerate(grids):  # combine (positions, taps) of the dimensions so far with those of the next
        rows, columns, inside = (
            np.reshape(
                op(before[:, np.newaxis, :, np.newaxis], here[np.newaxis, :, np.newaxis, :]),
                (len(before) * len(grid), before.shape[1] * grid.shape[1]),
            )
            for op, before, here in (
                (np.add, rows, grid * math.prod(dims[axis + 1 :])),
                (np.add, columns, grid * math.prod(dims[:axis])),
                (np.logical_and, inside, (grid >= 0) & (grid < dims[axis])),
            )
        )
    first = np.where(inside, np.arange(inside.shape[1]), inside.argmax(axis=1)[:, np.newaxis])
    rows, columns = (np.take_along_axis(places, first, axis=1) for places in (rows, columns))
    return b.literal(np.where(inside.any(axis=1, keepdims=True), rows, 0)), b.literal(columns if column_major else rows)


def computed(b: ModelBuilder, dims: Sequence[int | Size], win: Window, counts: Sequence[int | Size], column_major: bool) -> tuple[Value, Value]:
    """Like `listed`, for dynamic sizes."""
    spatial = len(dims)
    pads = win.around if isinstance(win, FreeWindow) else win.pads
    axes = []
    for i in range(spatial):
        starts = counting(b, counts[i], i, 2 * spatial)

        def number(size: int | Size, like: Value = starts) -> Value:
            return size_scalar(b, size, like)

        starts = b.sub(b.mul(starts, number(win.strides[i])), number(pads[i]))
        taps = np.arange(win.kernel[i]) * win.dilations[i]
        grid = b.add(starts, b.literal(taps.reshape([-1 if d == spatial + i else 1 for d in range(2 * spatial)])))
        inside = b.and_(b.greater_equal(grid, number(0)), b.less(grid, number(dims[i])))
        skipped = b.div(b.maximum(b.sub(number(win.dilations[i] - 1), starts), number(0)), number(win.dilations[i]))  # taps before the image
        axes.append((grid, inside, b.add(starts, b.mul(skipped, number(win.dilations[i])))))
    all_inside = functools.reduce(b.and_, [inside for _, inside, _ in axes])
    reached = functools.reduce(b.and_, [b.less(first, size_scalar(b, size, first)) for (_, _, first), size in zip(axes, dims, strict=True)])

    def flat(sizes: Sequence[int | Size]) -> Value:
        def total(places: Sequence[Value]) -> Value:
            return functools.reduce(b.add, [b.mul(p, size_scalar(b, size, p)) for p, size in zip(places, sizes, strict=True)])

        firsts = total([first for _, _, first in axes])
        chosen = b.select(all_inside, total([grid for grid, _, _ in axes]), b.select(reached, firsts, b.scalar(0, like=firsts)))
        return b.with_shape(chosen, (math.prod(counts), math.prod(win.kernel)))

    rows = flat([math.prod(dims[i + 1 :]) for i in range(spatial)])
    return rows, flat([math.prod(dims[:i]) for i in range(spatial)]) if column_major else rows


def mean_of_padded(b: ModelBuilder, x: Value, win: FreeWindow, with_padding: bool) -> Value:
    """The means of windows over padded `x`: of all their elements, or only of those inside.

    The latter is the former divided, for each dimension, by the fraction of a window that lies inside.
    """
    y = mean_with_padding(b, x, win)
    if with_padding:
        return y
    for axis in range(len(win.kernel)):
        own = win.along(axis)
        if any(n != 0 for n in own.around):
            ones = b.expand(b.scalar(1, like=x), shape=[1 if i != 2 + axis else size for i, size in enumerate(dims_of(x))])
            y = b.div(y, mean_with_padding(b, ones, own))
    return y


def mean_with_padding(b: ModelBuilder, x: Value, win: FreeWindow) -> Value:
    """The means of windows over `x` and the zeros around it."""
    image = win.filled(b, x, 0.0)
    return b.avg_pool(
        image, kernel=win.kernel, strides=win.strides, pads=win.pads, dilations=win.dilations, ceil_mode=False, count_include_pad=True
    )


def raised(b: ModelBuilder, x: Value, power: float) -> Value:
    """`x` (nonnegative) to a power, with cheaper ops for the usual powers."""
    if power == 1.0:
        return x
    if power == 2.0:
        return b.mul(x, x)
    return b.sqrt(x) if power == 0.5 else b.pow(x, b.scalar(power, like=x))
