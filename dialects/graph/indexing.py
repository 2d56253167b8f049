"""Operations that select or replace elements of a tensor: slices, gathers, scatters."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Dim, Size, holds, is_static, maximum
from stepwell.dialects.core.types import BOOL, NUMERIC, TensorType, type_of
from stepwell.dialects.graph.base import GraphOp, IndexOperand, InferredTypes, MovesData, Operand, Pure, Result, SingleOperand, Sizes
from stepwell.dialects.graph.flops import one_per_input
from stepwell.dialects.graph.inference import (
    INDEX,
    expect_at_least,
    expect_axis,
    expect_choice,
    expect_dim,
    expect_dtype,
    expect_length,
    expect_rank,
    expect_rank_at_least,
    expect_same_dtype,
    expect_scalar,
    expect_shape,
)
from stepwell.dialects.graph.numerics import checked_indices, narrow, wide
from stepwell.dialects.graph.traits import Speculatable
from stepwell.dialects.support.errors import InferenceError, StepwellError

_REDUCTIONS: dict[str, Any] = {"none": None, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


class SliceOp(SingleOperand, name="slice", traits=[Pure, MovesData, Speculatable]):
    """`sizes[i]` elements along each dimension `i`, starting at `starts[i]` with step `steps[i]` (backwards if negative).

    A size of -1 with a positive step means all remaining elements.
    """

    starts: Sizes
    sizes: Sizes
    steps: ir.DenseI64ArrayAttr

    @staticmethod
    def infer(x: TensorType, *, starts: Sequence[int | Size], sizes: Sequence[int | Size], steps: Sequence[int]) -> InferredTypes:
        for name, values in (("starts", starts), ("sizes", sizes), ("steps", steps)):
            expect_length(name, values, x.rank, "one for each dimension")
        expect_at_least("starts", [start for start in starts if isinstance(start, int)], 0)
        expect_at_least("sizes", [size for size in sizes if isinstance(size, int)], -1)
        return x.with_shape(tuple(slice_size(x, i, *entry) for i, entry in enumerate(zip(starts, sizes, steps, strict=True))))

    @staticmethod
    def reference(x: np.ndarray, *, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]) -> np.ndarray:
        picked = []
        for start, size, step in zip(starts, sizes, steps, strict=True):
            stop = None if size == -1 else start + size * step
            picked.append(slice(start, None if stop is not None and stop < 0 else stop, step))
        return x[tuple(picked)]

    def batched_attributes(self, count: int | Size) -> dict[str, Any]:
        """The attributes that take all of the new dimension."""
        values = self.attribute_values()
        return {"starts": (0, *values["starts"]), "sizes": (-1, *values["sizes"]), "steps": (1, *values["steps"])}

    def contiguous_run(self) -> Dim:
        """The slice of the last dimension, if its step is 1. 0 if the slice begins at an index that is known only at run time (not affine)."""
        values = self.attribute_values()
        return self.result_types()[0].shape[-1] if is_static(values["starts"]) and values["steps"][-1:] == (1,) else 0


def slice_size(x: TensorType, dim: int, start: int | Size, size: int | Size, step: int) -> Dim:
    """The result's size along one dimension of a slice. Raises InferenceError if the slice leaves the operand."""
    have = x.shape[dim]
    if step == 0 or (size == -1 and step < 0):
        raise InferenceError(f"the step along dimension {dim} must not be 0, nor negative where the size is -1; got {step}")
    if size == -1:
        count = None if have is None else -((start - have) // step)
        return count if count is None or start == 0 else maximum(count, 0)  # a dimension has at least 0 elements, whatever its size is computed from
    last = start + (size - 1) * step
    least, most = (start, last) if step > 0 else (last, start)
    if size != 0 and not (holds(least, ">=", 0) and holds(most + 1, "<=", have)):
        raise InferenceError(f"the slice of dimension {dim} (start {start}, size {size}, step {step}) leaves operand 'x' ({x})")
    return size


class DynamicSliceOp(GraphOp, name="dynamic_slice", traits=[Pure, MovesData]):
    """`x[start:end:step]` along each of `axes`: negative bounds count from the end, and bounds out of range are clamped.

    All four are vectors of equal length. The result's sizes are unknown unless the builder gets `result_types`.
    """

    x: Operand
    starts: Operand
    ends: Operand
    axes: Operand
    steps: Operand
    result: Result

    @staticmethod
    def infer(x: TensorType, starts: TensorType, ends: TensorType, axes: TensorType, steps: TensorType) -> InferredTypes:
        for name, operand in (("starts", starts), ("ends", ends), ("axes", axes), ("steps", steps)):
            expect_rank(name, operand, 1)
            expect_dtype(name, operand, INDEX)
            expect_dim(name, operand, 0, starts.shape[0], f"the length of operand 'starts' ({starts})")
        return x.with_shape((None,) * x.rank)

    @staticmethod
    def reference(x: np.ndarray, starts: np.ndarray, ends: np.ndarray, axes: np.ndarray, steps: np.ndarray) -> np.ndarray:
        for start, end, axis, step in zip(starts.tolist(), ends.tolist(), checked_indices(axes, x.ndim).tolist(), steps.tolist(), strict=True):
            x = np.take(x, np.arange(*slice_bounds(start, end, step, x.shape[axis]), step), axis=axis)
        return x


def slice_bounds(start: int, end: int, step: int, size: int) -> tuple[int, int]:
    """The first index and the end (which may be -1 for a negative step) of a slice of a dimension of `size`, by ONNX's rules."""
    if step == 0:
        raise StepwellError("a step of a slice is 0")
    low, high = (0, size) if step > 0 else (-1, size - 1)
    start, end = (b + size if b < 0 else b for b in (start, end))
    # Unlike in numpy, an ONNX slice with a negative step that begins before the first element begins at the first element.
    return min(max(start, 0), high), min(max(end, low), high)


class GatherOp(GraphOp, name="gather", traits=[Pure, MovesData]):
    """The slices of `x` along `axis` at `indices`, whose shape replaces that dimension; negative indices count from the end."""

    x: Operand
    indices: Operand
    result: Result
    axis: ir.IntegerAttr

    def index_operand(self) -> IndexOperand:
        return IndexOperand(self.indices, (self.attribute_values()["axis"],), guarded=True)

    @staticmethod
    def infer(x: TensorType, indices: TensorType, *, axis: int) -> InferredTypes:
        expect_dtype("indices", indices, INDEX)
        expect_axis("axis", axis, x.rank)
        return x.with_shape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))

    @staticmethod
    def reference(x: np.ndarray, indices: np.ndarray, *, axis: int) -> np.ndarray:
        return np.take(x, checked_indices(indices, x.shape[axis]), axis=axis)


