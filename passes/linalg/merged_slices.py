"""Merges dimensions of slices, by slicing the whole tensor after merging the same dimensions there.

A view that merges dimensions needs static strides in its type. Those of a slice are dynamic if sizes are, and then bufferisation copies the slice to
merge the dimensions of the copy.
"""

from math import prod

from stepwell.dialects.core.mlir import arith, defining_op, ir, replace_op, tensor, use_count, users
from stepwell.dialects.core.slices import SlicePlace
from stepwell.dialects.core.symbolic_shapes import constant
from stepwell.passes.linalg.use_destinations import overwritten
from stepwell.passes.linalg.views import TENSOR_VIEWS, exact_shape, strides

_FREE = ir.ShapedType.get_dynamic_size()
Groups = list[list[int]]  # neighbouring dimensions to merge, in order


def merges(value: ir.Value, place: int) -> bool:
    """Whether dimensions `place` and `place + 1` of a tensor, which are contiguous in memory, can be merged by views alone."""
    op = defining_op(value)
    made_of_one = [] if op is None or op.name != "tensor.expand_shape" else [list(group) for group in op.attributes["reassociation"]]
    if any({place, place + 1} <= {int(i) for i in group} for group in made_of_one):
        return True
    if _says_strides(value, place):
        return True
    return op is not None and op.name == "tensor.extract_slice" and _keeps_dimensions(op) and merges(op.operands[0], place)


def merges_written(value: ir.Value, result: ir.Value, place: int) -> bool:
    """Like `merges`, for the output of a nest: `value` is its initial value, `result` its final one."""
    return merges(value, place) and (_says_strides(value, place) or _insertion(value, result) is not None)


def merged(value: ir.Value, groups: Groups) -> ir.Value:
    """A tensor whose dimensions are merged in groups, as far as `merges` allows; built at the insertion point."""
    if not _is_window(value, groups):
        return tensor.CollapseShapeOp(_merged_type(value.type, groups), value, groups).result
    op = defining_op(value)
    assert op is not None
    whole = merged(op.operands[0], groups)
    return tensor.ExtractSliceOp(_merged_type(value.type, groups), whole, *_merged_place(op, groups).arguments).result


def insert_merged(value: ir.Value, result: ir.Value, window: ir.Value, computed: ir.Value, groups: Groups) -> bool:
    """Insert the result of a nest into a window of the merged whole, if the nest started from a slice, `value`, and inserted its `result`.

    `window` is `merged(value, groups)`. Replaces the insertion. Returns False, and changes nothing, if `value` did not become a window.
    """
    if not _is_window(value, groups):
        return False
    insertion, slice_ = _insertion(value, result), defining_op(window)
    assert insertion is not None
    assert slice_ is not None
    old = insertion.results[0]
    with ir.InsertionPoint(insertion), insertion.location:
        placed = tensor.InsertSliceOp(computed, slice_.operands[0], *SlicePlace.from_op(slice_).arguments).result
        free = [tensor.DimOp(insertion.operands[1], constant(i)).result for i, size in enumerate(old.type.shape) if size < 0]
        apart = tensor.ExpandShapeOp(old.type, placed, groups, free, list(old.type.shape)).result
    replace_op(insertion, [apart])
    return True


def _says_strides(value: ir.Value, place: int) -> bool:
    """Whether the type of a buffer shows that two of its dimensions are contiguous."""
    if not _is_sliced(value):
        return True  # it has the layout of its shape
    numbers = (*strides(value)[place : place + 2], exact_shape(value)[place + 1])
    return all(isinstance(number, int) for number in numbers)


def _is_sliced(value: ir.Value) -> bool:
    """Whether a tensor is part of a larger buffer."""
    while (op := defining_op(value)) is not None:
        if op.name == "tensor.extract_slice":
            return True
        below = op.operands[0] if op.name in TENSOR_VIEWS else overwritten(value)
        if below is None:
            return False
        value = below
    return False


def _keeps_dimensions(op: ir.Operation) -> bool:
    """Whether a slice has all dimensions of its source, and all elements between its first and its last one along each."""
    return len(op.results[0].type.shape) == len(op.operands[0].type.shape) and all(step == 1 for step in op.attributes["static_strides"])


def _is_window(value: ir.Value, groups: Groups) -> bool:
    """Whether merging dimensions of a tensor requires a slice of a merged whole."""
    op = defining_op(value)
    if op is None or op.name != "tensor.extract_slice":
        return False
    return not all(_says_strides(value, place) for group in groups for place in group[:-1])


def _insertion(value: ir.Value, result: ir.Value) -> ir.Operation | None:
    """The op that inserts a nest's result back into the slice `value` that the nest started from; None if the result has other uses."""
    slice_, insertion = defining_op(value), next(iter(users(result)), None)
    if slice_ is None or slice_.name != "tensor.extract_slice" or insertion is None or insertion.name != "tensor.insert_slice":
        return None
    fits = use_count(result) == 1 and insertion.operands[1] == slice_.operands[0] and SlicePlace.from_op(slice_) == SlicePlace.from_op(insertion)
    return insertion if fits else None


def _merged_type(kind: ir.Type, groups: Groups) -> ir.Type:
    sizes = [[kind.shape[i] for i in group] for group in groups]
    return ir.RankedTensorType.get([prod(own) if min(own) >= 0 else _FREE for own in sizes], kind.element_type)


def _merged_place(op: ir.Operation, groups: Groups) -> SlicePlace:
    """The position of a slice in the merged whole. All dimensions of a group but the first are whole, since they are contiguous."""
    place = SlicePlace.from_op(op)
    starts = [_times([place.offsets[group[0]], *(place.sizes[i] for i in group[1:])]) for group in groups]
    return SlicePlace(starts, [_times([place.sizes[i] for i in group]) for group in groups], [1] * len(groups))


def _times(factors: "list[int | ir.Value]") -> "int | ir.Value":
    """A product; factors that are not numbers are multiplied at the insertion point."""
    number = prod(factor for factor in factors if isinstance(factor, int))
    values = [factor for factor in factors if not isinstance(factor, int)]
    if not values or number == 0:
        return number
    result = values[0]
    for value in [*values[1:], *([constant(number)] if number != 1 else [])]:
        result = arith.muli(result, value)
    return result
