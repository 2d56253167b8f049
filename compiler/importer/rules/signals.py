"""Rules for Fourier transforms, as matrix products with a table of cosines and sines."""

import math

import numpy as np

from stepwell.dialects.core.types import type_of
from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.importer.builder import ImportBuilder, Value, normalized_axis, static_dims
from stepwell.importer.registry import onnx_rule
from stepwell.importer.rules.slicing import along_axis, slice_axis

MAX_TABLE = 1 << 24  # elements of a table
FOLDED = 64  # the length of a transform from which on adding first and multiplying half as often pays


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
    dims = static_dims(x, "a signal")
    if len(dims) != 3:
        raise ModelError(f"its signal must have rank 3, got {type_of(x)}")
    if length is None and window is None:
        raise ModelError("it must have a window or a frame length")
    hop = int(b.known_scalar(step, "the frame step"))
    size = (
        int(b.known_scalar(length, "the frame length")) if length is not None else static_dims(window, "the window")[0] if window is not None else 0
    )
    if hop < 1 or not 1 <= size <= dims[1]:
        raise ModelError(f"frames of {size}, {hop} apart, do not fit a signal of {dims[1]} samples")
    starts = np.arange(0, dims[1] - size + 1, hop)
    if len(starts) * size > MAX_TABLE:
        raise UnsupportedError(f"{len(starts)} frames of {size} are not supported; supported: {MAX_TABLE} samples in all")
    frames = b.gather(x, b.literal(starts[:, np.newaxis] + np.arange(size)), axis=1)
    if window is not None:
        frames = b.mul(frames, b.reshape(window, shape=(size, 1)))
    return transform(b, frames, None, 2, False, bool(onesided))


def transform(b: ImportBuilder, x: Value, dft_length: Value | None, axis: int, inverse: bool, onesided: bool) -> Value:
    """The transform of `x`, along `axis`; its last dimension holds the real part, or real and imaginary parts.

    `onesided` returns the first half of the spectrum of real data; with `inverse`, it takes such a half and returns real data.
    """
    dims = static_dims(x, "an input")
    axis = normalized_axis(axis, len(dims))
    if len(dims) < 2 or dims[-1] not in (1, 2) or axis == len(dims) - 1:
        raise ModelError(f"its input must end in a dimension of 1 or 2, which is not transformed; got {type_of(x)} and axis {axis}")
    whole = onesided and inverse  # the input is half of a spectrum
    size = 2 * (dims[axis] - 1) if whole else dims[axis]
    if dft_length is not None:
        size = int(b.known_scalar(dft_length, "the length of the transform"))
    if size < 1 or size * size > MAX_TABLE:
        raise UnsupportedError(f"of length {size} is not supported; supported: 1 to {math.isqrt(MAX_TABLE)}")
    taken = min(dims[axis], size // 2 + 1 if whole else size)
    made = size // 2 + 1 if onesided and not inverse else size
    parts = [
        b.reshape(slice_axis(b, slice_axis(b, x, len(dims) - 1, i, 1), axis, 0, taken), shape=(*dims[:axis], taken, *dims[axis + 1 : -1]))
        for i in range(dims[-1])
    ]
    order = [*(i for i in range(len(dims) - 1) if i != axis), axis]
    steps = np.outer(np.arange(taken), np.arange(made)) * (1 if inverse else -1) % size
    weights = np.full((taken, 1), 1 / size if inverse else 1.0)
    if whole:  # all frequencies but the first and the middle one count twice
        weights[1 : (size + 1) // 2] *= 2
    cosines, sines = (part[steps] * weights for part in roots_of_unity(size))
    real, *imaginary = (b.convert(b.transposed(part, order), "f64") for part in parts)  # f64, so that rounding errors stay as small as with an FFT
    products = Folded(b, cosines, sines) if taken == size >= FOLDED else Products(b, cosines, sines)
    results = products(real)[: 1 if whole else 2]
    if imaginary:
        by_cosines, by_sines = products(imaginary[0])
        results = [b.add(result, part) for result, part in zip(results, [b.neg(by_sines), by_cosines], strict=False)]
    back = [order.index(i) for i in range(len(order))]
    shape = (*dims[:axis], made, *dims[axis + 1 : -1], 1)
    made_parts = [b.with_shape(b.transposed(b.convert(result, type_of(x).dtype), back), shape) for result in results]
    return b.concat(made_parts, axis=len(dims) - 1) if len(made_parts) > 1 else made_parts[0]


class Products:
    """Products of signals (…, times) with tables of cosines and sines, (times, frequencies)."""

    def __init__(self, b: ImportBuilder, cosines: np.ndarray, sines: np.ndarray) -> None:
        self.b, self.cosines, self.sines = b, b.literal(cosines), b.literal(sines)

    def __call__(self, x: Value) -> list[Value]:
        """The sums of `x` times cosines and times sines."""
        return [self.b.matmul(x, table) for table in (self.cosines, self.sines)]


class Folded(Products):
    """These products for n times and n frequencies, or the first half of these and the middle one, with a fourth of the multiplications.

    Cosines are the same at the times i and n - i, and sines the opposite: sums and differences of the two halves of a signal leave half as
    many products. So it is with frequencies: the products for the second half are those for the first one, backwards.
    """

    def __init__(self, b: ImportBuilder, cosines: np.ndarray, sines: np.ndarray) -> None:
        self.size, self.made = cosines.shape
        self.pairs = (self.size - 1) // 2
        self.alone = [0, *([self.size // 2] if self.size % 2 == 0 else [])]  # times that are in no pair
        paired, first = list(range(1, self.pairs + 1)), slice(0, self.size // 2 + 1)
        super().__init__(b, cosines[[*paired, *self.alone], first], sines[paired, first])

    def __call__(self, x: Value) -> list[Value]:
        b, last, pairs = self.b, type_of(x).rank - 1, self.pairs
        first, second = slice_axis(b, x, last, 1, pairs), slice_axis(b, x, last, self.size - 1, pairs, -1)
        even = b.concat([b.add(first, second), *(slice_axis(b, x, last, i, 1) for i in self.alone)], axis=last)
        half = [b.matmul(even, self.cosines), b.matmul(b.sub(first, second), self.sines)]
        if self.made < self.size:
            return half
        by_cosines, by_sines = (slice_axis(b, part, last, pairs, pairs, -1) for part in half)
        return [b.concat([part, back], axis=last) for part, back in zip(half, [by_cosines, b.neg(by_sines)], strict=True)]


def roots_of_unity(size: int) -> tuple[np.ndarray, np.ndarray]:
    """The cosines and sines of that many equal parts of a turn, each of an angle of at most an eighth of a turn: quarters of a turn are exact."""
    places = np.arange(size)
    quarters = (8 * places + size) // (2 * size)
    angles = (4 * places - quarters * size) / size * (np.pi / 2)
    cosine, sine = np.cos(angles), np.sin(angles)
    ways = quarters % 4 == np.arange(4)[:, np.newaxis]
    return np.select(list(ways), [cosine, -sine, -cosine, sine]) + 0.0, np.select(list(ways), [sine, cosine, -sine, -cosine]) + 0.0