class GatherElementsOp(GraphOp, name="gather_elements", traits=[Pure, MovesData]):
    """For each element of `indices`, the element of `x` at the same position, except at that index along `axis`."""

    x: Operand
    indices: Operand
    result: Result
    axis: ir.IntegerAttr

    def index_operand(self) -> IndexOperand:
        return IndexOperand(self.indices, (self.attribute_values()["axis"],), guarded=True)

    @staticmethod
    def infer(x: TensorType, indices: TensorType, *, axis: int) -> InferredTypes:
        expect_elements(x, indices, axis)
        return x.with_shape(indices.shape)

    @staticmethod
    def reference(x: np.ndarray, indices: np.ndarray, *, axis: int) -> np.ndarray:
        return x[element_places(indices, axis, x.shape[axis])]


class GatherNdOp(GraphOp, name="gather_nd", traits=[Pure, MovesData]):
    """The slices of `x` at the index vectors in the last dimension of `indices`; the first `batch_dims` dimensions are batch dimensions."""

    x: Operand
    indices: Operand
    result: Result
    batch_dims: ir.IntegerAttr

    def index_operand(self) -> IndexOperand:
        first = self.attribute_values()["batch_dims"]
        return IndexOperand(self.indices, tuple(range(first, first + index_depth(type_of(self.indices)))), vectors=True, guarded=True)

    @staticmethod
    def infer(x: TensorType, indices: TensorType, *, batch_dims: int) -> InferredTypes:
        depth = index_depth(indices)
        if not 0 <= batch_dims < indices.rank:
            raise InferenceError(f"attribute 'batch_dims' must be from 0 to {indices.rank - 1} for operand 'indices' ({indices}), got {batch_dims}")
        if batch_dims + depth > x.rank:
            raise InferenceError(f"{batch_dims} batch dimensions and index vectors of {depth} need as high a rank of operand 'x', got {x}")
        for dim in range(batch_dims):
            expect_dim("indices", indices, dim, x.shape[dim], f"the batch dimension of operand 'x' ({x})")
        return x.with_shape((*indices.shape[:-1], *x.shape[batch_dims + depth :]))

    @staticmethod
    def reference(x: np.ndarray, indices: np.ndarray, *, batch_dims: int) -> np.ndarray:
        batch = np.ix_(*map(np.arange, indices.shape[:batch_dims]))
        inner = indices.ndim - 1 - batch_dims
        batch_places = [b.reshape(*b.shape, *[1] * inner) for b in batch]
        places = [checked_indices(indices[..., i], x.shape[batch_dims + i]) for i in range(indices.shape[-1])]
        return x[(*batch_places, *places)]


