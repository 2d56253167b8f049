"""Rules that select or place elements: slices, gathers, scatters, one-hot, compression."""

from collections.abc import Sequence

import numpy as np

from stepwell.dialects.core.sizes import Dim, Size, always, has_elements, holds, maximum, minimum
from stepwell.dialects.core.types import TensorType, type_of
from stepwell.dialects.graph.indexing import slice_bounds
from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.frontends.builder import NotConstantError, Value, dims_of, listed, normalized_axes, normalized_axis, static_dim
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import onnx_rule
from stepwell.frontends.onnx.rules.elementwise import in_i64
from stepwell.frontends.onnx.rules.layout import broadcast_to
from stepwell.frontends.onnx.rules.slicing import counting, from_the_start, size_scalar, with_new_axes

FAR = np.iinfo(np.int32).max  # bounds from here on, and their negatives, are beyond any dimension
LONG = 1 << 24  # and from here on beyond a dimension that a run decides, unless that turns out to be as long


@onnx_rule("Slice", since=1)
def slice_by_attributes(b: ImportBuilder, x: Value, *, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int] | None = None) -> Value:
    chosen = range(len(starts)) if axes is None else axes
    made = static_slice(b, x, starts, ends, chosen, [1] * len(starts))
    assert made is not None, "numbers say from which end they count"
    return made


@onnx_rule("Slice", since=10)
def slice_(b: ImportBuilder, x: Value, starts: Value, ends: Value, axes: Value | None = None, steps: Value | None = None) -> Value:
    starts, ends = (of_known_length(b, v, axes) for v in (starts, ends))
    known = [None if v is None else b.constant_value(v) for v in (axes, steps)]
    first, last = (b.known_sizes(v, "starts and ends") for v in (starts, ends))
    count = type_of(starts).shape[0]
    if first is not None and last is not None and all(v is None or c is not None for v, c in zip((axes, steps), known, strict=True)):
        where, step = (None if k is None else listed(k, "axes and steps") for k in known)
        made = static_slice(b, x, first, last, range(len(first)) if where is None else where, step or [1] * len(first))
        if made is not None:
            return made
    if not isinstance(count, int):
        raise NotConstantError("starts of unknown length are not supported; supported: starts of known length", sizes=[count])
    declared = b.node.output_types[0]
    if declared is None or not declared.is_static:
        b.require_if_given([v for v in (starts, ends, axes, steps) if v is not None], "starts, ends, axes and steps")
    types = [type_of(x).with_shape(sizes_after_slice(b, x, count, axes, declared))]
    rest = [
        b.literal(np.arange(count)) if axes is None else axes,
        b.literal(np.ones(count, np.int64)) if steps is None else steps,
    ]
    operands = [b.convert(v, "i64") for v in (starts, ends, *rest)]
    return b.dynamic_slice(x, *operands, result_types=types)


def of_known_length(b: ImportBuilder, bounds: Value, axes: Value | None) -> Value:
    """Bounds of a slice as a list of as many as there are axes, which the run checks where it is the one that computes how many they are."""
    count = None if axes is None else type_of(axes).shape[0]
    if not isinstance(count, int) or isinstance(type_of(bounds).shape[0], int):
        return bounds
    if not holds(dims_of(bounds)[0], "==", count):
        raise ModelError(f"bounds of the type {type_of(bounds)} must be as many as its {count} axes")
    return b.with_shape(bounds, (count,))


def sizes_after_slice(b: ImportBuilder, x: Value, count: int, axes: Value | None, declared: TensorType | None) -> list[Dim]:
    """The sizes of a slice between `count` bounds that the run computes: those declared, and those of `x` along axes that it does not touch."""
    shape = type_of(x).shape
    where = range(count) if axes is None else b.constant_value(axes)
    sliced = range(len(shape)) if where is None else normalized_axes([int(axis) for axis in where], len(shape))
    said = (None,) * len(shape) if declared is None else declared.shape
    return [want if want is not None or axis in sliced else have for axis, (have, want) in enumerate(zip(shape, said, strict=True))]


