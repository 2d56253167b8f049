"""Rules that select or place elements: slices, gathers, scatters, one-hot, compression, and those that select by value."""

from collections.abc import Sequence
from typing import Literal, cast as typed

import numpy as np

from stepwell.dialects.core.sizes import Dim, holds, maximum
from stepwell.dialects.core.types import TensorType, type_of
from stepwell.dialects.graph import UniqueOp
from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.blocks.bounds import static_slice
from stepwell.frontends.blocks.kv_cache import written_rows
from stepwell.frontends.blocks.slicing import counting, with_new_axes
from stepwell.frontends.builder import NotConstantError, Value, dims_of, listed, normalized_axes, normalized_axis, static_dim
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import onnx_rule
from stepwell.frontends.onnx.rules.elementwise import in_i64


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
    """Bounds of a slice as a list with one entry per axis; if their number is computed at run time, the run checks it."""
    count = None if axes is None else type_of(axes).shape[0]
    if not isinstance(count, int) or isinstance(type_of(bounds).shape[0], int):
        return bounds
    if not holds(dims_of(bounds)[0], "==", count):
        raise ModelError(f"bounds of the type {type_of(bounds)} must be as many as its {count} axes")
    return b.with_shape(bounds, (count,))


def sizes_after_slice(b: ImportBuilder, x: Value, count: int, axes: Value | None, declared: TensorType | None) -> list[Dim]:
    """The sizes of a slice with `count` bounds computed at run time: the declared ones, and those of `x` along other axes."""
    shape = type_of(x).shape
    where = range(count) if axes is None else b.constant_value(axes)
    sliced = range(len(shape)) if where is None else normalized_axes([int(axis) for axis in where], len(shape))
    said = (None,) * len(shape) if declared is None else declared.shape
    return [want if want is not None or axis in sliced else have for axis, (have, want) in enumerate(zip(shape, said, strict=True))]


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
    """Index vectors of that length, which follows from ranks if the last dimension of the indices does not state it; it is then assumed."""
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
    b: ImportBuilder, cache: Value, update: Value, write_indices: Value | None = None, *, axis: int = -2,
    mode: Literal["linear", "circular"] = "linear",
) -> Value:  # fmt: skip
    axis = normalized_axis(axis, type_of(cache).rank)
    if axis == 0:
        raise ModelError("axis must not be the batch dimension 0")
    return written_rows(b, cache, update, write_indices, axis, circular=mode == "circular")


@onnx_rule("Unique", since=11)
def unique(b: ImportBuilder, x: Value, *, axis: int | None = None, sorted: int = 1) -> tuple[Value, ...]:
    if axis is None:
        x, axis = b.reshape(x, shape=(-1,)), 0
    axis = normalized_axis(axis, type_of(x).rank)
    if type_of(x).shape[axis] == 1:  # a single slice is distinct
        return x, *(b.literal(np.array([number])) for number in (0, 0, 1))
    types = typed(tuple[TensorType, ...], UniqueOp.infer(type_of(x), axis=axis, sorted=bool(sorted)))
    count = types[1].shape[0]
    if count is None and b.constant_value(x) is None:
        count = b.symbols.fresh(f"{b.node.output_names[0]}_{axis}")
        types = tuple(kind.with_shape([count if size is None else size for size in kind.shape]) for kind in types)
        return typed(tuple[Value, ...], b.unique(x, axis=axis, sorted=bool(sorted), result_types=list(types)))
    return typed(tuple[Value, ...], b.unique(x, axis=axis, sorted=bool(sorted)))


@onnx_rule("NonMaxSuppression", since=10)
def non_max_suppression(
    b: ImportBuilder,
    boxes: Value,
    scores: Value,
    max_output_boxes_per_class: Value | None = None,
    iou_threshold: Value | None = None,
    score_threshold: Value | None = None,
    *,
    center_point_box: Literal[0, 1] = 0,
) -> Value:
    most = b.literal(np.array(0, np.int64)) if max_output_boxes_per_class is None else b.with_shape(max_output_boxes_per_class, ())
    overlap = b.scalar(0, like=boxes) if iou_threshold is None else b.with_shape(iou_threshold, ())
    least = b.scalar(-np.inf, like=boxes) if score_threshold is None else b.with_shape(score_threshold, ())
    return b.non_max_suppression(boxes, scores, most, overlap, least, centred=bool(center_point_box))
