"""Operations that rearrange a tensor, with parameters known at compile time, and dynamic versions that read sizes from tensors."""

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Dim, Size, divides, holds, is_static, product, static_sizes
from stepwell.dialects.core.types import MAX_RANK, NUMERIC, TensorType, dtype_info
from stepwell.dialects.graph.base import (
    Fusion,
    GraphOp,
    InferredTypes,
    KeepsChannels,
    MovesData,
    Operand,
    Pure,
    Result,
    SingleOperand,
    Sizes,
    VariadicOperand,
)
from stepwell.dialects.graph.flops import no_arithmetic
from stepwell.dialects.graph.inference import (
    INDEX,
    expect_at_least,
    expect_axis,
    expect_choice,
    expect_dtype,
    expect_length,
    expect_rank,
    expect_same_dtype,
    expect_scalar,
)
from stepwell.dialects.graph.numerics import narrow, wide
from stepwell.dialects.graph.traits import JoinsData, KeepsAll, KeepsEach, Speculatable
from stepwell.dialects.graph.value_range import ANY, Range, union
from stepwell.dialects.support.errors import ElementTypeError, InferenceError, StepwellError

PAD_MODES = ("constant", "edge", "reflect", "wrap")


class ReshapeOp(SingleOperand, name="reshape", fusion=Fusion.FREE, traits=[Pure, MovesData, KeepsEach, Speculatable]):
    """The elements of `x` in row-major order with another shape; one entry may be -1 and is inferred."""

    shape: Sizes

    @staticmethod
    def infer(x: TensorType, *, shape: Sequence[int | Size]) -> InferredTypes:
        expect_at_least("shape", [s for s in shape if isinstance(s, int)], -1)
        if shape.count(-1) > 1:
            raise InferenceError(f"attribute 'shape' may have one -1, got {list(shape)}; use dynamic_reshape where more sizes are unknown")
        count, said = x.size, product(s for s in shape if s != -1)
        if count is None or said is None:
            return x.with_shape([None if s == -1 else s for s in shape])
        if -1 in shape and (said == 0 or not divides(said, count)):
            raise InferenceError(f"attribute 'shape' {list(shape)} does not divide the {count} elements of operand 'x' ({x})")
        sizes = [count // said if s == -1 else s for s in shape]
        if not holds(product(sizes), "==", count):
            raise InferenceError(f"attribute 'shape' {list(shape)} has {product(sizes)} elements, operand 'x' ({x}) has {count}")
        return x.with_shape(sizes)

    @staticmethod
    def reference(x: np.ndarray, *, shape: Sequence[int]) -> np.ndarray:
        return x.reshape(shape)

    def batched_attributes(self, count: int | Size) -> dict[str, Any]:
        """The attributes with the whole shape, without an inferred entry."""
        return {"shape": (count, *self.result_types()[0].shape)}


class DynamicReshapeOp(GraphOp, name="dynamic_reshape", traits=[Pure, MovesData, KeepsEach]):
    """Like `reshape`, to the shape in the operand `shape`."""

    x: Operand
    shape: Operand
    result: Result

    @staticmethod
    def infer(x: TensorType, shape: TensorType) -> InferredTypes:
        return x.with_shape((None,) * length_of("shape", shape))

    @staticmethod
    def reference(x: np.ndarray, shape: np.ndarray) -> np.ndarray:
        return x.reshape([int(s) for s in shape])


class TransposeOp(SingleOperand, name="transpose", traits=[Pure, MovesData, KeepsEach, Speculatable]):
    """A permutation of the dimensions of `x`: dimension `i` of the result is dimension `perm[i]` of `x`."""

    perm: ir.DenseI64ArrayAttr

    @staticmethod
    def infer(x: TensorType, *, perm: Sequence[int]) -> InferredTypes:
        if sorted(perm) != list(range(x.rank)):
            raise InferenceError(f"attribute 'perm' must be an order of 0 to {x.rank - 1}, the dimensions of operand 'x' ({x}); got {list(perm)}")
        return x.with_shape(tuple(x.shape[p] for p in perm))

    @staticmethod
    def reference(x: np.ndarray, *, perm: Sequence[int]) -> np.ndarray:
        return np.transpose(x, perm)

    def batched_attributes(self, count: int | Size) -> dict[str, Any]:
        """The attributes with the first dimension staying the first."""
        return {"perm": (0, *(axis + 1 for axis in self.attribute_values()["perm"]))}

    def contiguous_run(self) -> Dim:
        """The last dimension, if it stays the last."""
        perm, shape = self.attribute_values()["perm"], self.result_types()[0].shape
        return shape[-1] if perm[-1:] == (len(shape) - 1,) else 0


class ExpandOp(SingleOperand, name="expand", traits=[Pure, MovesData, KeepsAll, Speculatable]):
    """`x` broadcast to `shape`, which has its rank or a higher one; -1 keeps the size of `x`."""

    shape: Sizes

    @staticmethod
    def infer(x: TensorType, *, shape: Sequence[int | Size]) -> InferredTypes:
        expect_at_least("shape", [s for s in shape if isinstance(s, int)], -1)
        new = len(shape) - x.rank
        if new < 0 or -1 in shape[:new]:
            raise InferenceError(f"attribute 'shape' must have {x.rank} entries or more, sizes before these; got {list(shape)} for operand 'x' ({x})")
        for size, wanted in zip(x.shape, shape[new:], strict=True):
            if size != 1 and wanted != -1 and not holds(size, "==", wanted):
                raise InferenceError(f"operand 'x' ({x}) does not broadcast to attribute 'shape' {list(shape)}")
        return x.with_shape((*shape[:new], *(d if s == -1 else s for d, s in zip(x.shape, shape[new:], strict=True))))

    @staticmethod
    def reference(x: np.ndarray, *, shape: Sequence[int]) -> np.ndarray:
        new = len(shape) - x.ndim
        return np.broadcast_to(x, [x.shape[i - new] if s == -1 else s for i, s in enumerate(shape)])

    def batched_attributes(self, count: int | Size) -> dict[str, Any]:
        """The attributes with the whole shape, for tensors of that rank."""
        return {"shape": (count, *self.result_types()[0].shape)}


class DynamicExpandOp(GraphOp, name="dynamic_expand", traits=[Pure, MovesData, KeepsAll]):
    """`x` broadcast to the shape in the operand `shape` (both are broadcast against each other)."""

    x: Operand
    shape: Operand
    result: Result

    @staticmethod
    def infer(x: TensorType, shape: TensorType) -> InferredTypes:
        rank = max(x.rank, length_of("shape", shape))
        sizes = (1,) * (rank - x.rank) + x.shape
        return x.with_shape(tuple(None if d == 1 else d for d in sizes))

    @staticmethod
    def reference(x: np.ndarray, shape: np.ndarray) -> np.ndarray:
        return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(int(s) for s in shape)))


