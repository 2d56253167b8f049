"""Rules for pooling over windows and over whole dimensions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from stepwell.dialects.core.sizes import holds, same_sizes
from stepwell.dialects.core.types import to_numpy, type_of
from stepwell.dialects.graph.numerics import lowest
from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.blocks.pooling import mean_of_padded, places_of_maxima, raised
from stepwell.frontends.blocks.windows import FreeWindow, Window, image_of, window, with_overhang
from stepwell.frontends.builder import Value, dims_of
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import Group, onnx_rule
from stepwell.frontends.onnx.rounding import rounded_once
from stepwell.frontends.onnx.rules.reductions import plain, reduce_mean


@dataclass(frozen=True)
class PoolingAttributes(Group):
    """The attributes that poolings share."""

    kernel_shape: Sequence[int] = ()
    strides: Sequence[int] = ()
    pads: Sequence[int] = ()
    dilations: Sequence[int] = ()
    auto_pad: str = "NOTSET"
    ceil_mode: int = 0

    def window(self, x: Value) -> Window:
        """The window over the image `x`."""
        return window(x, self.kernel_shape, self.strides, self.pads, self.dilations, self.auto_pad)


@onnx_rule("MaxPool", since=1)
def max_pool(b: ImportBuilder, x: Value, *, attributes: PoolingAttributes, storage_order: int = 0) -> tuple[Value, ...]:
    win = attributes.window(x)
    image, hangs = image_of(b, x, win, float(lowest(to_numpy(type_of(x).dtype)))), bool(attributes.ceil_mode) and not isinstance(win, FreeWindow)
    y = b.max_pool(image, kernel=win.kernel, **win.attributes, ceil_mode=hangs)
    return (y,) if b.node.output_count < 2 else (y, places_of_maxima(b, x, win, dims_of(y), bool(storage_order)))


@onnx_rule("AveragePool", since=1)
def average_pool(b: ImportBuilder, x: Value, *, attributes: PoolingAttributes, count_include_pad: int = 0) -> Value:
    win = attributes.window(x)
    if isinstance(win, FreeWindow):
        return rounded_once(mean_of_padded)(b, x, win, bool(count_include_pad))
    return b.avg_pool(
        x, kernel=win.kernel, **win.attributes, ceil_mode=bool(attributes.ceil_mode), count_include_pad=bool(count_include_pad)
    )


@onnx_rule("LpPool", since=1)
@rounded_once
def lp_pool(b: ImportBuilder, x: Value, *, attributes: PoolingAttributes, p: float = 2) -> Value:
    """The sum of each window is a depthwise convolution with ones."""
    win = attributes.window(x)
    if attributes.ceil_mode:
        win = with_overhang(x, win)
    n, c, *dims = dims_of(x)
    powers = b.with_shape(raised(b, b.abs(x), checked_power(p)), (n * c, 1, *dims))
    ones = b.expand(b.scalar(1, like=x), shape=(1, 1, *win.kernel))
    sums = b.conv(image_of(b, powers, win), ones, **win.attributes, group=1)
    return raised(b, b.with_shape(sums, (n, c, *dims_of(sums)[2:])), 1 / p)


def checked_power(p: float) -> float:
    """The attribute p. Raises ModelError if no norm has it."""
    if p < 1:
        raise ModelError(f"p must be 1 or more, got {p}")
    return float(p)


def spatial_axes(x: Value) -> tuple[int, ...]:
    """The dimensions after batch and channels. Raises ModelError if there are none."""
    if type_of(x).rank < 3:
        raise ModelError(f"its input must have at least one spatial dimension, got {type_of(x)}")
    return tuple(range(2, type_of(x).rank))


@onnx_rule("GlobalMaxPool", since=1)
def global_max_pool(b: ImportBuilder, x: Value) -> Value:
    return plain("reduce_max")(b, x, spatial_axes(x), True)


@onnx_rule("GlobalAveragePool", since=1)
@rounded_once
def global_average_pool(b: ImportBuilder, x: Value) -> Value:
    return reduce_mean(b, x, spatial_axes(x), True)


@onnx_rule("GlobalLpPool", since=1)
@rounded_once
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
    n, c, *dims = dims_of(x)
    spatial = len(dims)
    natural = [(d - 1) * s + k - win.pads[i] - win.pads[spatial + i] for i, (d, s, k) in enumerate(zip(dims, win.strides, win.kernel, strict=True))]
    shape = (n, c, *natural)
    zeros = b.expand(b.scalar(0, like=x), shape=(math.prod(shape),))
    if not same_sizes(dims_of(indices), dims_of(x)):
        raise ModelError(f"the indices must have the shape of the input {type_of(x)}, got {type_of(indices)}")
    flat = [b.with_shape(v, (math.prod(dims_of(v)),)) for v in (indices, x)]
    made = b.with_shape(b.scatter_elements(zeros, *flat, axis=0, reduction="none", from_start=True), shape)
    wanted = shape if output_shape is None else b.known_or_symbolic(output_shape, "the output shape")
    if len(wanted) != len(shape) or not all(holds(w, ">=", s) for w, s in zip(wanted, shape, strict=True)):
        raise ModelError(f"the output shape {list(wanted)} must be at least {list(shape)}")
    high = tuple(w - s for w, s in zip(wanted, shape, strict=True))
    return b.pad(made, low=(0,) * len(shape), high=high, mode="constant", value=0.0) if any(h != 0 for h in high) else made
