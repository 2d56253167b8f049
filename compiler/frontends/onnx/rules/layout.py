"""Rules that rearrange tensors: reshapes, transpositions, concatenation, splitting, padding, tiling."""

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from stepwell.dialects.core.sizes import Dim, Size, divides, has_elements, holds, is_static, maximum, static_sizes
from stepwell.dialects.core.types import MAX_RANK, TensorType, is_float, type_of
from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.blocks.slicing import (
    broadcast_to,
    counting,
    flattened,
    from_the_start,
    size_scalar,
    sizes_of,
    slice_axis,
    split_axis,
    with_new_axes,
    without_axes,
)
from stepwell.frontends.builder import NotConstantError, Value, dims_of, listed, normalized_axes, normalized_axis
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import onnx_rule
from stepwell.frontends.onnx.rules.elementwise import is_exact, truth


@onnx_rule("Reshape", since=5)
def reshape(b: ImportBuilder, x: Value, shape: Value, *, allowzero: int = 0) -> Value:
    wanted = b.known_sizes(shape, "the shape")
    if wanted is None:
        types = inferred_reshape(b, type_of(x), type_of(shape).shape, reshaped_sizes(b, x, shape, allowzero))
        if not holds(types[0].size, "==", type_of(x).size):
            raise ModelError(f"the model declares {types[0]}, which has another number of elements than the operand {type_of(x)}")
        return b.dynamic_reshape(x, shape if allowzero else with_kept_sizes(b, x, shape), result_types=types)
    have = dims_of(x)
    sizes: list[int | Size] = []
    for axis, size in enumerate(wanted):
        if size == 0 and not allowzero:
            if axis >= len(have):
                raise ModelError(f"shape {list(wanted)} keeps dimension {axis}, but its input is {type_of(x)}")
            sizes.append(have[axis])
        elif not allowzero and isinstance(size, Size) and not has_elements(size, have[axis] if axis < len(have) else 1):  # 0 keeps the size of `x`
            raise ModelError(f"shape {list(wanted)} has a size of 0")
        else:
            sizes.append(size)
    return b.with_shape(x, completed(sizes, type_of(x)))


def inferred_reshape(b: ImportBuilder, x: TensorType, shape: Sequence[Dim], sizes: Sequence[Dim] | None = None) -> list[TensorType]:
    """The type that ONNX infers for a result whose shape is an operand (itself of shape `shape`), or at least its rank.

    `sizes` are those by the operators' rules, if ONNX infers none. Raises UnsupportedError if even the rank is unknown, ModelError if it is too
    large.
    """
    if len(shape) == 1 and isinstance(shape[0], int) and shape[0] > MAX_RANK:
        raise ModelError(f"its shape has {shape[0]} entries; a tensor has at most {MAX_RANK} dimensions")
    declared = b.node.output_types[0] if b.node.output_types else None
    sizes = None if sizes is None else [None if isinstance(size, int) and size < 0 else size for size in sizes]
    if declared is not None:
        if len(shape) == 1 and isinstance(shape[0], Size):
            holds(shape[0], "==", declared.rank)  # assumed from now on
        if sizes is None or len(sizes) != declared.rank:
            return [declared]
        return [declared.with_shape([found if said is None else said for said, found in zip(declared.shape, sizes, strict=True)])]
    if sizes is not None:
        return [x.with_shape(sizes)]
    if len(shape) != 1 or not isinstance(shape[0], int):
        raise NotConstantError("a result of unknown rank is not supported; supported: a shape of known length", sizes=shape)
    return [x.with_shape((None,) * shape[0])]


def reshaped_sizes(b: ImportBuilder, x: Value, shape: Value, allowzero: int) -> list[Dim] | None:
    """The sizes of a reshape to a shape computed at run time, as far as they are known; None if its length is unknown."""
    have, wanted = dims_of(x), b.partial_sizes(shape)
    if wanted is None:
        return None
    kept = [not allowzero and size == 0 and axis < len(have) for axis, size in enumerate(wanted)]
    certain = [isinstance(size, int) and (size > 0 or bool(allowzero and size == 0)) for size in wanted]
    return [have[axis] if keep else size if sure else None for axis, (size, keep, sure) in enumerate(zip(wanted, kept, certain, strict=True))]