class TileOp(SingleOperand, name="tile", traits=[Pure, MovesData, KeepsAll]):
    """`x` repeated `repeats[i]` times along each dimension `i`."""

    repeats: ir.DenseI64ArrayAttr

    @staticmethod
    def infer(x: TensorType, *, repeats: Sequence[int]) -> InferredTypes:
        expect_length("repeats", repeats, x.rank, "one for each dimension")
        expect_at_least("repeats", repeats, 0)
        return x.with_shape(tuple(None if d is None else d * r for d, r in zip(x.shape, repeats, strict=True)))

    @staticmethod
    def reference(x: np.ndarray, *, repeats: Sequence[int]) -> np.ndarray:
        return np.tile(x, repeats)


class ConcatOp(GraphOp, name="concat", traits=[Pure, JoinsData, Speculatable]):
    """The operands joined along `axis`."""

    inputs: VariadicOperand
    result: Result
    axis: ir.IntegerAttr

    @staticmethod
    def infer(inputs: Sequence[TensorType], *, axis: int) -> InferredTypes:
        if not inputs:
            raise InferenceError("takes at least one operand, got none")
        first = inputs[0]
        expect_axis("axis", axis, first.rank)
        sizes = list(first.shape)
        for i, other in enumerate(inputs):
            if other.dtype != first.dtype:
                raise ElementTypeError(f"operand {i} must have the element type of operand 0 ({first}), got {other}")
            if other.rank != first.rank:
                raise InferenceError(f"operand {i} must have the rank of operand 0 ({first}), got {other}")
            for dim, size in enumerate(other.shape):
                if dim != axis and not holds(sizes[dim], "==", size):
                    raise InferenceError(f"dimension {dim} of operand {i} must be {sizes[dim]}, as in the operands before it; got {other}")
                sizes[dim] = size if sizes[dim] is None or isinstance(size, int) else sizes[dim]
        along = [t.shape[axis] for t in inputs]
        sizes[axis] = None if None in along else sum(s for s in along if s is not None)
        return first.with_shape(tuple(sizes))

    @staticmethod
    def reference(inputs: Sequence[np.ndarray], *, axis: int) -> np.ndarray:
        return np.concatenate(inputs, axis=axis)

    @property
    def is_contiguous(self) -> bool:
        """Whether the operands are contiguous in the result's memory: all dimensions before the axis are 1."""
        return all(size == 1 for size in self.result_types()[0].shape[: self.attribute_values()["axis"]])

    def batched_attributes(self, count: int | Size) -> dict[str, Any]:
        """The attributes with the axis shifted by the new dimension."""
        return {"axis": self.attribute_values()["axis"] + 1}

    def operand_channels(self) -> list[slice | None]:
        if self.attribute_values()["axis"] != 1:
            return [None] * len(self.operation.operands)
        sizes = static_sizes(t.shape[1] for t in self.operand_types()[0])
        return [slice(end - size, end) for size, end in zip(sizes, accumulate(sizes), strict=True)]

    def fusion_category(self) -> Fusion:
        """Operands that are contiguous in the result are computed in place."""
        return Fusion.FREE if self.is_contiguous else Fusion.OPAQUE