def static_slice(
    b: ImportBuilder, x: Value, starts: Sequence[int | Size], ends: Sequence[int | Size], axes: Sequence[int], steps: Sequence[int]
) -> Value | None:
    """`x[start:end:step]` along each of `axes`, with ONNX's rules for negative and out-of-range bounds.

    Where data are part of a size or a bound, bounds are cut to what there is; None if data decide whether a bound counts from the end.
    """
    tensor = type_of(x)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise ModelError(f"starts {list(starts)}, ends {list(ends)}, axes {list(axes)} and steps {list(steps)} must have one length")
    begin: list[int | Size] = [0] * tensor.rank
    count: list[int | Size] = [-1] * tensor.rank
    stride = [1] * tensor.rank
    chosen = [normalized_axis(axis, tensor.rank, "axes") for axis in axes]
    any_data = not b.symbols.are_of_shapes([*starts, *ends, *(tensor.shape[axis] for axis in chosen)])
    for start, end, axis, step in zip(starts, ends, chosen, steps, strict=True):
        if step == 0:
            raise ModelError(f"steps must not be 0, got {list(steps)}")
        size = dims_of(x)[axis]
        if isinstance(start, Size) or isinstance(end, Size) or isinstance(size, Size):
            bounds = cut_bounds(b, start, end, step, size) if any_data else symbolic_bounds(start, end, step, size)
            if bounds is None:
                return None
            begin[axis], count[axis], stride[axis] = *bounds, step
            continue
        places = range(*slice_bounds(start, end, step, size), step)
        begin[axis], count[axis], stride[axis] = (places[0] if places else 0), len(places), step
    whole = all(s == 0 and t == 1 and (n == -1 or n == d) for s, n, t, d in zip(begin, count, stride, tensor.shape, strict=True))
    return x if whole else b.slice(x, starts=tuple(begin), sizes=tuple(count), steps=tuple(stride))


def is_far(bound: int | Size) -> bool:
    """Whether a bound is beyond any dimension."""
    return isinstance(bound, int) and abs(bound) >= FAR