class ScatterElementsOp(GraphOp, name="scatter_elements", traits=[Pure]):
    """`x` with each element of `updates` stored, or combined by `reduction`, at its index in `indices` along `axis`.

    Without a reduction, duplicate indices are undefined. Negative indices count from the end, or are out of range with `from_start`.
    """

    x: Operand
    indices: Operand
    updates: Operand
    result: Result
    axis: ir.IntegerAttr
    reduction: ir.StringAttr
    from_start: ir.BoolAttr

    def copied_operands(self) -> list[ir.Value]:
        """`x`, some of whose elements are then overwritten."""
        return [self.x]

    def index_operand(self) -> IndexOperand:
        attributes = self.attribute_values()
        return IndexOperand(self.indices, (attributes["axis"],), from_start=attributes["from_start"], guarded=type_of(self.updates).rank > 0)

    @staticmethod
    def infer(x: TensorType, indices: TensorType, updates: TensorType, *, axis: int, reduction: str, from_start: bool) -> InferredTypes:
        del from_start
        expect_elements(x, indices, axis)
        expect_updates(x, updates, indices.shape, reduction)
        return x

    @staticmethod
    def reference(x: np.ndarray, indices: np.ndarray, updates: np.ndarray, *, axis: int, reduction: str, from_start: bool) -> np.ndarray:
        return scatter(x, element_places(indices, axis, x.shape[axis], from_start=from_start), updates, reduction)


class ScatterNdOp(GraphOp, name="scatter_nd", traits=[Pure]):
    """`x` with the slices of `updates` stored, or combined by `reduction`, at the index vectors in the last dimension of `indices`.

    Without a reduction, duplicate index vectors are undefined.
    """

    x: Operand
    indices: Operand
    updates: Operand
    result: Result
    reduction: ir.StringAttr

    def copied_operands(self) -> list[ir.Value]:
        """`x`, some of whose elements are then overwritten."""
        return [self.x]

    def index_operand(self) -> IndexOperand:
        return IndexOperand(self.indices, tuple(range(index_depth(type_of(self.indices)))), vectors=True, guarded=type_of(self.updates).rank > 0)

    @staticmethod
    def infer(x: TensorType, indices: TensorType, updates: TensorType, *, reduction: str) -> InferredTypes:
        depth = index_depth(indices)
        if depth > x.rank:
            raise InferenceError(f"index vectors of {depth} need operand 'x' of rank {depth} or more, got {x}")
        expect_updates(x, updates, (*indices.shape[:-1], *x.shape[depth:]), reduction)
        return x

    @staticmethod
    def reference(x: np.ndarray, indices: np.ndarray, updates: np.ndarray, *, reduction: str) -> np.ndarray:
        places = tuple(checked_indices(indices[..., i], x.shape[i]) for i in range(indices.shape[-1]))
        return scatter(x, places, updates, reduction)


