"""Shape arithmetic shared by many rules: parts of a tensor along an axis, flattening, reshaping, sizes as tensors."""

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from stepwell.dialects.core.sizes import Size
from stepwell.dialects.core.types import TensorType, type_of
from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.builder import ModelBuilder, Value, dims_of, normalized_axis

COUNTED = 1 << 16  # up to this size `counting` builds a constant, above it an op


def slice_axis(b: ModelBuilder, x: Value, axis: int, start: int | Size, size: int | Size, step: int = 1) -> Value:
    """`size` elements of `x` along one axis, from `start` on, with stride `step`."""
    rank = type_of(x).rank
    if start == 0 and step == 1 and size == type_of(x).shape[axis]:
        return x
    return b.slice(
        x,
        starts=tuple(start if i == axis else 0 for i in range(rank)),
        sizes=tuple(size if i == axis else -1 for i in range(rank)),
        steps=tuple(step if i == axis else 1 for i in range(rank)),
    )


def split_axis(b: ModelBuilder, x: Value, axis: int, sizes: Sequence[int | Size]) -> list[Value]:
    """`x` cut into parts of the given sizes along an axis."""
    starts = itertools.accumulate(sizes, initial=0)
    return [slice_axis(b, x, axis, start, size) for start, size in zip(starts, sizes, strict=False)]


def flattened(b: ModelBuilder, x: Value, axis: int) -> Value:
    """`x` as a matrix: dimensions before `axis` form its rows, the others its columns."""
    shape = dims_of(x)
    return b.with_shape(x, (math.prod(shape[:axis]), math.prod(shape[axis:])))


def reshaped_like(b: ModelBuilder, x: Value, like: Value) -> Value:
    """`x` reshaped to the shape of `like`, which has as many elements."""
    return b.with_shape(x, dims_of(like))


def counting(b: ModelBuilder, size: int | Size, axis: int = 0, rank: int = 1) -> Value:
    """The numbers 0 to `size - 1` along one axis of a tensor of that rank; its other sizes are 1."""
    shape = tuple(size if i == axis else 1 for i in range(rank))
    if isinstance(size, int) and size <= COUNTED:
        return b.literal(np.arange(size, dtype=np.int64).reshape(shape))
    bounds = [b.with_shape(b.sizes(values=(bound,)), ()) for bound in (0, size, 1)]
    return b.with_shape(b.range(*bounds, result_types=[TensorType("i64", (size,))]), shape)


def sizes_of(b: ModelBuilder, x: Value, axes: Sequence[int]) -> Value:
    """The sizes of some dimensions of `x` as a vector of i64."""
    shape = dims_of(x)
    return b.sizes(values=tuple(shape[axis] for axis in axes))


def size_scalar(b: ModelBuilder, size: int | Size, like: Value) -> Value:
    """A size as a scalar of the element type of `like`."""
    return b.scalar(size, like=like) if isinstance(size, int) else b.convert(b.with_shape(b.sizes(values=(size,)), ()), type_of(like).dtype)


def with_new_axes(b: ModelBuilder, x: Value, axes: Sequence[int]) -> Value:
    """`x` with dimensions of size 1 inserted at `axes` of the result."""
    shape = list(dims_of(x))
    for axis in sorted(axes):
        shape.insert(axis, 1)
    return b.with_shape(x, shape)


def without_axes(b: ModelBuilder, x: Value, axes: Sequence[int]) -> Value:
    """`x` without some dimensions of size 1."""
    return b.with_shape(x, [d for i, d in enumerate(dims_of(x)) if i not in axes])


def from_the_start(b: ModelBuilder, number: Value, size: int | Size, indices: Value) -> Value:
    """`indices` along a dimension of `size`, replaced by out-of-range ones if the original integer is negative and thus invalid.

    Gathers and scatters would count negative indices from the end.
    """
    below = b.less(number, b.scalar(0, like=number))
    return b.select(below, b.sub(number, size_scalar(b, size, number)), indices)


def along_axis(b: ModelBuilder, x: Value, axis: Value, make: Callable[[int], Value], axes: int | None = None) -> Value:
    """`make(axis)` for an operand that holds an axis of `x`, one of its first `axes` (by default all).

    If the axis is known only at run time, the results for all axes are computed, which must have one type, and one is chosen; the axis is checked at
    run time like an index of a gather. Raises ModelError if there is no such axis, or none at all.
    """
    rank = type_of(x).rank
    count = rank if axes is None else axes
    if count == 0:
        raise ModelError(f"its input must have an axis, got {type_of(x)}")
    if b.constant_value(axis) is not None:
        chosen = normalized_axis(int(b.known_scalar(axis, "the axis")), rank)
        if chosen >= count:
            raise ModelError(f"axis must be one of the first {count} of {type_of(x)}, got {chosen}")
        return make(chosen)
    place = b.with_shape(axis, ())
    if count < rank:
        place = b.gather(counting(b, rank), place, axis=0)  # counted from the front
    result = make(0)
    if count == 1:
        return b.gather(with_new_axes(b, result, [0]), place, axis=0)
    place = b.gather(counting(b, count), place, axis=0)
    for i in range(1, count):
        result = b.select(b.equal(place, b.literal(np.array(i, np.int64))), make(i), result)
    return result


def broadcast_to(b: ModelBuilder, x: Value, wanted: Sequence[int | Size]) -> Value:
    """`x` and a shape broadcast against each other."""
    have = dims_of(x)
    rank = max(len(have), len(wanted))
    old = (1,) * (rank - len(have)) + have
    new = [1] * (rank - len(wanted)) + list(wanted)
    kept = [i >= rank - len(have) and w == 1 for i, (size, w) in enumerate(zip(old, new, strict=True))]
    shape = [-1 if keep else w for keep, w in zip(kept, new, strict=True)]
    return x if all(s == -1 for s in shape) or tuple(shape) == have else b.expand(x, shape=tuple(shape))
