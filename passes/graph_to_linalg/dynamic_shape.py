"""Lowerings of ops whose shapes are data: sizes are read from tensors, and results have dynamic dimensions."""

from typing import TypeAlias

from stepwell.dialects import graph
from stepwell.dialects.core.mlir import arith, ir, tensor
from stepwell.dialects.core.sizes import has_elements, holds
from stepwell.dialects.core.types import type_of
from stepwell.passes.framework.rewriting import NoMatch
from stepwell.passes.graph_to_linalg.casts import cast
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, OpFoldResult
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering
from stepwell.passes.graph_to_linalg.plain_types import plain_type
from stepwell.passes.graph_to_linalg.reshaping import product, reshape_dynamic, reshape_to
from stepwell.passes.graph_to_linalg.scalars import Scalars

_CMP = arith.CmpIPredicate
_Place: TypeAlias = tuple[ir.Value, ir.Value]
"""Start and step along a dimension."""


@lowering(graph.ShapeOfOp)
def lower_shape_of(op: graph.ShapeOfOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """The sizes as elements of a tensor."""
    (x,) = operands
    sizes = [b.from_index(b.index_of(s)) for s in b.sizes(x)]
    return tensor.FromElementsOp(plain_type(op.result.type), sizes).result


@lowering(graph.SizesOp)
def lower_sizes(op: graph.SizesOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """The sizes as elements of a tensor."""
    sizes = b.given_all(op.attribute_values()["values"])
    return tensor.FromElementsOp(op.result.type, [b.from_index(b.index_of(size)) for size in sizes]).result


@lowering(graph.RangeOp)
def lower_range(op: graph.RangeOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """One generic: start + i * delta."""
    result = op.result_types()[0]
    s = Scalars(b, result.dtype)
    start, delta = (b.widen(b.extract(v, [])) for v in operands[::2])
    sizes = b.given_all(result.shape)

    def body() -> ir.Value:
        number = cast(b, b.from_index(b.loop_index(0)), "i64", s.dtype, False)
        return s.add(start, s.mul(number, delta))

    return b.elementwise([], result.dtype, sizes, body)


@lowering(graph.DynamicReshapeOp)
def lower_dynamic_reshape(op: graph.DynamicReshapeOp, operands: Operands, b: LinalgBuilder) -> ir.Value | NoMatch:
    """By way of one dimension; a size of -1 is the number of elements that the others leave."""
    (x, shape), result = operands, op.result_types()[0]
    if result.is_static and op.operand_types()[0].is_static:
        return reshape_to(b, x, result.static_shape)
    if not result.rank:
        return NoMatch(f"{op.operand_types()[0]} is not known to have one element")
    minus_one, one = b.index(-1), b.index(1)
    sizes = [b.as_index(b.extract(shape, [b.index(i)])) for i in range(result.rank)]
    left_out = [arith.CmpIOp(_CMP.eq, size, minus_one).result for size in sizes]
    known = b.index_of(product(b, [arith.SelectOp(out, one, size).result for out, size in zip(left_out, sizes, strict=True)]))
    safe = arith.SelectOp(arith.CmpIOp(_CMP.eq, known, b.index(0)).result, one, known).result
    rest = arith.DivSIOp(b.index_of(product(b, b.sizes(x))), safe).result
    found: list[OpFoldResult] = [
        static if isinstance(static, int) else arith.SelectOp(out, rest, size).result
        for static, out, size in zip(result.shape, left_out, sizes, strict=True)
    ]
    return reshape_dynamic(b, x, found)


@lowering(graph.DynamicExpandOp)
def lower_dynamic_expand(op: graph.DynamicExpandOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """One generic that reads at index 0 along dimensions that turn out to be of size 1."""
    x, result = operands[0], op.result_types()[0]
    one, zero, rank = b.index(1), b.index(0), x.type.rank
    for size, declared in zip(op.operand_types()[0].shape, result.shape[result.rank - rank :], strict=True):
        if isinstance(declared, int) and size != 1:
            holds(size, "==", declared)
    single = [arith.CmpIOp(_CMP.eq, b.index_of(s), one).result for s in b.sizes(x)]
    sizes = b.given_all(result.shape)

    def body() -> ir.Value:
        loops = [b.loop_index(result.rank - rank + i) for i in range(rank)]
        return b.extract(x, [arith.SelectOp(is_one, zero, loop).result for is_one, loop in zip(single, loops, strict=True)])

    return b.elementwise([], result.dtype, sizes, body, exact=True)


@lowering(graph.DynamicSliceOp)
def lower_dynamic_slice(op: graph.DynamicSliceOp, operands: Operands, b: LinalgBuilder) -> ir.Value | NoMatch:
    """One generic that reads at start + i * step, all clamped as ONNX requires.

    If the result's size is declared, the data may ask for a smaller one: reads beyond the operand's end return its last element.
    """
    (x, starts, _, axes, steps), result = operands, op.result_types()[0]
    if 0 in x.type.shape and result.is_static:
        return b.filled(0, result.dtype, result.static_shape)  # nothing to read: the declared size contradicts the data
    named = b.known(axes)
    count = type_of(op.operation.operands[3]).shape[0]
    if not isinstance(count, int):
        return NoMatch("the number of its axes must be known at compile time")
    one, zero = b.index(1), b.index(0)
    dims = [b.index_of(size) for size in b.sizes(x)]
    places: list[_Place | None] = [None] * result.rank
    for entry in range(count):
        start, step = (b.as_index(b.extract(v, [b.index(entry)])) for v in (starts, steps))
        if named is not None:
            axis = int(named[entry]) % result.rank
            places[axis] = _normalised(b, start, step, dims[axis])
            continue
        place = b.as_index(b.extract(axes, [b.index(entry)]))
        rank = b.index(result.rank)
        place = arith.SelectOp(arith.CmpIOp(_CMP.slt, place, zero).result, arith.AddIOp(place, rank).result, place).result
        for axis, size in enumerate(dims):
            there = arith.CmpIOp(_CMP.eq, place, b.index(axis)).result
            sliced = _normalised(b, start, step, size)
            before = places[axis] or (zero, one)
            places[axis] = tuple(arith.SelectOp(there, new, old).result for new, old in zip(sliced, before, strict=True))
    sizes = b.given_all(result.shape)

    def body() -> ir.Value:
        where = []
        for i, place in enumerate(places):
            loop = b.loop_index(i)
            if place is not None:
                loop = arith.AddIOp(place[0], arith.MulIOp(loop, place[1]).result).result
                if isinstance(result.shape[i], int):
                    has_elements(op.operand_types()[0].shape[i], result.size)  # there is a last element to read
                    last = arith.SubIOp(dims[i], one).result
                    loop = arith.MaxSIOp(arith.MinSIOp(loop, last).result, zero).result
            where.append(loop)
        return b.extract(x, where)

    return b.elementwise([], result.dtype, sizes, body, exact=True)


def _normalised(b: LinalgBuilder, start: ir.Value, step: ir.Value, size: ir.Value) -> _Place:
    """Start and step of a slice of a dimension of `size`."""
    zero, one, minus_one = b.index(0), b.index(1), b.index(-1)
    back = arith.CmpIOp(_CMP.slt, step, zero).result
    step = arith.SelectOp(arith.CmpIOp(_CMP.eq, step, zero).result, one, step).result  # undefined, but must not trap
    low = arith.SelectOp(back, minus_one, zero).result
    high = arith.AddIOp(size, low).result
    negative = arith.CmpIOp(_CMP.slt, start, zero).result
    counted = arith.SelectOp(negative, arith.AddIOp(start, size).result, start).result
    clamped = arith.MaxSIOp(arith.MinSIOp(counted, high).result, low).result
    # Unlike numpy's, ONNX's slice that goes backwards from before the first element begins at the first.
    return arith.MinSIOp(arith.MaxSIOp(clamped, zero).result, high).result, step