class AtRoundOp(GraphOp, name="at_round", traits=[Pure, MovesData]):
    """The slice of `x` along `axis` for iteration `round` of a loop, which must be within `x`; counted from the end if `backwards`."""

    x: Operand
    round: Operand
    result: Result
    axis: ir.IntegerAttr
    backwards: ir.BoolAttr

    @staticmethod
    def infer(x: TensorType, round: TensorType, *, axis: int, backwards: bool) -> InferredTypes:
        expect_axis("axis", axis, x.rank)
        expect_scalar("round", round, ("i64",))
        return x.with_shape([size for i, size in enumerate(x.shape) if i != axis])

    @staticmethod
    def reference(x: np.ndarray, round: np.ndarray, *, axis: int, backwards: bool) -> np.ndarray:
        return np.take(x, x.shape[axis] - 1 - int(round) if backwards else int(round), axis)


class NonZeroOp(SingleOperand, name="non_zero", flops=one_per_input, traits=[Pure]):
    """The indices of the non-zero elements of `x` in row-major order: one row per dimension, one column per element."""

    @staticmethod
    def infer(x: TensorType) -> InferredTypes:
        expect_dtype("x", x, (BOOL, *NUMERIC))
        return TensorType("i64", (x.rank, None))

    @staticmethod
    def reference(x: np.ndarray) -> np.ndarray:
        return np.argwhere(wide(x)).T.astype(np.int64)


def expect_elements(x: TensorType, indices: TensorType, axis: int) -> None:
    """Check that `indices` can select one element of `x` for each of its own positions."""
    expect_dtype("indices", indices, INDEX)
    expect_rank_at_least("x", x, 1)
    expect_rank("indices", indices, x.rank)
    expect_axis("axis", axis, x.rank)
    for dim, (have, want) in enumerate(zip(x.shape, indices.shape, strict=True)):
        if dim != axis and not holds(want, "<=", have):
            raise InferenceError(f"dimension {dim} of operand 'indices' must be at most {have}, as in operand 'x' ({x}); got {indices}")


def expect_updates(x: TensorType, updates: TensorType, shape: Sequence[Dim], reduction: str) -> None:
    """Check that `updates` has the element type of `x` and this shape, and supports the reduction."""
    expect_choice("reduction", reduction, tuple(_REDUCTIONS))
    expect_same_dtype(x=x, updates=updates)
    if reduction != "none":
        expect_dtype("x", x, NUMERIC)
    expect_shape("updates", updates, shape, "as operands 'indices' and 'x' say")


def index_depth(indices: TensorType) -> int:
    """The length of the index vectors in the last dimension."""
    expect_dtype("indices", indices, INDEX)
    expect_rank_at_least("indices", indices, 1)
    depth = indices.shape[-1]
    if not isinstance(depth, int):
        raise InferenceError(f"the last dimension of operand 'indices' must be known, got {indices}")
    return depth


def element_places(indices: np.ndarray, axis: int, size: int, *, from_start: bool = False) -> tuple[np.ndarray, ...]:
    """Index arrays for the positions that `indices` selects along `axis`; the other indices stay the same."""
    places = list(np.ix_(*map(np.arange, indices.shape)))
    places[axis] = checked_indices(indices, size, from_start=from_start)
    return tuple(places)


def scatter(x: np.ndarray, places: tuple[np.ndarray, ...], updates: np.ndarray, reduction: str) -> np.ndarray:
    """A copy of `x` with `updates` stored or combined at `places`."""
    function = _REDUCTIONS[reduction]
    if function is None:
        out = x.copy()
        out[places] = updates
        return out
    total = wide(x).copy()
    function.at(total, places, wide(updates))
    return narrow(total, x.dtype)