def with_kept_sizes(b: ImportBuilder, x: Value, shape: Value) -> Value:
    """A shape computed at run time, with zeros replaced by the sizes of `x`."""
    length, rank = type_of(shape).shape[0], type_of(x).rank
    if not isinstance(length, int):
        raise NotConstantError("a shape of unknown length is not supported; supported: a shape of known length", sizes=[length])
    kept = sizes_of(b, x, range(min(rank, length)))
    if length > rank:
        kept = b.concat([kept, b.literal(np.zeros(length - rank, np.int64))], axis=0)
    return b.select(b.equal(shape, b.scalar(0, like=shape)), kept, shape)


def completed(sizes: Sequence[int | Size], tensor: TensorType) -> list[int | Size]:
    """The sizes of a reshape with -1 replaced by the size. Raises ModelError if they do not fit the tensor."""
    volume, count = math.prod(s for s in sizes if s != -1), tensor.size
    if sizes.count(-1) > 1 or min((s for s in sizes if isinstance(s, int)), default=0) < -1:
        raise ModelError(f"shape {list(sizes)} must be sizes from 0, one of them may be -1")
    assert count is not None
    fits = holds(count, "==", volume) if -1 not in sizes else volume != 0 and divides(volume, count)
    if not fits:
        raise ModelError(f"{tensor} has {count} elements, which do not fit the shape {list(sizes)}")
    return [count // volume if s == -1 else s for s in sizes]


@onnx_rule("Flatten", since=1)
def flatten(b: ImportBuilder, x: Value, *, axis: int = 1) -> Value:
    rank = type_of(x).rank
    if not -rank <= axis <= rank:
        raise ModelError(f"axis must be from {-rank} to {rank} for a tensor of rank {rank}, got {axis}")
    return flattened(b, x, axis + rank if axis < 0 else axis)


@onnx_rule("Squeeze", since=1)
def squeeze_by_attribute(b: ImportBuilder, x: Value, *, axes: Sequence[int] | None = None) -> Value:
    tensor = type_of(x)
    if axes is None:
        axes = [i for i, size in enumerate(tensor.shape) if not holds(size, "!=", 1)]
    chosen = normalized_axes(axes, tensor.rank)
    if not all(holds(tensor.shape[axis], "==", 1) for axis in chosen):
        raise ModelError(f"axes {list(axes)} name dimensions of {tensor} whose size is not 1")
    return without_axes(b, x, chosen)


@onnx_rule("Squeeze", since=13)
def squeeze(b: ImportBuilder, x: Value, axes: Value | None = None) -> Value:
    return squeeze_by_attribute(b, x, axes=None if axes is None else b.known_ints(axes, "axes"))


@onnx_rule("Unsqueeze", since=1)
def unsqueeze_by_attribute(b: ImportBuilder, x: Value, *, axes: Sequence[int]) -> Value:
    return with_new_axes(b, x, normalized_axes(axes, type_of(x).rank + len(axes)))


@onnx_rule("Unsqueeze", since=13)
def unsqueeze(b: ImportBuilder, x: Value, axes: Value) -> Value:
    return unsqueeze_by_attribute(b, x, axes=b.known_ints(axes, "axes"))


@onnx_rule("Transpose", since=1)
def transpose(b: ImportBuilder, x: Value, *, perm: Sequence[int] | None = None) -> Value:
    rank = type_of(x).rank
    order = tuple(reversed(range(rank))) if perm is None else tuple(normalized_axis(p, rank, "perm") for p in perm)
    return b.transposed(x, order)


@onnx_rule("Expand", since=8)
def expand(b: ImportBuilder, x: Value, shape: Value) -> Value:
    wanted = b.known_sizes(shape, "the shape")
    if wanted is None:
        return b.dynamic_expand(x, shape, result_types=inferred_reshape(b, type_of(x), type_of(shape).shape, expanded_sizes(b, x, shape)))
    return broadcast_to(b, x, wanted)


def expanded_sizes(b: ImportBuilder, x: Value, shape: Value) -> list[Dim] | None:
    """The sizes of an expansion to a shape computed at run time, as far as they are known: two broadcast sizes are equal, or one is 1."""
    have, wanted = dims_of(x), b.partial_sizes(shape)
    if wanted is None:
        return None
    rank = max(len(have), len(wanted))
    old, new = [1] * (rank - len(have)) + list(have), [1] * (rank - len(wanted)) + wanted
    return [h if w == 1 or (isinstance(h, int) and h != 1) else w if h == 1 or isinstance(w, int) else None for h, w in zip(old, new, strict=True)]


@onnx_rule("Concat", since=4)
def concat(b: ImportBuilder, first: Value, *others: Value, axis: int) -> Value:
    return b.concat([first, *others], axis=normalized_axis(axis, type_of(first).rank)) if others else first


@onnx_rule("Split", since=2)
def split_by_attribute(b: ImportBuilder, x: Value, *, axis: int = 0, split: Sequence[int | Size] = ()) -> list[Value]:
    axis = normalized_axis(axis, type_of(x).rank)
    size = dims_of(x)[axis]
    if not split:
        parts = b.node.output_count
        chunk = -(-size // parts)
        if isinstance(size, int):
            split = [min(chunk, max(size - i * chunk, 0)) for i in range(parts)]
        else:  # the last part has the remainder; sizes without a remainder get specialised code
            split = [*[chunk] * (parts - 1), size - (parts - 1) * chunk]
            holds(split[-1], ">=", 0)
    split = parts_that_fit(split, x, axis)
    if len(split) != b.node.output_count:
        raise ModelError(f"{len(split)} parts are given for {b.node.output_count} outputs")
    return split_axis(b, x, axis, split)


def parts_that_fit(sizes: Sequence[int | Size], x: Value, axis: int) -> Sequence[int | Size]:
    """The sizes of the parts of `x` along an axis. Raises ModelError unless they sum to its size."""
    size = dims_of(x)[axis]
    if min((s for s in sizes if isinstance(s, int)), default=0) < 0 or not holds(sum(sizes), "==", size):
        raise ModelError(f"the parts {list(sizes)} must be sizes that sum to {size}, the size of axis {axis} of {type_of(x)}")
    return sizes


@onnx_rule("Split", since=13)
def split_by_input(b: ImportBuilder, x: Value, split: Value | None = None, *, axis: int = 0, num_outputs: int = 0) -> list[Value]:
    if num_outputs and num_outputs != b.node.output_count:
        raise ModelError(f"num_outputs is {num_outputs}, the node has {b.node.output_count} outputs")
    return split_by_attribute(b, x, axis=axis, split=() if split is None else b.bound_sizes(split, "the sizes of the parts"))


@onnx_rule("Tile", since=6)
def tile(b: ImportBuilder, x: Value, repeats: Value) -> Value:
    counts, have = b.bound_sizes(repeats, "repeats"), dims_of(x)
    if all(isinstance(count, int) for count in counts):
        return x if all(c == 1 for c in counts) and len(counts) == len(have) else b.tile(x, repeats=counts)
    if len(counts) != len(have):
        raise ModelError(f"repeats must have {len(have)} entries for {type_of(x)}, got {len(counts)}")
    unmerged = b.with_shape(x, [size for own in have for size in (1, own)])
    repeated = b.expand(unmerged, shape=tuple(size for pair in zip(counts, have, strict=True) for size in pair))
    return b.with_shape(repeated, [count * own for count, own in zip(counts, have, strict=True)])


PadMode: TypeAlias = Literal["constant", "edge", "reflect", "wrap"]


@onnx_rule("Pad", since=2)
def pad_by_attributes(b: ImportBuilder, x: Value, *, pads: Sequence[int], mode: PadMode = "constant", value: float = 0.0) -> Value:
    return padded(b, x, [max(p, 0) for p in pads], [max(-p, 0) for p in pads], mode=mode, value=value)


def padded(b: ImportBuilder, x: Value, pads: Sequence[int | Size], crops: Sequence[int | Size], *, mode: PadMode, value: float = 0.0) -> Value:
    """`x` without the `crops`, and padded with `pads`: nonnegative numbers, first those before each dimension, then those after it."""
    rank = type_of(x).rank
    if len(pads) != 2 * rank:
        raise ModelError(f"pads must have {2 * rank} entries for a tensor of rank {rank}, got {list(pads)}")
    for axis, (low, high) in enumerate(zip(crops[:rank], crops[rank:], strict=True)):
        left = dims_of(x)[axis] - low - high
        if not holds(left, ">=", 0):
            raise ModelError(f"pads crop dimension {axis} of {type_of(x)} by {low} and {high}, more than it has")
        x = slice_axis(b, x, axis, low, left)
    before, after = list(pads[:rank]), list(pads[rank:])
    for axis, size in enumerate(dims_of(x)):
        if mode != "constant" and not is_static([size, before[axis], after[axis]]) and (before[axis], after[axis]) != (0, 0):
            x = b.gather(x, padded_places(b, size, before[axis], after[axis], mode), axis=axis)
            before[axis] = after[axis] = 0
    for axis in [i for i, ends in enumerate(zip(before, after, strict=True)) if not is_static(ends)]:
        x = between(b, x, axis, before[axis], after[axis], value)
        before[axis] = after[axis] = 0
    known_before, known_after = (tuple(static_sizes(side)) for side in (before, after))
    return b.pad(x, low=known_before, high=known_after, mode=mode, value=float(value)) if any((*known_before, *known_after)) else x


def between(b: ImportBuilder, x: Value, axis: int, low: int | Size, high: int | Size, value: float) -> Value:
    """`x` with `low` and `high` elements of that value before and behind it along an axis."""

    def filled(count: int | Size) -> Value:
        return b.expand(b.scalar(value, like=x), shape=tuple(count if i == axis else size for i, size in enumerate(dims_of(x))))

    return b.concat([filled(low), x, filled(high)], axis=axis)


def padded_places(b: ImportBuilder, size: int | Size, low: int | Size, high: int | Size, mode: PadMode) -> Value:
    """The source index of each element of a padded dimension, if some of the sizes are known only at run time."""
    has_elements(size, low + high)  # there is something to copy
    index = counting(b, size + low + high)
    index, length = b.sub(index, size_scalar(b, low, index)), size_scalar(b, size, index)
    zero, one, two = (b.scalar(number, like=index) for number in (0, 1, 2))
    if mode == "wrap":
        return b.mod(index, length, fmod=False)
    last = b.sub(length, one)
    if mode == "edge":
        return b.minimum(b.maximum(index, zero), last)
    period = b.maximum(b.mul(last, two), one)  # there and back again
    turned = b.mod(index, period, fmod=False)
    return b.minimum(turned, b.sub(period, turned))


@onnx_rule("Pad", since=11)
def pad(
    b: ImportBuilder, x: Value, pads: Value, constant_value: Value | None = None, axes: Value | None = None, *, mode: PadMode = "constant"
) -> Value:
    rank = type_of(x).rank
    amounts, crops = pads_and_crops(b, pads)
    chosen = range(rank) if axes is None else [normalized_axis(a, rank, "axes") for a in b.known_ints(axes, "axes")]
    if len(amounts) != 2 * len(chosen):
        raise ModelError(f"pads must have {2 * len(chosen)} entries for {len(chosen)} axes, got {list(amounts)}")
    added: list[int | Size] = [0 for _ in range(2 * rank)]
    taken: list[int | Size] = [0 for _ in range(2 * rank)]
    for i, axis in enumerate(chosen):
        for every, given in ((added, amounts), (taken, crops)):
            every[axis], every[rank + axis] = given[i], given[len(chosen) + i]
    number = None if constant_value is None else b.constant_value(constant_value)
    if constant_value is None or mode != "constant" or (number is not None and (is_float(type_of(x).dtype) or is_exact(number))):
        return padded(b, x, added, taken, mode=mode, value=0.0 if number is None else float(number.reshape(-1)[0]))
    inside, around = (padded(b, v, added, taken, mode="constant") for v in (truth(b, x), x))
    return b.select(inside, around, b.with_shape(constant_value, ()))


def pads_and_crops(b: ImportBuilder, pads: Value) -> tuple[Sequence[int | Size], Sequence[int | Size]]:
    """The amounts to add and to remove, one of which is 0: negative pads crop."""
    amounts = b.constant_value(pads)
    found = listed(amounts, "pads") if amounts is not None else b.known_sizes(pads, "pads")
    if found is not None:
        return [maximum(p, 0) for p in found], [maximum(-p, 0) for p in found]
    both = [b.maximum(v, b.scalar(0, like=v)) for v in (pads, b.neg(pads))]
    return b.bound_sizes(both[0], "pads"), b.bound_sizes(both[1], "pads")


@onnx_rule("DepthToSpace", since=1)
def depth_to_space(b: ImportBuilder, x: Value, *, blocksize: int, mode: Literal["DCR", "CRD"] = "DCR") -> Value:
    n, c, h, w = image_dims(x)
    if blocksize < 1 or not divides(blocksize * blocksize, c):
        raise ModelError(f"the {c} channels of {type_of(x)} are not a multiple of blocksize {blocksize} squared")
    depth = c // (blocksize * blocksize)
    if mode == "DCR":
        blocks = b.transposed(b.with_shape(x, (n, blocksize, blocksize, depth, h, w)), (0, 3, 4, 1, 5, 2))
    else:
        blocks = b.transposed(b.with_shape(x, (n, depth, blocksize, blocksize, h, w)), (0, 1, 4, 2, 5, 3))
    return b.with_shape(blocks, (n, depth, h * blocksize, w * blocksize))


@onnx_rule("SpaceToDepth", since=1)
def space_to_depth(b: ImportBuilder, x: Value, *, blocksize: int, mode: Literal["DCR", "CRD"] = "DCR") -> Value:
    n, c, h, w = image_dims(x)
    if blocksize < 1 or not divides(blocksize, h) or not divides(blocksize, w):
        raise ModelError(f"the spatial dimensions of {type_of(x)} are not multiples of blocksize {blocksize}")
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    blocks = b.with_shape(x, (n, c, h // blocksize, blocksize, w // blocksize, blocksize))
    return b.with_shape(b.transposed(blocks, order), (n, c * blocksize * blocksize, h // blocksize, w // blocksize))


def image_dims(x: Value) -> tuple[int | Size, int | Size, int | Size, int | Size]:
    """The four sizes of an image tensor. Raises ModelError if its rank is not 4."""
    dims = dims_of(x)
    if len(dims) != 4:
        raise ModelError(f"its input must have rank 4, got {type_of(x)}")
    return dims[0], dims[1], dims[2], dims[3]


FARTHEST = 1 << 48  # more than a dimension has elements


@onnx_rule("Trilu", since=14)
def trilu(b: ImportBuilder, x: Value, k: Value | None = None, *, upper: int = 1) -> Value:
    dims = dims_of(x)
    if len(dims) < 2:
        raise ModelError(f"its input must have rank 2 or more, got {type_of(x)}")
    columns = counting(b, dims[-1], 1, 2)
    first = b.add(counting(b, dims[-2], 0, 2), diagonal(b, k, dims[-2], dims[-1]))
    mask = b.greater_equal(columns, first) if upper else b.less_equal(columns, first)
    return b.select(mask, x, b.scalar(0, like=x))


def diagonal(b: ImportBuilder, k: Value | None, rows: int | Size, columns: int | Size) -> Value:
    """The index of a diagonal as an i64 scalar; one beyond the matrix is clamped, so that adding a row index cannot overflow."""
    below, above = (n if isinstance(n, int) else FARTHEST for n in (rows, columns))
    if k is not None and b.constant_value(k) is None:
        return b.clamp(b.convert(b.with_shape(k, ()), "i64"), min=float(-below), max=float(above))
    number = 0 if k is None else int(b.known_scalar(k, "the diagonal k"))
    return b.literal(np.array(min(max(number, -below), above), np.int64))


@onnx_rule("ReverseSequence", since=10)
def reverse_sequence(b: ImportBuilder, x: Value, lengths: Value, *, batch_axis: int = 1, time_axis: int = 0) -> Value:
    dims = dims_of(x)
    if len(dims) < 2:
        raise ModelError(f"its input must have rank 2 or more, got {type_of(x)}")
    batch, time = normalized_axis(batch_axis, len(dims), "batch_axis"), normalized_axis(time_axis, len(dims), "time_axis")
    if {batch, time} != {0, 1}:
        raise ModelError(f"batch_axis and time_axis must be 0 and 1 in some order, got {batch_axis} and {time_axis}")
    place = counting(b, dims[time], time, 2)
    length = b.with_shape(b.convert(lengths, "i64"), [dims[batch] if i == batch else 1 for i in range(2)])
    mirrored = b.sub(b.sub(length, place), b.literal(np.array(1, np.int64)))
    turned = from_the_start(b, length, dims[time], b.select(b.less(place, length), mirrored, place))
    if time == 1:
        return b.gather_nd(x, with_new_axes(b, turned, [2]), batch_dims=1)
    both = [b.expand(places, shape=dims[:2]) for places in (turned, counting(b, dims[batch], batch, 2))]
    return b.gather_nd(x, b.concat([with_new_axes(b, places, [2]) for places in both], axis=2), batch_dims=0)