class PadOp(SingleOperand, name="pad", flops=no_arithmetic, traits=[Pure, KeepsChannels, KeepsEach]):
    """`x` padded with `low[i]` elements before and `high[i]` after each dimension: with `value`, or with copies from `x` selected by `mode`.

    "edge" repeats the outermost element, "reflect" mirrors about it without repeating it, "wrap" continues from the other end.
    """

    low: Sizes
    high: Sizes
    mode: ir.StringAttr
    value: ir.FloatAttr

    @staticmethod
    def infer(x: TensorType, *, low: Sequence[int | Size], high: Sequence[int | Size], mode: str, value: float) -> InferredTypes:
        expect_choice("mode", mode, PAD_MODES)
        for name, amounts in (("low", low), ("high", high)):
            expect_length(name, amounts, x.rank, "one for each dimension")
            expect_at_least(name, amounts, 0)
        for i, size in enumerate(x.shape):
            if mode != "constant" and size == 0 and low[i] + high[i] != 0:
                raise InferenceError(f"mode '{mode}' has nothing to copy along dimension {i} of operand 'x' ({x})")
        info = dtype_info(x.dtype)
        if mode == "constant" and info.is_compact and not info.is_emulated and (value != 0 or info.limits[0] > 0):
            raise InferenceError(f"constant padding of {x} must be by 0, which the type must have; got {value}")
        return x.with_shape(tuple(None if d is None else d + a + b for d, a, b in zip(x.shape, low, high, strict=True)))

    @staticmethod
    def reference(x: np.ndarray, *, low: Sequence[int], high: Sequence[int], mode: str, value: float) -> np.ndarray:
        amounts = list(zip(low, high, strict=True))
        if mode != "constant":
            return np.pad(x, amounts, mode=mode)  # type: ignore[call-overload]  # numpy lists the modes that there are, not str
        out = np.full([a + s + b for s, (a, b) in zip(x.shape, amounts, strict=True)], np.array(value).astype(x.dtype), dtype=x.dtype)
        out[tuple(slice(a, a + s) for s, (a, _) in zip(x.shape, amounts, strict=True))] = x
        return out

    def fusion_category(self) -> Fusion:
        """Only padding with constants is fused with the producer."""
        return Fusion.PAD if self.attribute_values()["mode"] == "constant" else Fusion.OPAQUE

    def value_range(self, x: Range) -> Range:
        """The union of the operand's range and the padding value."""
        attributes = self.attribute_values()
        return union([x, (attributes["value"],) * 2]) if attributes["mode"] == "constant" else x


class ShapeOfOp(SingleOperand, name="shape_of", flops=no_arithmetic, traits=[Pure]):
    """The sizes of the dimensions of `x`."""

    @staticmethod
    def infer(x: TensorType) -> InferredTypes:
        return TensorType("i64", (x.rank,))

    @staticmethod
    def reference(x: np.ndarray) -> np.ndarray:
        return np.array(x.shape, dtype=np.int64)


class SizesOp(GraphOp, name="sizes", flops=no_arithmetic, traits=[Pure, Speculatable]):
    """Sizes as numbers: the results of arithmetic on the sizes of operands."""

    result: Result
    values: Sizes

    @staticmethod
    def infer(*, values: Sequence[int | Size]) -> InferredTypes:
        return TensorType("i64", (len(values),))

    @staticmethod
    def reference(*, values: Sequence[int]) -> np.ndarray:
        return np.array(values, dtype=np.int64)

    def value_range(self) -> Range:
        """Sizes are not negative; values computed from them may be."""
        values = self.attribute_values()["values"]
        return (min(values), max(values)) if values and is_static(values) else ANY


class RangeOp(GraphOp, name="range", traits=[Pure]):
    """`start`, `start + delta`, `start + 2 * delta`, … up to but not including `limit`."""

    start: Operand
    limit: Operand
    delta: Operand
    result: Result

    @staticmethod
    def infer(start: TensorType, limit: TensorType, delta: TensorType) -> InferredTypes:
        for name, operand in (("start", start), ("limit", limit), ("delta", delta)):
            expect_scalar(name, operand, NUMERIC)
        expect_same_dtype(start=start, limit=limit, delta=delta)
        return TensorType(start.dtype, (None,))

    @staticmethod
    def reference(start: np.ndarray, limit: np.ndarray, delta: np.ndarray) -> np.ndarray:
        if delta == 0:
            raise StepwellError("graph.range: its delta is 0")
        if start.dtype.kind in "iu":
            count = len(range(int(start), int(limit), int(delta)))
        else:
            count = max(math.ceil(float(limit - start) / float(delta)), 0)
        first, step = wide(start), wide(delta)
        return narrow(first + np.arange(count).astype(first.dtype) * step, start.dtype)


def length_of(name: str, shape: TensorType) -> int:
    """The length of an operand that holds one size for each dimension of the result."""
    expect_rank(name, shape, 1)
    expect_dtype(name, shape, INDEX)
    if not isinstance(shape.shape[0], int):
        raise InferenceError(f"operand '{name}' must have a known length, which is the rank of the result; got {shape}")
    if shape.shape[0] > MAX_RANK:
        raise InferenceError(f"operand '{name}' must have at most {MAX_RANK} entries, one for each dimension of the result; got {shape}")
    return shape.shape[0]
