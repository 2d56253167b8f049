"""Discrete Fourier transforms of any length, as products with tables."""

import math

import numpy as np

from stepwell.dialects.core.sizes import Size, holds, minimum
from stepwell.dialects.core.types import type_of
from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.frontends.blocks.slicing import counting, size_scalar, slice_axis
from stepwell.frontends.builder import ModelBuilder, Value, dims_of, normalized_axis

MAX_TABLE = 1 << 24  # elements of a table
FOLDED = 64  # the shortest transform for which adding first, to save half of the multiplications, pays


def whole_number(b: ModelBuilder, value: Value, what: str) -> int | Size:
    """A length in an operand, perhaps in symbols. Raises NotConstantError, naming it as `what`, if it is not known."""
    found = b.symbolic_scalar(value, what)
    return int(b.known_scalar(value, what)) if found is None else found


def transform(b: ModelBuilder, x: Value, dft_length: Value | None, axis: int, inverse: bool, onesided: bool) -> Value:
    """The transform of `x` along `axis`; its last dimension holds the real part, or real and imaginary parts (both if its size is unknown).

    `onesided` returns the first half of the spectrum of real data; with `inverse`, it takes such a half and returns real data.
    """
    dims = dims_of(x)
    axis = normalized_axis(axis, len(dims))
    count = dims[-1] if dims and isinstance(dims[-1], int) else 2
    if len(dims) < 2 or not holds(dims[-1], "==", count) or count not in (1, 2) or axis == len(dims) - 1:
        raise ModelError(f"its input must end in a dimension of 1 or 2, which is not transformed; got {type_of(x)} and axis {axis}")
    whole = onesided and inverse  # the input is half of a spectrum
    size = 2 * (dims[axis] - 1) if whole else dims[axis]
    if dft_length is not None:
        size = whole_number(b, dft_length, "the length of the transform")
    longest = math.isqrt(MAX_TABLE)
    if not holds(size, ">=", 1) or not holds(size, "<=", longest):
        raise UnsupportedError(f"of length {size} is not supported; supported: 1 to {longest}")
    taken = minimum(dims[axis], size // 2 + 1 if whole else size)
    made = size // 2 + 1 if onesided and not inverse else size
    parts = [
        b.reshape(slice_axis(b, slice_axis(b, x, len(dims) - 1, i, 1), axis, 0, taken), shape=(*dims[:axis], taken, *dims[axis + 1 : -1]))
        for i in range(count)
    ]
    order = [*(i for i in range(len(dims) - 1) if i != axis), axis]
    real, *imaginary = (b.convert(b.transposed(part, order), "f64") for part in parts)  # f64, so that rounding errors stay as small as with an FFT
    if isinstance(size, int) and isinstance(taken, int) and isinstance(made, int):
        tables = known_tables(size, taken, made, inverse, whole)
        products = Folded(b, *tables) if taken == size >= FOLDED else Products(b, *map(b.literal, tables))
    else:
        products = Products(b, *free_tables(b, size, taken, made, inverse, whole))
    results = products(real)[: 1 if whole else 2]
    if imaginary:
        by_cosines, by_sines = products(imaginary[0])
        results = [b.add(result, part) for result, part in zip(results, [b.neg(by_sines), by_cosines], strict=False)]
    back = [order.index(i) for i in range(len(order))]
    shape = (*dims[:axis], made, *dims[axis + 1 : -1], 1)
    made_parts = [b.with_shape(b.transposed(b.convert(result, type_of(x).dtype), back), shape) for result in results]
    return b.concat(made_parts, axis=len(dims) - 1) if len(made_parts) > 1 else made_parts[0]


def known_tables(size: int, taken: int, made: int, inverse: bool, whole: bool) -> tuple[np.ndarray, np.ndarray]:
    """The factors of each of the `taken` elements in each of the `made` results: cosines and sines."""
    steps = np.outer(np.arange(taken), np.arange(made)) * (1 if inverse else -1) % size
    weights = np.full((taken, 1), 1 / size if inverse else 1.0)
    if whole:  # all frequencies but the first and the middle one count twice
        weights[1 : (size + 1) // 2] *= 2
    cosines, sines = roots_of_unity(size)
    return cosines[steps] * weights, sines[steps] * weights


def free_tables(b: ModelBuilder, size: int | Size, taken: int | Size, made: int | Size, inverse: bool, whole: bool) -> list[Value]:
    """Like `known_tables`, for dynamic sizes: the tables are computed at run time."""
    elements, results = counting(b, taken, 0, 2), counting(b, made, 1, 2)
    steps = b.mod(b.mul(elements, results), size_scalar(b, size, like=elements), fmod=False)
    cosines, sines = roots_at_run_time(b, size)
    tables = [b.gather(table, steps, axis=0) for table in (cosines, sines if inverse else b.neg(sines))]
    if not inverse:
        return tables
    weight = b.div(b.scalar(1, like=cosines), size_scalar(b, size, like=cosines))
    if whole:
        first, middle = b.scalar(0, like=elements), size_scalar(b, (size + 1) // 2, like=elements)
        weight = b.select(b.and_(b.greater(elements, first), b.less(elements, middle)), b.add(weight, weight), weight)
    return [b.mul(table, weight) for table in tables]


class Products:
    """Products of signals (…, times) with tables of cosines and sines, (times, frequencies)."""

    def __init__(self, b: ModelBuilder, cosines: Value, sines: Value) -> None:
        self.b, self.cosines, self.sines = b, cosines, sines

    def __call__(self, x: Value) -> list[Value]:
        """The sums of `x` times cosines and times sines."""
        return [self.b.matmul(x, table) for table in (self.cosines, self.sines)]


class Folded(Products):
    """These products for n times and n frequencies, or the first half of these and the middle one, with a quarter of the multiplications.

    Cosines are equal at the times i and n - i, and sines opposite: sums and differences of the two halves of a signal leave half as many products.
    The same holds for frequencies: the products for the second half are those for the first one in reverse order.
    """

    def __init__(self, b: ModelBuilder, cosines: np.ndarray, sines: np.ndarray) -> None:
        self.size, self.made = cosines.shape
        self.pairs = (self.size - 1) // 2
        self.alone = [0, *([self.size // 2] if self.size % 2 == 0 else [])]  # times without a partner
        paired, first = list(range(1, self.pairs + 1)), slice(0, self.size // 2 + 1)
        super().__init__(b, b.literal(cosines[[*paired, *self.alone], first]), b.literal(sines[paired, first]))

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
    """The cosines and sines of `size` equal parts of a turn, each from an angle of at most an eighth of a turn: quarters of a turn are exact."""
    places = np.arange(size)
    quarters = (8 * places + size) // (2 * size)
    angles = (4 * places - quarters * size) / size * (np.pi / 2)
    cosine, sine = np.cos(angles), np.sin(angles)
    ways = quarters % 4 == np.arange(4)[:, np.newaxis]
    return np.select(list(ways), [cosine, -sine, -cosine, sine]) + 0.0, np.select(list(ways), [sine, cosine, -sine, -cosine]) + 0.0


def roots_at_run_time(b: ModelBuilder, size: int | Size) -> tuple[Value, Value]:
    """Like `roots_of_unity`, for a dynamic number."""
    places = counting(b, size)
    number, two, four, eight = size_scalar(b, size, like=places), *(b.scalar(n, like=places) for n in (2, 4, 8))
    quarters = b.div(b.add(b.mul(places, eight), number), b.mul(number, two))
    rest = b.convert(b.sub(b.mul(places, four), b.mul(quarters, number)), "f64")
    angles = b.mul(b.div(rest, b.convert(number, "f64")), b.literal(np.array(np.pi / 2)))
    cosine, sine = b.cos(angles), b.sin(angles)
    turn = b.mod(quarters, four, fmod=False)
    odd = b.equal(b.mod(turn, two, fmod=False), b.scalar(1, like=turn))
    first, second = b.select(odd, sine, cosine), b.select(odd, cosine, sine)
    left, below = (b.or_(b.equal(turn, b.scalar(a, like=turn)), b.equal(turn, two)) for a in (1, 3))
    return b.select(left, b.neg(first), first), b.select(below, b.neg(second), second)
