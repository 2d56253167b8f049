"""Sliding windows over images, shared by the rules of convolutions and poolings: default attributes, and padding that follows from sizes."""

from collections.abc import Sequence
from dataclasses import replace

from stepwell.dialects.core.sizes import is_static, static_sizes
from stepwell.dialects.core.types import type_of
from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.blocks.windows import FreeWindow, Window, _end, halved, same_padding
from stepwell.frontends.builder import Value, dims_of


def window(
    x: Value, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int], auto_pad: str = "NOTSET"
) -> Window:
    """A window with ONNX's defaults filled in and `auto_pad` resolved: a FreeWindow if its padding is dynamic.

    Raises ModelError if the attributes do not fit `x`.
    """
    rank = type_of(x).rank
    spatial = rank - 2
    if spatial < 1:
        raise ModelError(f"its input must have a batch, a channel and at least one spatial dimension, got {type_of(x)}")
    ones = (1,) * spatial
    lengths = {"kernel_shape": (kernel, spatial), "strides": (strides, spatial), "dilations": (dilations, spatial), "pads": (pads, 2 * spatial)}
    for name, (values, length) in lengths.items():
        if values and len(values) != length:
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
    ends = [_end(*one) for one in zip(sizes, around[:spatial], around[spatial:], out.spans, out.strides, strict=True)]
    return FreeWindow(out.kernel, out.strides, out.pads, out.dilations, (*around[:spatial], *ends))