def cut_bounds(b: ImportBuilder, start: int | Size, end: int | Size, step: int, size: int | Size) -> tuple[int | Size, int | Size] | None:
    """The first place of a slice of a dimension, and how many places it has, by the rules of `slice_bounds` for whatever the numbers are.

    Elements of inputs are taken not to be negative, as ever; None where the data decide whether a bound is.
    """
    low, high = (0, size) if step > 0 else (-1, size - 1)

    def place(bound: int | Size) -> int | Size | None:
        if is_far(bound):
            return high if bound > 0 else low
        if always(bound, "<", 0):
            bound = bound + size
        elif not always(bound, ">=", 0) and not (b.symbols.are_of_inputs([bound]) and holds(bound, ">=", 0)):
            return None
        return minimum(maximum(bound, low), high)

    first, last = place(start), place(end)
    if first is None or last is None:
        return None
    if step < 0:
        first = minimum(maximum(first, 0), high)  # as `slice_bounds` begins
    if step > 0 and first == 0 and last == size:
        return 0, -(-size // step)
    ahead = maximum(last - first if step > 0 else first - last, 0)
    return first, -(-ahead // abs(step))


def symbolic_bounds(start: int | Size, end: int | Size, step: int, size: int | Size) -> tuple[int | Size, int | Size]:
    """The first place of a slice of a dimension, and how many places it has, where one of the numbers follows from sizes of inputs.

    Bounds far away mean the ends. Others are assumed to lie in the dimension, and to be in order: where they do not, the sizes get code of their own.
    """

    def beyond(bound: int) -> bool:
        return is_far(bound) or (abs(bound) >= LONG and holds(size, "<=", abs(bound)))

    def inside(bound: int | Size, low: int, high: int | Size) -> int | Size:
        if isinstance(bound, int) and beyond(bound):
            return high if bound > 0 else low
        if isinstance(bound, int) and bound < 0:
            bound = size + bound
        return low if not holds(bound, ">=", low) else high if not holds(bound, "<=", high) else bound

    if step > 0 and isinstance(start, int) and isinstance(end, int) and 0 <= start < LONG <= end and beyond(end):
        return start, -1  # whatever there is
    if step > 0:
        first = inside(start, 0, size)
        ahead = inside(end, 0, size) - first
    else:
        first = inside(start, 0, size - 1)
        # An end of -1 counts from the end, as in Python: there is no way but a far one to say "down to the first".
        ahead = first - inside(end, -1, size - 1)
    if not holds(ahead, ">=", 0):
        return 0, 0
    return first, -(-ahead // abs(step))


@onnx_rule("Gather", since=1)
def gather(b: ImportBuilder, x: Value, indices: Value, *, axis: int = 0) -> Value:
    return b.gather(x, indices, axis=normalized_axis(axis, type_of(x).rank))


@onnx_rule("GatherElements", since=11)
def gather_elements(b: ImportBuilder, x: Value, indices: Value, *, axis: int = 0) -> Value:
    return b.gather_elements(x, indices, axis=normalized_axis(axis, type_of(x).rank))


@onnx_rule("GatherND", since=11)
def gather_nd(b: ImportBuilder, x: Value, indices: Value, *, batch_dims: int = 0) -> Value:
    declared = b.node.output_types[0]
    around = type_of(x).rank + type_of(indices).rank - 1 - batch_dims
    depth = static_dim(indices, -1, "indices") if declared is None else around - declared.rank
    return b.gather_nd(x, with_depth(b, indices, depth), batch_dims=batch_dims)


def with_depth(b: ImportBuilder, indices: Value, depth: int) -> Value:
    """Index vectors of that length, which ranks say where the last dimension of the indices does not; it is assumed to be that."""
    shape = dims_of(indices)
    return indices if not shape or isinstance(shape[-1], int) else b.with_shape(indices, (*shape[:-1], depth))


@onnx_rule("Scatter", since=9)
def scatter(b: ImportBuilder, x: Value, indices: Value, updates: Value, *, axis: int = 0) -> Value:
    return scatter_elements(b, x, indices, updates, axis=axis)


@onnx_rule("ScatterElements", since=11)
def scatter_elements(b: ImportBuilder, x: Value, indices: Value, updates: Value, *, axis: int = 0, reduction: str = "none") -> Value:
    return b.scatter_elements(x, indices, updates, axis=normalized_axis(axis, type_of(x).rank), reduction=reduction, from_start=False)


@onnx_rule("ScatterND", since=11)
def scatter_nd(b: ImportBuilder, x: Value, indices: Value, updates: Value, *, reduction: str = "none") -> Value:
    depth = type_of(x).rank + type_of(indices).rank - 1 - type_of(updates).rank
    return b.scatter_nd(x, with_depth(b, indices, depth), updates, reduction=reduction)


@onnx_rule("OneHot", since=9)
def one_hot(b: ImportBuilder, indices: Value, depth: Value, values: Value, *, axis: int = -1) -> Value:
    rank = type_of(indices).rank + 1
    axis = normalized_axis(axis, rank)
    wanted = in_i64(b, indices)
    count = b.convert(b.with_shape(depth, ()), "i64")
    wanted = b.select(b.less(wanted, b.scalar(0, like=wanted)), b.add(wanted, count), wanted)
    known = b.symbolic_scalar(count, "the depth")
    if known is not None:
        places = counting(b, maximum(known, 0), axis, rank)
    else:
        b.require_if_given([count], "the depth")
        numbers = b.range(b.scalar(0, like=count), count, b.scalar(1, like=count))
        places = b.reshape(numbers, shape=tuple(-1 if i == axis else 1 for i in range(rank)))
    off, on = (b.with_shape(b.gather(values, b.literal(np.array(i, np.int64)), axis=0), ()) for i in range(2))
    return b.select(b.equal(with_new_axes(b, wanted, [axis]), places), on, off)


@onnx_rule("NonZero", since=9)
def non_zero(b: ImportBuilder, x: Value) -> Value:
    return b.non_zero(x)


@onnx_rule("Compress", since=9)
def compress(b: ImportBuilder, x: Value, condition: Value, *, axis: int | None = None) -> Value:
    if axis is None:
        x, axis = b.reshape(x, shape=(-1,)), 0
    axis = normalized_axis(axis, type_of(x).rank)
    known = b.constant_value(condition)
    if known is not None:
        return b.gather(x, b.literal(np.flatnonzero(known)), axis=axis)
    return b.gather(x, b.reshape(b.non_zero(condition), shape=(-1,)), axis=axis)


@onnx_rule("TensorScatter", since=24)
def tensor_scatter(
    b: ImportBuilder, cache: Value, update: Value, write_indices: Value | None = None, *, axis: int = -2, mode: str = "linear"
) -> Value:
    have, new = dims_of(cache), dims_of(update)
    axis = normalized_axis(axis, len(have))
    if mode not in ("linear", "circular"):
        raise UnsupportedError(f"mode={mode!r} is not supported; supported: 'linear', 'circular'")
    if axis == 0:
        raise ModelError("axis must not be the batch dimension 0")
    place = counting(b, new[axis], axis, len(new))
    if write_indices is not None:
        start = b.with_shape(b.convert(write_indices, "i64"), [new[0] if i == 0 else 1 for i in range(len(new))])
        place = b.add(place, start)
    if mode == "circular":
        has_elements(have[axis], new[axis])  # a remainder of a division by 0 is none
        place = b.mod(place, size_scalar(b, have[axis], place), fmod=False)
    if write_indices is not None:
        place = from_the_start(b, start, have[axis], place)
    return b.scatter_elements(cache, broadcast_to(b, place, new), update, axis=axis, reduction="none", from_start=False)
