"""Rules for convolutions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from stepwell.dialects.core.sizes import Size, holds, is_static, same_sizes, sizes_text, static_sizes
from stepwell.dialects.core.types import size_text, type_of
from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.frontends.blocks.slicing import counting
from stepwell.frontends.blocks.windows import Window, halved, image_of, window
from stepwell.frontends.builder import Value, dims_of, static_dims
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import Group, onnx_rule
from stepwell.frontends.onnx.rounding import rounded_once
from stepwell.frontends.onnx.rules.contractions import centred


@dataclass(frozen=True)
class ConvolutionAttributes(Group):
    """The attributes that convolutions share."""

    kernel_shape: Sequence[int] = ()
    strides: Sequence[int] = ()
    pads: Sequence[int] = ()
    dilations: Sequence[int] = ()
    auto_pad: str = "NOTSET"
    group: int = 1

    def window(self, x: Value, w: Value) -> Window:
        """The window of a convolution of `x` with the filters `w`."""
        kernel = static_dims(w, "the weights")[2:]
        if type_of(w).rank != type_of(x).rank:
            raise ModelError(f"the weights must have the rank of the input {type_of(x)}, got {type_of(w)}")
        if self.kernel_shape and tuple(self.kernel_shape) != kernel:
            raise ModelError(f"kernel_shape {list(self.kernel_shape)} does not match the weights {type_of(w)}")
        return window(x, kernel, self.strides, self.pads, self.dilations, self.auto_pad)


def with_channels(b: ImportBuilder, x: Value, channels: int) -> Value:
    """`x` with the number of channels that the filters have, if its own is dynamic: they are assumed to be equal."""
    shape = dims_of(x)
    if isinstance(shape[1], int) or not holds(shape[1], "==", channels):
        return x
    return b.with_shape(x, (shape[0], channels, *shape[2:]))


def with_bias(b: ImportBuilder, y: Value, bias: Value | None) -> Value:
    """`y` plus one value for each channel."""
    if bias is None:
        return y
    if type_of(bias).rank != 1 or not holds(type_of(bias).shape[0], "==", type_of(y).shape[1]):
        raise ModelError(f"the bias must have one value for each of the {size_text(type_of(y).shape[1])} channels, got {type_of(bias)}")
    return b.add(y, b.reshape(bias, shape=(1, -1) + (1,) * (type_of(y).rank - 2)))


@onnx_rule("Conv", since=1)
@rounded_once
def conv(b: ImportBuilder, x: Value, w: Value, bias: Value | None = None, *, attributes: ConvolutionAttributes) -> Value:
    win, group = attributes.window(x, w), attributes.group
    image = image_of(b, with_channels(b, x, static_dims(w, "the weights")[1] * group), win)
    return with_bias(b, b.conv(image, w, **win.attributes, group=group), bias)


@onnx_rule("ConvInteger", since=10)
def conv_integer(
    b: ImportBuilder,
    x: Value,
    w: Value,
    x_zero_point: Value | None = None,
    w_zero_point: Value | None = None,
    *,
    attributes: ConvolutionAttributes,
) -> Value:
    win, group = attributes.window(x, w), attributes.group
    x = with_channels(b, x, static_dims(w, "the weights")[1] * group)
    image, filters = centred(b, x, x_zero_point, 1), centred(b, w, w_zero_point, 0)  # so that padding equals the zero point
    image = image_of(b, image, win)
    return b.conv(image, filters, **win.attributes, group=group)


@onnx_rule("ConvTranspose", since=1)
@rounded_once
def conv_transpose(
    b: ImportBuilder,
    x: Value,
    w: Value,
    bias: Value | None = None,
    *,
    attributes: ConvolutionAttributes,
    output_padding: Sequence[int] = (),
    output_shape: Sequence[int] = (),
) -> Value:
    same, group = attributes.auto_pad in ("SAME_UPPER", "SAME_LOWER"), attributes.group
    win = (replace(attributes, auto_pad="NOTSET") if same else attributes).window(x, w)
    spatial = len(win.kernel)
    extra = list(output_padding) or [0] * spatial
    if len(extra) != spatial or len(output_shape) not in (0, spatial, spatial + 2):
        raise ModelError(f"output_padding {list(output_padding)} and output_shape {list(output_shape)} must have {spatial} entries")
    edges = win.pads
    if output_shape or same:
        sizes = dims_of(x)[2:] if same and not output_shape else static_dims(x, "an output_shape")[2:]
        whole = [size * stride for size, stride in zip(sizes, win.strides, strict=True)]
        wanted: Sequence[int | Size] = output_shape[-spatial:] if output_shape else whole
        differences = [win.strides[i] * (size - 1) + extra[i] + win.spans[i] - wanted[i] for i, size in enumerate(sizes)]
        totals = static_sizes(differences)  # for SAME they do not depend on the sizes
        if output_shape:
            extra = [e + max(-total, 0) for e, total in zip(extra, totals, strict=True)]  # requested output beyond the windows is zero
        edges = tuple(static_sizes(halved([max(total, 0) for total in totals], more_at_end=attributes.auto_pad == "SAME_UPPER")))
    if any(e < 0 for e in extra):
        raise UnsupportedError(f"output_padding={extra} is not supported; supported: 0 or more")
    x = with_channels(b, x, static_dims(w, "the weights")[0])
    constant = b.constant_value(w)
    if constant is not None and np.isfinite(constant).all():
        y = b.conv_transpose(x, w, **replace(win, pads=edges).attributes, group=group, output_padding=tuple(extra))
    else:
        y = sum_of_windows(b, x, w, replace(win, pads=edges), group, extra)
    return with_bias(b, y, bias)


def sum_of_windows(b: ImportBuilder, x: Value, w: Value, win: Window, group: int, extra: Sequence[int]) -> Value:
    """A transposed convolution that never multiplies padding by the filters, which may be infinite; `extra` zeros are added at the ends."""
    (n, channels, *sizes), (inputs, filters, *_), spatial = dims_of(x), static_dims(w, "the weights"), len(win.kernel)
    if group < 1 or inputs % group or not holds(channels, "==", inputs):
        raise ModelError(f"the weights {type_of(w)} in {group} groups do not fit the channels of the input {type_of(x)}")
    each, taps, places = inputs // group, math.prod(win.kernel), math.prod(sizes)
    left = b.transposed(b.with_shape(w, (group, each, filters * taps)), (0, 2, 1))
    columns = b.matmul(left, b.with_shape(x, (n, group, each, places)))
    # The stride determines the number of windows; output beyond the last one is added separately.
    reached = [min(e, stride - 1) for e, stride in zip(extra, win.strides, strict=True)]
    edges = [win.pads[i] + win.pads[spatial + i] for i in range(spatial)]
    image = [stride * (size - 1) + win.spans[i] + reached[i] - edges[i] for i, (size, stride) in enumerate(zip(sizes, win.strides, strict=True))]
    flat = b.with_shape(columns, (n, group * filters * taps, places))
    y = b.col2im(flat, image=tuple(image), kernel=win.kernel, **win.attributes)
    rest = tuple(e - r for e, r in zip(extra, reached, strict=True))
    return b.pad(y, low=(0,) * (2 + spatial), high=(0, 0, *rest), mode="constant", value=0.0) if any(rest) else y


@onnx_rule("DeformConv", since=19)
@rounded_once
def deform_conv(
    b: ImportBuilder,
    x: Value,
    w: Value,
    offset: Value,
    bias: Value | None = None,
    mask: Value | None = None,
    *,
    kernel_shape: Sequence[int] = (),
    strides: Sequence[int] = (),
    pads: Sequence[int] = (),
    dilations: Sequence[int] = (),
    group: int = 1,
    offset_group: int = 1,
) -> Value:
    """J. Dai et al., "Deformable convolutional networks", 2017; the mask is from their second version: interpolated elements, then a product."""
    win = ConvolutionAttributes(kernel_shape, strides, pads, dilations).window(x, w)
    (n, depth, *spatial), filters, rank = dims_of(x), static_dims(w, "the weights"), len(win.kernel)
    ends = zip(spatial, win.pads[:rank], win.pads[rank:], win.spans, win.strides, strict=True)
    out = [(size + low + high - span) // stride + 1 for size, low, high, span, stride in ends]
    taps, places, channels = math.prod(win.kernel), math.prod(out), filters[1] * group
    if min(group, offset_group) < 1 or channels % offset_group or filters[0] % group or not holds(depth, "==", channels):
        raise ModelError(f"the weights {type_of(w)} in {group} groups, or {offset_group} groups of offsets, do not fit the input {type_of(x)}")
    for what, value, each in (("offsets", offset, rank), ("mask", mask, 1)):
        shape = (n, offset_group * taps * each, *out)
        if value is not None and not same_sizes(dims_of(value), shape):
            raise ModelError(f"the {what} must have the shape {sizes_text(shape)}, got {type_of(value)}")
    images = b.with_shape(x, (n * offset_group, channels // offset_group, *spatial))
    moved = b.convert(b.with_shape(offset, (n * offset_group, taps, rank, places)), "f64" if type_of(x).dtype == "f64" else "f32")
    moved = b.transposed(moved, (0, 1, 3, 2))
    lows = [-low for low in win.pads[:rank]]
    moved = b.add(moved, grid(b, out, lows, win.strides, (1, places, rank), moved))
    moved = b.add(moved, grid(b, win.kernel, [0] * rank, win.dilations, (taps, 1, rank), moved))
    columns = b.interpolate(images, moved, last_first=False)
    if mask is not None:
        columns = b.mul(columns, b.with_shape(mask, (n * offset_group, 1, taps, places)))
    columns = b.with_shape(columns, (n, group, channels // group * taps, places))
    y = b.matmul(b.with_shape(w, (group, filters[0] // group, channels // group * taps)), columns)
    return with_bias(b, b.with_shape(y, (n, filters[0], *out)), bias)


def grid(
    b: ImportBuilder, sizes: Sequence[int | Size], starts: Sequence[int], steps: Sequence[int], shape: Sequence[int | Size], like: Value
) -> Value:
    """The coordinates of a grid with `sizes` points along each dimension, one after the other, in a shape and the element type of `like`."""
    if is_static(sizes):
        along = [np.arange(size) * step + start for size, start, step in zip(static_sizes(sizes), starts, steps, strict=True)]
        return b.scalars(np.stack(np.meshgrid(*along, indexing="ij"), axis=-1).reshape(static_sizes(shape)), like=like)
    rank, axes = len(sizes), []
    for i, (size, start, step) in enumerate(zip(sizes, starts, steps, strict=True)):
        numbers = b.convert(counting(b, size, i, rank + 1), type_of(like).dtype)
        numbers = b.add(b.mul(numbers, b.scalar(step, like=numbers)), b.scalar(start, like=numbers))
        axes.append(b.expand(numbers, shape=(*sizes, 1)))
    return b.with_shape(b.concat(axes, axis=rank), shape)
