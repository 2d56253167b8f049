"""Sliding windows over images: default attributes, and padding that follows from sizes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from stepwell.dialects.core.sizes import Size, is_static, maximum, static_sizes
from stepwell.dialects.core.types import type_of
from stepwell.dialects.graph import windows
from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.builder import ModelBuilder, Value, dims_of


@dataclass(frozen=True)
class Window:
    """A sliding window over the spatial dimensions of an image, with all attributes filled in: `pads` lists all begins, then all ends."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]

    @property
    def attributes(self) -> windows.Window:
        """The attributes of an op with such windows, beside its kernel."""
        return {"strides": self.strides, "pads": self.pads, "dilations": self.dilations}

    @property
    def spans(self) -> tuple[int, ...]:
        """The extent of the window along each dimension, dilation included."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))


@dataclass(frozen=True)
class FreeWindow(Window):
    """A window whose padding depends on dynamic sizes: it slides over the result of `filled`, and `pads` are 0."""

    around: tuple[int | Size, ...]
    """The actual pads. The ends may exceed the reach of the last window, but no further window fits in there."""

    def filled(self, b: ModelBuilder, x: Value, value: float) -> Value:
        """`x` with `value` around its spatial dimensions."""
        spatial = len(self.kernel)
        low, high = (0, 0, *self.around[:spatial]), (0, 0, *self.around[spatial:])
        return b.pad(x, low=low, high=high, mode="constant", value=value)

    def along(self, axis: int) -> "FreeWindow":
        """The same along one spatial dimension, with one element along the others."""
        spatial = len(self.kernel)

        def own(numbers: Sequence[Any], otherwise: int) -> tuple[Any, ...]:
            return tuple(n if i % spatial == axis else otherwise for i, n in enumerate(numbers))

        return FreeWindow(own(self.kernel, 1), own(self.strides, 1), self.pads, own(self.dilations, 1), own(self.around, 0))


def window(
    x: Value, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int], auto_pad: str = "NOTSET"
) -> Window:
    """A window with the usual defaults filled in and `auto_pad` resolved: a FreeWindow if its padding is dynamic.

    Raises ModelError if the attributes do not fit `x`.
    """
    rank = type_of(x).rank
    spatial = rank - 2
    if spatial < 1:
        raise ModelError(f"its input must have a batch, a channel and at least one spatial dimension, got {type_of(x)}")
    ones = (1,) * spatial
    lengths = {"kernel_shape": (kernel, spatial), "strides": (strides, spatial), "dilations": (dilations, spatial), "pads": (pads, 2 * spatial)}
    for name, (values, length) in lengths.items():
        if len(values) != length and (values or name == "kernel_shape"):
            raise ModelError(f"{name} must have {length} entries for an input of rank {rank}, got {list(values)}")
    if min(*strides, *dilations, *kernel, 1) < 1:
        raise ModelError(f"kernel_shape {list(kernel)}, strides {list(strides)} and dilations {list(dilations)} must be 1 or more")
    out = Window(tuple(kernel), tuple(strides) or ones, tuple(pads) or (0,) * 2 * spatial, tuple(dilations) or ones)
    if auto_pad in ("NOTSET", ""):
        return out
    out = replace(out, pads=(0,) * 2 * spatial)
    if auto_pad == "VALID":
        return out
    if auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        raise ModelError(f"auto_pad must be NOTSET, VALID, SAME_UPPER or SAME_LOWER, got {auto_pad!r}")
    sizes = dims_of(x)[2:]
    totals = [same_padding(size, span, stride) for size, span, stride in zip(sizes, out.spans, out.strides, strict=True)]
    around = halved(totals, more_at_end=auto_pad == "SAME_UPPER")
    if is_static(around):
        return replace(out, pads=tuple(static_sizes(around)))
    ends = [end_padding(*one) for one in zip(sizes, around[:spatial], around[spatial:], out.spans, out.strides, strict=True)]
    return FreeWindow(out.kernel, out.strides, out.pads, out.dilations, (*around[:spatial], *ends))


def same_padding(size: int | Size, span: int, stride: int) -> int | Size:
    """The total padding of a dimension, so that there are as many windows as full or partial strides."""
    if span == 1:
        return 0  # whatever the size: the last window begins inside
    covered = (-(-size // stride) - 1) * stride + span
    return covered - size if span >= stride else maximum(covered - size, 0)


def end_padding(size: int | Size, low: int | Size, high: int | Size, span: int, stride: int) -> int | Size:
    """The padding at the end of a dimension, in a form whose symbols cancel out when windows are counted.

    Windows with gaps may not reach the end of the dimension. Then padding is added to make the total a whole number of strides, in which no further
    window fits.
    """
    return high if span >= stride or is_static([high]) else -(-size // stride) * stride - size - low


def halved(totals: Sequence[int | Size], *, more_at_end: bool) -> tuple[int | Size, ...]:
    """The total padding of each dimension, split between begin and end; `more_at_end` says where an odd element goes."""
    small = [t // 2 for t in totals]
    large = [t - s for t, s in zip(totals, small, strict=True)]
    return tuple(small + large if more_at_end else large + small)


def image_of(b: ModelBuilder, x: Value, win: Window, value: float = 0.0) -> Value:
    """The image that a window slides over: `x`, with `value` around it if the window is a FreeWindow."""
    return win.filled(b, x, value) if isinstance(win, FreeWindow) else x


def with_overhang(x: Value, win: Window) -> Window:
    """The window with additional padding at the ends for the last windows of `ceil_mode`."""
    if isinstance(win, FreeWindow):
        return win  # there are as many windows as full and partial strides already
    spatial, dims = len(win.kernel), dims_of(x)[2:]
    counts = windows.window_sizes(dims, win.kernel, **win.attributes, ceil_mode=True)
    ends = []
    for i, (size, count) in enumerate(zip(dims, counts, strict=True)):
        assert count is not None
        ends.append(maximum(win.pads[spatial + i], (count - 1) * win.strides[i] + win.spans[i] - size - win.pads[i]))
    pads = (*win.pads[:spatial], *ends)
    if is_static(pads):
        return replace(win, pads=tuple(static_sizes(pads)))
    return FreeWindow(win.kernel, win.strides, (0,) * 2 * spatial, win.dilations, pads)
