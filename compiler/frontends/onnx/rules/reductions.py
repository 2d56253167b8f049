"""Rules for reductions, running sums, softmax and orderings along axes."""

import math
from collections.abc import Callable, Sequence
from typing import cast as typed

import numpy as np

from stepwell.dialects.core.sizes import holds
from stepwell.dialects.core.types import TensorType, is_float, type_of
from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.blocks.slicing import along_axis, counting, flattened, reshaped_like, size_scalar
from stepwell.frontends.builder import Value, dims_of, normalized_axes, normalized_axis
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import onnx_rule
from stepwell.frontends.onnx.rounding import rounded_once

Reduce = Callable[[ImportBuilder, Value, tuple[int, ...], bool], Value]


def plain(mnemonic: str) -> Reduce:
    """A reduction that maps to our op of that name."""
    return lambda b, x, axes, keepdims: getattr(b, mnemonic)(x, axes=axes, keepdims=keepdims)


reduce_sum = plain("reduce_sum")


def in_floats(reduce: Reduce) -> Reduce:
    """A reduction with fractional intermediate results: integers are computed in f64 and truncated at the end."""

    def wrapped(b: ImportBuilder, x: Value, axes: tuple[int, ...], keepdims: bool) -> Value:
        dtype = type_of(x).dtype
        return b.convert(reduce(b, b.convert(x, dtype if is_float(dtype) else "f64"), axes, keepdims), dtype)

    return wrapped


def element_count(b: ImportBuilder, x: Value, axes: Sequence[int]) -> Value:
    """The number of elements that a reduction along `axes` combines, as a scalar of the element type of `x`."""
    return size_scalar(b, math.prod(dims_of(x)[axis] for axis in axes), like=x)


def reduce_mean(b: ImportBuilder, x: Value, axes: tuple[int, ...], keepdims: bool) -> Value:
    return b.div(reduce_sum(b, x, axes, keepdims), element_count(b, x, axes))


def sum_of_absolutes(b: ImportBuilder, x: Value, axes: tuple[int, ...], keepdims: bool) -> Value:
    return reduce_sum(b, b.abs(x), axes, keepdims)


def sum_of_squares(b: ImportBuilder, x: Value, axes: tuple[int, ...], keepdims: bool) -> Value:
    return reduce_sum(b, b.mul(x, x), axes, keepdims)


def euclidean_norm(b: ImportBuilder, x: Value, axes: tuple[int, ...], keepdims: bool) -> Value:
    return b.sqrt(sum_of_squares(b, x, axes, keepdims))


def log_of_sum(b: ImportBuilder, x: Value, axes: tuple[int, ...], keepdims: bool) -> Value:
    return b.log(reduce_sum(b, x, axes, keepdims))


def log_of_sum_of_powers(b: ImportBuilder, x: Value, axes: tuple[int, ...], keepdims: bool) -> Value:
    """`log(sum(exp(x)))`, computed on `x` minus its maximum (if that is finite), so that `exp` does not overflow."""
    greatest = b.reduce_max(x, axes=axes, keepdims=True)
    shift = b.select(b.is_inf(greatest, detect_negative=True, detect_positive=True), b.scalar(0, like=x), greatest)
    total = b.log(reduce_sum(b, b.exp(b.sub(x, shift)), axes, keepdims))
    return b.add(total, shift if keepdims else b.reduce_max(shift, axes=axes, keepdims=False))


REDUCTIONS: tuple[tuple[str, int, Reduce], ...] = (  # name, the first opset in which axes are an input, meaning
    ("ReduceSum", 13, reduce_sum), ("ReduceProd", 18, plain("reduce_prod")),
    ("ReduceMax", 18, plain("reduce_max")), ("ReduceMin", 18, plain("reduce_min")),
    ("ReduceMean", 18, rounded_once(reduce_mean)), ("ReduceL1", 18, sum_of_absolutes), ("ReduceL2", 18, rounded_once(in_floats(euclidean_norm))),
    ("ReduceSumSquare", 18, rounded_once(sum_of_squares)), ("ReduceLogSum", 18, rounded_once(in_floats(log_of_sum))),
    ("ReduceLogSumExp", 18, rounded_once(in_floats(log_of_sum_of_powers))),
)  # fmt: skip


def with_axes_attribute(reduce: Reduce) -> Callable[..., Value]:
    """The rule for a reduction whose axes are an attribute."""

    def rule(b: ImportBuilder, x: Value, *, axes: Sequence[int] = (), keepdims: int = 1) -> Value:
        rank = type_of(x).rank
        return reduce(b, x, normalized_axes(axes, rank) or tuple(range(rank)), bool(keepdims))

    return rule


