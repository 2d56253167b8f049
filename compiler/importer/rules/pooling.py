"""Rules for pooling over windows and over whole dimensions."""

import math
from collections.abc import Sequence

import numpy as np

from stepwell.dialects.core.types import type_of
from stepwell.dialects.graph.windows import overhang, window_counts
from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.importer.builder import ImportBuilder, Value, static_dims
from stepwell.importer.registry import onnx_rule
from stepwell.importer.rules.convolutions import Window, window
from stepwell.importer.rules.reductions import plain, reduce_mean

MAX_TAPS = 1 << 24  # of a pooling with an output for indices


@onnx_rule("MaxPool", since=1)
def max_pool(
    b: ImportBuilder,
    x: Value,
    *,
    kernel_shape: Sequence[int],
    strides: Sequence[int] = (),
    pads: Sequence[int] = (),
    dilations: Sequence[int] = (),
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    storage_order: int = 0,
) -> tuple[Value, ...]:
    win = window(x, kernel_shape, strides, pads, dilations, auto_pad)
    y = b.max_pool(x, kernel=win.kernel, strides=win.strides, pads=win.pads, dilations=win.dilations, ceil_mode=bool(ceil_mode))
    return (y,) if b.node.output_count < 2 else (y, places_of_maxima(b, x, win, static_dims(y, "a result with indices"), bool(storage_order)))


