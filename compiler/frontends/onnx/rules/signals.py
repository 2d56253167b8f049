"""Rules for Fourier transforms, as matrix products with a table of cosines and sines."""

import numpy as np

from stepwell.dialects.core.sizes import holds
from stepwell.dialects.core.types import type_of
from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.frontends.blocks.fourier import MAX_TABLE, transform, whole_number
from stepwell.frontends.blocks.slicing import along_axis, counting
from stepwell.frontends.builder import Value, dims_of
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import onnx_rule


@onnx_rule("DFT", since=17)
def dft_by_attribute(b: ImportBuilder, x: Value, dft_length: Value | None = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0) -> Value:
    return transform(b, x, dft_length, axis, bool(inverse), bool(onesided))


@onnx_rule("DFT", since=20)
def dft(b: ImportBuilder, x: Value, dft_length: Value | None = None, axis: Value | None = None, *, inverse: int = 0, onesided: int = 0) -> Value:
    if axis is None:
        return transform(b, x, dft_length, -2, bool(inverse), bool(onesided))
    if b.constant_value(axis) is None and (dft_length is not None or onesided):
        b.known(axis, "the axis along which the size changes")
    return along_axis(b, x, axis, lambda i: transform(b, x, dft_length, i, bool(inverse), bool(onesided)), type_of(x).rank - 1)


@onnx_rule("STFT", since=17)
def stft(b: ImportBuilder, x: Value, step: Value, window: Value | None = None, length: Value | None = None, *, onesided: int = 1) -> Value:
    """Frames cut out of the signal (batch, samples, 1 or 2), weighted by the window, each transformed."""
    dims = dims_of(x)
    if len(dims) != 3:
        raise ModelError(f"its signal must have rank 3, got {type_of(x)}")
    if length is None and window is None:
        raise ModelError("it must have a window or a frame length")
    hop = int(b.known_scalar(step, "the frame step"))
    size = whole_number(b, length, "the frame length") if length is not None else dims_of(window)[0] if window is not None else 0
    if hop < 1 or not holds(size, ">=", 1) or not holds(size, "<=", dims[1]):
        raise ModelError(f"frames of {size}, {hop} apart, do not fit a signal of {dims[1]} samples")
    count = (dims[1] - size) // hop + 1
    if isinstance(count, int) and isinstance(size, int):
        if count * size > MAX_TABLE:
            raise UnsupportedError(f"{count} frames of {size} are not supported; supported: {MAX_TABLE} samples in all")
        places = b.literal(np.arange(count)[:, np.newaxis] * hop + np.arange(size))
    else:
        starts = counting(b, count, 0, 2)
        places = b.add(b.mul(starts, b.scalar(hop, like=starts)), counting(b, size, 1, 2))
    frames = b.gather(x, places, axis=1)
    if window is not None:
        frames = b.mul(frames, b.reshape(window, shape=(size, 1)))
    return transform(b, frames, None, 2, False, bool(onesided))
