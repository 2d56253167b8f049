"""Sizes that operands request for a result whose type was declared: the op's own inference, computed at run time."""

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Size, is_static
from stepwell.dialects.core.types import dims_of, type_of
from stepwell.dialects.graph import DynamicExpandOp, DynamicReshapeOp, DynamicSliceOp, GraphBuilder, GraphOp
from stepwell.dialects.support.extensions import extension

Shape: TypeAlias = Sequence[int | Size]
Rule: TypeAlias = Callable[[GraphBuilder, Shape, Sequence[ir.Value], Shape], ir.Value]
_RULES: dict[str, Rule] = {}


def asks_sizes(*classes: type[GraphOp]) -> Callable[[Rule], Rule]:
    """Register how the operands of ops of these classes determine the requested sizes of their result.

    The function takes a builder, the shape of the first operand, the other operands (vectors of i64), and the declared shape of the result. It
    returns the sizes as a vector of i64; -1 for one that does not fit any data.
    """

    def add(rule: Rule) -> Rule:
        for cls in classes:
            _RULES[cls.OPERATION_NAME] = rule
        extension(rule)
        return rule

    return add


def asks(op: ir.Operation) -> bool:
    """Whether operands of an op request the sizes of its result, whose type may declare others."""
    return op.name in _RULES


def asked_sizes(op: ir.Operation, b: GraphBuilder) -> ir.Value:
    """The requested sizes as a vector of i64, built at the insertion point; the op's operand and result have known sizes."""
    vectors = [_wide(b, v) for v in list(op.operands)[1:]]
    return _RULES[op.name](b, dims_of(op.operands[0]), vectors, dims_of(op.results[0]))


def size_vector(b: GraphBuilder, sizes: Sequence[int | Size]) -> ir.Value:
    """Sizes as a vector of i64."""
    return b.literal(np.array(sizes, np.int64)) if is_static(sizes) else b.sizes(values=tuple(sizes))


def _wide(b: GraphBuilder, vector: ir.Value) -> ir.Value:
    return vector if type_of(vector).dtype == "i64" else b.cast(vector, to="i64", saturate=True)


def _ints(b: GraphBuilder, *numbers: int) -> ir.Value:
    return b.literal(np.array(numbers, np.int64))


@asks_sizes(DynamicReshapeOp)
def _reshaped(b: GraphBuilder, x: Shape, vectors: Sequence[ir.Value], result: Shape) -> ir.Value:
    """The requested shape, where one -1 stands for the result's size: the number of elements that the other sizes leave."""
    [shape] = vectors
    left_out = b.equal(shape, _ints(b, -1))
    count = b.reduce_sum(b.cast(left_out, to="i64", saturate=True), axes=[0], keepdims=True)
    clear = b.and_(left_out, b.equal(count, _ints(b, 1)))
    if is_static(result):
        return b.select(clear, size_vector(b, result), shape)
    others = b.reduce_prod(b.select(clear, _ints(b, 1), shape), axes=[0], keepdims=True)
    elements = size_vector(b, [math.prod(x)])
    rest = b.div(elements, b.select(b.equal(others, _ints(b, 0)), _ints(b, 1), others))
    fits = b.equal(b.mul(rest, others), elements)  # otherwise no size is right, and -1 matches none
    return b.select(clear, b.select(fits, rest, _ints(b, -1)), shape)


@asks_sizes(DynamicExpandOp)
def _expanded(b: GraphBuilder, x: Shape, vectors: Sequence[ir.Value], result: Shape) -> ir.Value:
    """The requested shape, with the size of `x` where it is 1; sizes of `x` alone come before it."""
    [shape], rank = vectors, len(result)
    sizes = (*[1] * (rank - len(x)), *x)
    [entries] = type_of(shape).shape
    first = rank - entries if isinstance(entries, int) else 0  # the importer has given a shape of free length as many entries as the result
    asked = b.select(b.equal(shape, _ints(b, 1)), size_vector(b, sizes[first:]), shape) if first < rank else shape
    return b.concat([size_vector(b, sizes[:first]), asked], axis=0) if first else asked


@asks_sizes(DynamicSliceOp)
def _sliced(b: GraphBuilder, x: Shape, vectors: Sequence[ir.Value], result: Shape) -> ir.Value:
    """The sizes of `x`; along `axes` the number of steps from start to end, by the rules of `slice_bounds`; -1 for a step of 0."""
    del result
    starts, ends, axes, steps = vectors
    sizes, zero, one = size_vector(b, x), _ints(b, 0), _ints(b, 1)
    have = b.gather(sizes, axes, axis=0)
    back = b.less(steps, zero)
    high = b.select(back, b.sub(have, one), have)
    low = b.select(back, _ints(b, -1), zero)

    def inside(bound: ir.Value, least: ir.Value) -> ir.Value:
        counted = b.select(b.less(bound, zero), b.add(bound, have), bound)
        return b.minimum(b.maximum(counted, least), high)

    start, end = inside(starts, zero), inside(ends, low)
    span = b.select(back, b.sub(start, end), b.sub(end, start))
    stride = b.maximum(b.abs(b.maximum(steps, _ints(b, -(1 << 62)))), one)
    count = b.select(b.less(zero, span), b.add(b.div(b.sub(span, one), stride), one), zero)
    return b.scatter_elements(sizes, axes, b.select(b.equal(steps, zero), _ints(b, -1), count), axis=0, reduction="none", from_start=False)
