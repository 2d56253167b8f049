"""Reductions, scans and orderings along axes."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Dim
from stepwell.dialects.core.types import DTYPES, FLOATS, NUMERIC, TensorType
from stepwell.dialects.graph.base import Fusion, GraphOp, InferredTypes, Operand, Pure, Result, SingleOperand
from stepwell.dialects.graph.flops import one_per_input
from stepwell.dialects.graph.inference import INDEX, expect_axes, expect_axis, expect_dtype, expect_scalar
from stepwell.dialects.graph.numerics import highest, lowest, narrow, summing, wide
from stepwell.dialects.graph.traits import ChoosesData
from stepwell.dialects.graph.value_range import ANY, Range


def without_axes(shape: Sequence[Dim], axes: Sequence[int], keepdims: bool) -> tuple[Dim, ...]:
    """A shape with its axes reduced: to 1 if `keepdims`, else removed."""
    if keepdims:
        return tuple(1 if i in axes else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in axes)


def places(size: Dim) -> Range:
    """The range of an index into a dimension of this size."""
    return (0, size - 1) if isinstance(size, int) and size else ANY


def along_axes(dtypes: Sequence[str], x: TensorType, *, axes: Sequence[int], keepdims: bool) -> TensorType:
    """The inference of a reduction of elements of these types."""
    expect_dtype("x", x, dtypes)
    expect_axes("axes", axes, x.rank)
    return x.with_shape(without_axes(x.shape, axes, keepdims))


def accumulated(fold: Callable[..., Any], x: np.ndarray, *, axes: Sequence[int], keepdims: bool) -> np.ndarray:
    """The reference of a reduction by np.sum or np.prod, in f64 for floats."""
    terms = summing(x)
    return narrow(np.asarray(fold(terms, axis=tuple(axes), keepdims=keepdims, dtype=terms.dtype)), x.dtype)


def extreme(fold: Callable[..., Any], initial: Callable[[np.dtype], Any], x: np.ndarray, *, axes: Sequence[int], keepdims: bool) -> np.ndarray:
    """The reference of a reduction by np.max or np.min; `initial` is the result for no elements, by their type."""
    w = wide(x)
    return narrow(np.asarray(fold(w, axis=tuple(axes), keepdims=keepdims, initial=initial(w.dtype))), x.dtype)


class Reduction(SingleOperand, fusion=Fusion.REDUCTION, infer=partial(along_axes, NUMERIC), flops=one_per_input, traits=[Pure]):
    """A reduction of `x` along `axes` (an empty list reduces nothing)."""

    axes: ir.DenseI64ArrayAttr
    keepdims: ir.BoolAttr


class ReduceSumOp(Reduction, name="reduce_sum", reference=partial(accumulated, np.sum)):
    """The sum along `axes`; integers wrap."""


class ReduceProdOp(Reduction, name="reduce_prod", reference=partial(accumulated, np.prod)):
    """The product along `axes`; integers wrap."""


class OrderReduction(Reduction, infer=partial(along_axes, DTYPES)):
    """A reduction that only compares; booleans are ordered too, with false before true."""


class ReduceMaxOp(OrderReduction, name="reduce_max", reference=partial(extreme, np.max, lowest), traits=[ChoosesData]):
    """The maximum along `axes`, NaN if any element is NaN; the type's lowest value for no elements."""


class ReduceMinOp(OrderReduction, name="reduce_min", reference=partial(extreme, np.min, highest), traits=[ChoosesData]):
    """The minimum along `axes`, NaN if any element is NaN; the type's highest value for no elements."""


def index_of_extreme(search: Any, x: np.ndarray, *, axis: int, keepdims: bool, select_last: bool) -> np.ndarray:
    """Apply `search` (np.argmax or np.argmin) from either end of the axis."""
    if select_last:
        return np.asarray(x.shape[axis] - 1 - search(wide(np.flip(x, axis)), axis=axis, keepdims=keepdims))
    return np.asarray(search(wide(x), axis=axis, keepdims=keepdims))


class ArgReduction(SingleOperand, flops=one_per_input, traits=[Pure]):
    """The position of the extreme element of `x` along `axis`: the first such position, or the last if `select_last`."""

    axis: ir.IntegerAttr
    keepdims: ir.BoolAttr
    select_last: ir.BoolAttr

    @staticmethod
    def infer(x: TensorType, *, axis: int, keepdims: bool, select_last: bool) -> InferredTypes:
        expect_dtype("x", x, NUMERIC)
        expect_axis("axis", axis, x.rank)
        return TensorType("i64", without_axes(x.shape, (axis,), keepdims))

    def value_range(self, x: Range) -> Range:
        """The positions along the axis."""
        return places(self.operand_types()[0].shape[self.attribute_values()["axis"]])


class ArgMaxOp(ArgReduction, name="arg_max", reference=partial(index_of_extreme, np.argmax)):
    """The index along `axis` of the maximum: the first, or the last if `select_last`."""


class ArgMinOp(ArgReduction, name="arg_min", reference=partial(index_of_extreme, np.argmin)):
    """The index along `axis` of the minimum: the first, or the last if `select_last`."""


