"""Shape arithmetic shared by many rules: parts of a tensor along an axis, flattening, reshaping, sizes as tensors."""

import itertools
import math
from collections.abc import Sequence

import numpy as np

from stepwell.dialects.core.types import MAX_RANK, TensorType, type_of
from stepwell.dialects.support.errors import ModelError
from stepwell.importer.builder import ImportBuilder, NotConstantError, Value

COUNTED = 1 << 16  # up to this size `counting` builds a constant, above it an op


def slice_axis(b: ImportBuilder, x: Value, axis: int, start: int, size: int, step: int = 1) -> Value:
    """`size` elements of `x` along one axis, from `start` on, `step` apart."""
    rank = type_of(x).rank
    if start == 0 and step == 1 and size == type_of(x).shape[axis]:
        return x
    return b.slice(
        x,
        starts=tuple(start if i == axis else 0 for i in range(rank)),
        sizes=tuple(size if i == axis else -1 for i in range(rank)),
        steps=tuple(step if i == axis else 1 for i in range(rank)),
    )


def split_axis(b: ImportBuilder, x: Value, axis: int, sizes: Sequence[int]) -> list[Value]:
    """`x` cut into parts of the given sizes along an axis."""
    starts = itertools.accumulate(sizes, initial=0)
    return [slice_axis(b, x, axis, start, size) for start, size in zip(starts, sizes, strict=False)]


def flattened(b: ImportBuilder, x: Value, axis: int) -> Value:
    """`x` as a matrix: dimensions before `axis` form its rows, the others its columns."""
    shape = type_of(x).shape
    sides = [None if None in side else math.prod(d for d in side if d is not None) for side in (shape[:axis], shape[axis:])]
    if sides.count(None) < 2:
        return b.with_shape(x, [-1 if size is None else size for size in sides])
    rows = b.reduce_prod(slice_axis(b, b.shape_of(x), 0, 0, axis), axes=(0,), keepdims=True)
    columns = b.reduce_prod(slice_axis(b, b.shape_of(x), 0, axis, len(shape) - axis), axes=(0,), keepdims=True)
    return b.dynamic_reshape(x, b.concat([rows, columns], axis=0))


def reshaped_like(b: ImportBuilder, x: Value, like: Value) -> Value:
    """`x` reshaped to the shape of `like`, which has as many elements."""
    shape = type_of(like).shape
    if shape.count(None) < 2:
        return b.with_shape(x, [-1 if size is None else size for size in shape])
    return b.dynamic_reshape(x, b.shape_of(like), result_types=[type_of(x).with_shape(shape)])


def counting(b: ImportBuilder, size: int, axis: int = 0, rank: int = 1) -> Value:
    """The numbers 0 to `size - 1` along one axis of a tensor of that rank; its other sizes are 1."""
    shape = tuple(size if i == axis else 1 for i in range(rank))
    if size <= COUNTED:
        return b.literal(np.arange(size, dtype=np.int64).reshape(shape))
    bounds = [b.literal(np.array(bound, np.int64)) for bound in (0, size, 1)]
    return b.with_shape(b.range(*bounds, result_types=[TensorType("i64", (size,))]), shape)


def sizes_of(b: ImportBuilder, x: Value, axes: Sequence[int]) -> Value:
    """The sizes of some dimensions of `x` as a vector of i64: a literal where they are static."""
    shape = type_of(x).shape
    chosen = [shape[axis] for axis in axes]
    if None not in chosen:
        return b.literal(np.array(chosen, np.int64))
    return b.gather(b.shape_of(x), b.literal(np.array(axes, np.int64)), axis=0)


def with_new_axes(b: ImportBuilder, x: Value, axes: Sequence[int]) -> Value:
    """`x` with dimensions of size 1 inserted at `axes` of the result."""
    shape = list(type_of(x).shape)
    for axis in sorted(axes):
        shape.insert(axis, 1)
    return reshaped(b, x, shape)


def without_axes(b: ImportBuilder, x: Value, axes: Sequence[int]) -> Value:
    """`x` without some dimensions of size 1."""
    return reshaped(b, x, [d for i, d in enumerate(type_of(x).shape) if i not in axes])


def reshaped(b: ImportBuilder, x: Value, shape: Sequence[int | None]) -> Value:
    """`x` reshaped; the dynamic dimensions of the shape are those of `x`, in order."""
    if tuple(shape) == type_of(x).shape:
        return x
    if list(shape).count(None) < 2:
        return b.reshape(x, shape=tuple(-1 if d is None else d for d in shape))
    dynamic = [i for i, d in enumerate(type_of(x).shape) if d is None]
    parts = []
    for size in shape:
        parts.append(sizes_of(b, x, [dynamic.pop(0)]) if size is None else b.literal(np.array([size], np.int64)))
    return b.dynamic_reshape(x, b.concat(parts, axis=0), result_types=[type_of(x).with_shape(tuple(shape))])


def inferred_reshape(b: ImportBuilder, x: TensorType, shape: Sequence[int | None]) -> list[TensorType]:
    """The type that ONNX infers for a result whose shape is an operand (itself of shape `shape`), or at least its rank.

    Raises UnsupportedError if not even the rank is known, ModelError if it is too large.
    """
    if shape and shape[0] is not None and shape[0] > MAX_RANK:
        raise ModelError(f"its shape has {shape[0]} entries; a tensor has at most {MAX_RANK} dimensions")
    if b.node.output_types and b.node.output_types[0] is not None:
        return [b.node.output_types[0]]
    if len(shape) != 1 or shape[0] is None:
        raise NotConstantError("a result of unknown rank is not supported; supported: a shape of known length")
    return [x.with_shape((None,) * shape[0])]


def from_the_start(b: ImportBuilder, number: Value, size: int, indices: Value) -> Value:
    """`indices` along a dimension of `size`, replaced by out-of-range ones where the original integer is negative and thus invalid.

    Gathers and scatters would count negative indices from the end.
    """
    below = b.less(number, b.scalar(0, like=number))
    return b.select(below, b.sub(number, b.scalar(size, like=number)), indices)