def places_of_maxima(b: ImportBuilder, x: Value, win: Window, shape: Sequence[int], column_major: bool) -> Value:
    """The index of each window's maximum in flattened `x`: lay out the windows, find the maximum of each, look up its index.

    `column_major` numbers the elements of each image column by column.
    """
    n, c, *dims = static_dims(x, "an input with indices")
    spatial = len(dims)
    if math.prod(shape[2:]) * math.prod(win.kernel) > MAX_TAPS:
        raise UnsupportedError(f"indices of {math.prod(shape[2:])} windows of {win.kernel} are not supported; supported: {MAX_TAPS} taps in all")
    grids = [
        np.arange(o)[:, np.newaxis] * s - p + np.arange(k) * d
        for o, k, s, p, d in zip(shape[2:], win.kernel, win.strides, win.pads, win.dilations, strict=False)
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
    # A tap in the padding reads the window's first tap outside the padding: it wins only if that tap does, whatever the data.
    first = np.where(inside, np.arange(inside.shape[1]), inside.argmax(axis=1)[:, np.newaxis])
    rows, columns = (np.take_along_axis(places, first, axis=1) for places in (rows, columns))
    taps = b.gather(b.with_shape(x, (n, c, math.prod(dims))), b.literal(np.where(inside.any(axis=1, keepdims=True), rows, 0)), axis=2)
    best = b.arg_max(taps, axis=3, keepdims=True, select_last=False)
    numbers = b.expand(b.literal(columns if column_major and spatial > 1 else rows), shape=(n, c, *rows.shape))
    image = b.literal((np.arange(n * c) * math.prod(dims)).reshape(n, c, 1, 1))
    return b.with_shape(b.add(b.gather_elements(numbers, best, axis=3), image), shape)


@onnx_rule("AveragePool", since=1)
def average_pool(
    b: ImportBuilder,
    x: Value,
    *,
    kernel_shape: Sequence[int],
    strides: Sequence[int] = (),
    pads: Sequence[int] = (),
    dilations: Sequence[int] = (),
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
) -> Value:
    win = window(x, kernel_shape, strides, pads, dilations, auto_pad)
    return b.avg_pool(
        x,
        kernel=win.kernel,
        strides=win.strides,
        pads=win.pads,
        dilations=win.dilations,
        ceil_mode=bool(ceil_mode),
        count_include_pad=bool(count_include_pad),
    )


@onnx_rule("LpPool", since=2)
def lp_pool(
    b: ImportBuilder,
    x: Value,
    *,
    kernel_shape: Sequence[int],
    strides: Sequence[int] = (),
    pads: Sequence[int] = (),
    dilations: Sequence[int] = (),
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    p: float = 2,
) -> Value:
    """The sum of each window is a depthwise convolution with ones."""
    win = window(x, kernel_shape, strides, pads, dilations, auto_pad)
    n, c, *dims = static_dims(x, "an input")
    counts = window_counts(dims, win.kernel, strides=win.strides, pads=win.pads, dilations=win.dilations, ceil_mode=bool(ceil_mode))
    ends = overhang(dims, win.kernel, counts, strides=win.strides, pads=win.pads, dilations=win.dilations)
    powers = b.with_shape(raised(b, b.abs(x), checked_power(p)), (n * c, 1, *dims))
    ones = b.expand(b.scalar(1, like=x), shape=(1, 1, *win.kernel))
    sums = b.conv(powers, ones, strides=win.strides, pads=(*win.pads[: len(dims)], *ends), dilations=win.dilations, group=1)
    return raised(b, b.with_shape(sums, (n, c, *static_dims(sums, "a result")[2:])), 1 / p)


def checked_power(p: float) -> float:
    """The attribute p. Raises ModelError if no norm has it."""
    if p < 1:
        raise ModelError(f"p must be 1 or more, got {p}")
    return float(p)


def raised(b: ImportBuilder, x: Value, power: float) -> Value:
    """`x` (not negative) to a power, with cheaper ops for the usual powers."""
    if power == 1.0:
        return x
    if power == 2.0:
        return b.mul(x, x)
    return b.sqrt(x) if power == 0.5 else b.pow(x, b.scalar(power, like=x))


def spatial_axes(x: Value) -> tuple[int, ...]:
    """The dimensions after batch and channels. Raises ModelError if there are none."""
    if type_of(x).rank < 3:
        raise ModelError(f"its input must have at least one spatial dimension, got {type_of(x)}")
    return tuple(range(2, type_of(x).rank))


@onnx_rule("GlobalMaxPool", since=1)
def global_max_pool(b: ImportBuilder, x: Value) -> Value:
    return plain("reduce_max")(b, x, spatial_axes(x), True)


@onnx_rule("GlobalAveragePool", since=1)
def global_average_pool(b: ImportBuilder, x: Value) -> Value:
    return reduce_mean(b, x, spatial_axes(x), True)


@onnx_rule("GlobalLpPool", since=2)
def global_lp_pool(b: ImportBuilder, x: Value, *, p: float = 2) -> Value:
    return raised(b, plain("reduce_sum")(b, raised(b, b.abs(x), checked_power(p)), spatial_axes(x), True), 1 / p)


@onnx_rule("MaxUnpool", since=9)
def max_unpool(
    b: ImportBuilder,
    x: Value,
    indices: Value,
    output_shape: Value | None = None,
    *,
    kernel_shape: Sequence[int],
    strides: Sequence[int] = (),
    pads: Sequence[int] = (),
) -> Value:
    win = window(x, kernel_shape, strides, pads, ())
    n, c, *dims = static_dims(x, "an input")
    spatial = len(dims)
    natural = [(d - 1) * s + k - win.pads[i] - win.pads[spatial + i] for i, (d, s, k) in enumerate(zip(dims, win.strides, win.kernel, strict=True))]
    shape = (n, c, *natural)
    zeros = b.expand(b.scalar(0, like=x), shape=(math.prod(shape),))
    flat = [b.with_shape(v, (math.prod((n, c, *dims)),)) for v in (indices, x)]
    made = b.with_shape(b.scatter_elements(zeros, *flat, axis=0, reduction="none", from_start=True), shape)
    wanted = shape if output_shape is None else b.known_ints(output_shape, "the output shape")
    if len(wanted) != len(shape) or any(w < s for w, s in zip(wanted, shape, strict=True)):
        raise ModelError(f"the output shape {list(wanted)} must be at least {list(shape)}")
    high = tuple(w - s for w, s in zip(wanted, shape, strict=True))
    return b.pad(made, low=(0,) * len(shape), high=high, mode="constant", value=0.0) if any(high) else made
