"""Resampling of dynamic dimensions by weighted sums of the elements around each position, with weights computed at run time."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stepwell.dialects.core.sizes import Size
from stepwell.dialects.core.types import type_of
from stepwell.frontends.blocks.slicing import counting, size_scalar
from stepwell.frontends.builder import ModelBuilder, Value, dims_of


@dataclass(frozen=True)
class Method:
    """How dimensions are resampled: the attributes of Resize."""

    mode: str
    coordinates: str
    rounding: str
    cubic_coefficient: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    extrapolation: float = 0.0


class Taps(NamedTuple):
    """The elements that contribute to each position of a result, and their weights."""

    places: Value
    """A vector of f32."""
    stretch: Value | None
    """How much wider than an element the kernel is, if it is wider; a scalar of f64."""
    reach: int | Size | None
    """The distance up to which there are taps in that case."""
    method: Method


def inside(b: ModelBuilder, places: Value, have: int | Size) -> Value:
    """Integers as indices of a dimension, clamped to it."""
    whole = b.cast(places, to="i64", saturate=True)
    last = b.sub(size_scalar(b, have, whole), b.scalar(1, like=whole))
    return b.minimum(b.maximum(whole, b.scalar(0, like=whole)), last)


def weighted(b: ModelBuilder, x: Value, dim: int, taps: Taps) -> Value:
    """`x` with a dimension replaced by weighted sums of its elements; the weights are those of `sampling_taps`, also computed in f64."""
    have, rank = dims_of(x)[dim], type_of(x).rank
    places = b.with_shape(b.convert(taps.places, "f64"), (*dims_of(taps.places), 1))
    sources = b.add(b.floor(places), _offsets(b, taps))
    weights = _weights(b, places, sources, have, taps)
    table = (*dims_of(weights), *[1] * (rank - 1 - dim))
    factors = b.with_shape(b.convert(weights, type_of(x).dtype), table)
    found = b.gather(x, inside(b, sources, have), axis=dim)
    found = b.select(b.equal(factors, b.scalar(0, like=factors)), b.scalar(0, like=found), found)  # infinity times 0 is not 0
    return b.reduce_sum(b.mul(found, factors), axes=(dim + 1,), keepdims=False)


def _offsets(b: ModelBuilder, taps: Taps) -> Value:
    """The taps of each position, relative to the element before it: [1, taps] of f64."""
    if taps.reach is None:
        return b.literal(np.arange(*(0, 2) if taps.method.mode == "linear" else (-1, 3), dtype=np.float64)[np.newaxis])
    if isinstance(taps.reach, int):
        return b.literal(np.arange(-taps.reach, taps.reach + 1, dtype=np.float64)[np.newaxis])
    numbers = b.convert(counting(b, 2 * taps.reach + 1, 1, 2), "f64")
    return b.sub(numbers, size_scalar(b, taps.reach, numbers))


def _weights(b: ModelBuilder, places: Value, sources: Value, have: int | Size, taps: Taps) -> Value:
    """The weight of each tap: [places, taps] of f64."""
    method, zero = taps.method, b.scalar(0, like=places)
    distance = b.abs(b.sub(places, sources))
    if taps.stretch is not None:
        distance = b.div(distance, taps.stretch)
    if method.mode == "linear":
        weights = b.maximum(b.sub(b.scalar(1, like=distance), distance), zero)
    else:
        weights = b.select(b.less(distance, b.scalar(2, like=distance)), cubic_kernel(b, distance, method.cubic_coefficient), zero)
    if method.exclude_outside:
        last = b.sub(size_scalar(b, have, sources), b.scalar(1, like=sources))
        weights = b.select(b.and_(b.greater_equal(sources, zero), b.less_equal(sources, last)), weights, zero)
    if method.exclude_outside or method.antialias:
        weights = b.div(weights, b.reduce_sum(weights, axes=(1,), keepdims=True))
    return weights


def polynomial(b: ModelBuilder, x: Value, *coefficients: float) -> Value:
    """A polynomial of each element, with coefficients from the highest power on (Horner's rule)."""
    value = b.scalar(coefficients[0], like=x)
    for coefficient in coefficients[1:]:
        value = b.add(b.mul(value, x), b.scalar(coefficient, like=x))
    return value


def cubic_kernel(b: ModelBuilder, distance: Value, a: float) -> Value:
    """Keys' cubic convolution kernel with coefficient `a` (R. Keys, 1981), at distances of up to 2 elements."""
    near, far = polynomial(b, distance, a + 2, -(a + 3), 0, 1), polynomial(b, distance, a, -5 * a, 8 * a, -4 * a)
    return b.select(b.less_equal(distance, b.scalar(1, like=distance)), near, far)