class Scan(SingleOperand, traits=[Pure]):
    """A scan of `x` along `axis`: excludes the current element if `exclusive`, starts at the end if `reverse`."""

    axis: ir.IntegerAttr
    exclusive: ir.BoolAttr
    reverse: ir.BoolAttr

    @staticmethod
    def infer(x: TensorType, *, axis: int, exclusive: bool, reverse: bool) -> InferredTypes:
        expect_dtype("x", x, NUMERIC)
        expect_axis("axis", axis, x.rank)
        return x


def scan(fold: np.ufunc, x: np.ndarray, *, axis: int, exclusive: bool, reverse: bool) -> np.ndarray:
    """Scan with `fold` (np.add or np.multiply), in f64 for floats."""
    terms = np.moveaxis(summing(x), axis, -1)
    terms = terms[..., ::-1] if reverse else terms
    if exclusive:
        terms = np.concatenate([np.full_like(terms[..., :1], fold.identity), terms[..., :-1]], axis=-1)
    folded = fold.accumulate(terms, axis=-1, dtype=terms.dtype)
    return narrow(np.moveaxis(folded[..., ::-1] if reverse else folded, -1, axis), x.dtype)


class CumsumOp(Scan, name="cumsum", reference=partial(scan, np.add)):
    """The cumulative sum along `axis`; integers wrap. It excludes the current element if `exclusive`, and starts at the end if `reverse`."""


class CumprodOp(Scan, name="cumprod", reference=partial(scan, np.multiply)):
    """The cumulative product along `axis`; integers wrap. It excludes the current element if `exclusive`, and starts at the end if `reverse`."""


class NormalisedPowers(SingleOperand, fusion=Fusion.COMPLEX, traits=[Pure]):
    """An op on the exponentials of floats and their sum along an axis."""

    axis: ir.IntegerAttr

    @staticmethod
    def infer(x: TensorType, *, axis: int) -> InferredTypes:
        expect_dtype("x", x, FLOATS)
        expect_axis("axis", axis, x.rank)
        return x

    @staticmethod
    def flops(x: TensorType, *, result: TensorType, axis: int) -> int:
        return 5 * x.elements  # maximum, difference, exponential, sum, and one operation with the sum


class SoftmaxOp(NormalisedPowers, name="softmax"):
    """`exp(x)` divided by its sum along `axis`, computed on `x` minus its maximum."""

    @staticmethod
    def reference(x: np.ndarray, *, axis: int) -> np.ndarray:
        w = wide(x)
        powers = np.exp(w - np.max(w, axis=axis, keepdims=True, initial=-np.inf))
        return narrow(powers / np.sum(powers, axis=axis, keepdims=True, dtype=np.float64).astype(w.dtype), x.dtype)

    def value_range(self, x: Range) -> Range:
        """The range starts at 0; a quotient may be rounded to above 1."""
        return (0, math.inf)


class LogSoftmaxOp(NormalisedPowers, name="log_softmax"):
    """The logarithm of the softmax of `x` along `axis`: `d - log(sum of exp(d))` with `d` = `x` minus its maximum."""

    @staticmethod
    def reference(x: np.ndarray, *, axis: int) -> np.ndarray:
        w = wide(x)
        shifted = w - np.max(w, axis=axis, keepdims=True, initial=-np.inf)
        total = np.sum(np.exp(shifted), axis=axis, keepdims=True, dtype=np.float64)
        return narrow(shifted - np.log(total).astype(w.dtype), x.dtype)


class TopKOp(GraphOp, name="top_k", flops=one_per_input, traits=[Pure]):
    """The `k` largest (or smallest) elements along `axis` and their indices, in order; among equal elements, lower indices come first.

    The results have a dynamic size along `axis` unless the builder gets `result_types` with a known `k`.
    """

    x: Operand
    k: Operand
    values: Result
    indices: Result
    axis: ir.IntegerAttr
    largest: ir.BoolAttr

    @staticmethod
    def infer(x: TensorType, k: TensorType, *, axis: int, largest: bool) -> InferredTypes:
        expect_dtype("x", x, NUMERIC)
        expect_scalar("k", k, INDEX)
        expect_axis("axis", axis, x.rank)
        shape = tuple(None if i == axis else d for i, d in enumerate(x.shape))
        return TensorType(x.dtype, shape), TensorType("i64", shape)

    @staticmethod
    def reference(x: np.ndarray, k: np.ndarray, *, axis: int, largest: bool) -> tuple[np.ndarray, np.ndarray]:
        if largest:  # a stable sort from the end, read backwards, puts lower indices first
            order = np.flip(x.shape[axis] - 1 - np.argsort(wide(np.flip(x, axis)), axis=axis, kind="stable"), axis)
        else:
            order = np.argsort(wide(x), axis=axis, kind="stable")
        chosen = np.take(order, np.arange(int(k)), axis=axis)
        return np.take_along_axis(x, chosen, axis), chosen.astype(np.int64)

    def value_range(self, x: Range, k: Range) -> tuple[Range, ...]:
        """The ranges of the operand's elements and of their positions along the axis."""
        return x, places(self.operand_types()[0].shape[self.attribute_values()["axis"]])