def with_axes_input(reduce: Reduce) -> Callable[..., Value]:
    """The rule for a reduction whose axes are an input."""

    def rule(b: ImportBuilder, x: Value, axes: Value | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Value:
        rank = type_of(x).rank
        chosen = normalized_axes(b.known_ints(axes, "axes"), rank) if axes is not None else ()
        if not chosen and not noop_with_empty_axes:
            chosen = tuple(range(rank))
        return reduce(b, x, chosen, bool(keepdims))

    return rule


for _name, _since, _reduce in REDUCTIONS:
    onnx_rule(_name, since=1)(with_axes_attribute(_reduce))
    onnx_rule(_name, since=_since)(with_axes_input(_reduce))


def arg_rule(mnemonic: str) -> Callable[..., Value]:
    """The rule for ArgMax or ArgMin."""

    def rule(b: ImportBuilder, x: Value, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Value:
        axis = normalized_axis(axis, type_of(x).rank)
        return getattr(b, mnemonic)(x, axis=axis, keepdims=bool(keepdims), select_last=bool(select_last_index))

    return rule


onnx_rule("ArgMax", since=1)(arg_rule("arg_max"))
onnx_rule("ArgMin", since=1)(arg_rule("arg_min"))


@onnx_rule("CumSum", since=11)
def cum_sum(b: ImportBuilder, x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Value:
    return along_axis(b, x, axis, lambda chosen: b.cumsum(x, axis=chosen, exclusive=bool(exclusive), reverse=bool(reverse)))


@onnx_rule("CumProd", since=26)
def cum_prod(b: ImportBuilder, x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Value:
    return along_axis(b, x, axis, lambda chosen: b.cumprod(x, axis=chosen, exclusive=bool(exclusive), reverse=bool(reverse)))


@onnx_rule("Softmax", since=1)
def softmax_of_rows(b: ImportBuilder, x: Value, *, axis: int = 1) -> Value:
    return over_rows(b, x, axis, lambda rows, last: b.softmax(rows, axis=last))


@onnx_rule("Softmax", since=13)
def softmax(b: ImportBuilder, x: Value, *, axis: int = -1) -> Value:
    return b.softmax(x, axis=normalized_axis(axis, type_of(x).rank))


@onnx_rule("LogSoftmax", since=1)
def log_softmax_of_rows(b: ImportBuilder, x: Value, *, axis: int = 1) -> Value:
    return over_rows(b, x, axis, lambda rows, last: b.log_softmax(rows, axis=last))


@onnx_rule("LogSoftmax", since=13)
def log_softmax(b: ImportBuilder, x: Value, *, axis: int = -1) -> Value:
    return b.log_softmax(x, axis=normalized_axis(axis, type_of(x).rank))


def hardmax_along(b: ImportBuilder, x: Value, axis: int) -> Value:
    best = b.arg_max(x, axis=axis, keepdims=True, select_last=False)
    return b.convert(b.equal(best, counting(b, dims_of(x)[axis], axis, type_of(x).rank)), type_of(x).dtype)


@onnx_rule("Hardmax", since=1)
def hardmax_of_rows(b: ImportBuilder, x: Value, *, axis: int = 1) -> Value:
    return over_rows(b, x, axis, lambda rows, last: hardmax_along(b, rows, last))


@onnx_rule("Hardmax", since=13)
def hardmax(b: ImportBuilder, x: Value, *, axis: int = -1) -> Value:
    return hardmax_along(b, x, normalized_axis(axis, type_of(x).rank))


def over_rows(b: ImportBuilder, x: Value, axis: int, function: Callable[[Value, int], Value]) -> Value:
    """Apply `function(value, axis)` with the semantics before opset 13: all dimensions from `axis` on are flattened into one."""
    shape = type_of(x).shape
    axis = normalized_axis(axis, len(shape))
    if all(size == 1 for size in shape[axis + 1 :]):  # same result without reshapes
        return function(x, axis)
    return reshaped_like(b, function(flattened(b, x, axis), 1), x)


@onnx_rule("TopK", since=1)
def top_k_by_attribute(b: ImportBuilder, x: Value, *, k: int, axis: int = -1) -> tuple[Value, Value]:
    return top_k(b, x, b.literal(np.array(k, np.int64)), axis=axis)


@onnx_rule("TopK", since=10, ignored={"sorted": 1})  # without it any order will do, the sorted one too
def top_k(b: ImportBuilder, x: Value, k: Value, *, axis: int = -1, largest: int = 1) -> tuple[Value, Value]:
    tensor = type_of(x)
    axis = normalized_axis(axis, tensor.rank)
    count, size = b.symbolic_scalar(k, "k"), tensor.shape[axis]
    if count is None:
        [count] = b.bound_sizes(b.with_shape(k, (1,)), "k")
    if not (holds(count, ">=", 0) and holds(count, "<=", size)):
        raise ModelError(f"k must be from 0 to {size}, the size of axis {axis} of {tensor}; got {count}")
    shape = tuple(count if i == axis else d for i, d in enumerate(tensor.shape))
    types = [tensor.with_shape(shape), TensorType("i64", shape)]
    made = b.top_k(x, b.with_shape(k, ()), axis=axis, largest=bool(largest), result_types=types)
    return typed(tuple[Value, Value], made)
