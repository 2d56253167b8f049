"""Lowerings of gathers and scatters: gathers are generics that compute indices; scatters are loops that write one element at a time."""

from collections.abc import Sequence
from typing import Any

from stepwell.dialects import graph
from stepwell.dialects.core.mlir import arith, ir
from stepwell.dialects.core.types import compute_dtype
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering
from stepwell.passes.graph_to_linalg.reduction import narrowed
from stepwell.passes.graph_to_linalg.scalars import Scalars

_COMBINE = {"add": "add", "mul": "mul", "max": "maximum", "min": "minimum"}


@lowering(graph.GatherOp)
def lower_gather(op: graph.GatherOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """One generic that reads an index and then the element there."""
    (x, indices), axis, result = operands, op.attribute_values()["axis"], op.result_types()[0]
    taken = indices.type.rank
    sizes = [*b.sizes(x)[:axis], *b.sizes(indices), *b.sizes(x)[axis + 1 :]]
    size = b.size(x, axis)

    def body(index: ir.Value) -> ir.Value:
        before, after = range(axis), range(axis + taken, len(sizes))
        return b.read(x, [*map(b.loop_index, before), b.place(index, size), *map(b.loop_index, after)])

    return b.elementwise([indices], result.dtype, sizes, body, exact=True, loops={0: range(axis, axis + taken)})


@lowering(graph.GatherElementsOp)
def lower_gather_elements(op: graph.GatherElementsOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """One generic that reads an index and then the element there."""
    (x, indices), axis, result = operands, op.attribute_values()["axis"], op.result_types()[0]
    size = b.size(x, axis)

    def body(index: ir.Value) -> ir.Value:
        return b.read(x, [b.place(index, size) if i == axis else b.loop_index(i) for i in range(result.rank)])

    return b.elementwise([indices], result.dtype, b.sizes(indices), body, exact=True)


@lowering(graph.GatherNdOp)
def lower_gather_nd(op: graph.GatherNdOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """One generic that reads an index vector and then the element there."""
    (x, indices), batch, result = operands, op.attribute_values()["batch_dims"], op.result_types()[0]
    outer, depth = indices.type.rank - 1, indices.type.shape[-1]
    sizes = [*b.sizes(indices)[:-1], *b.sizes(x)[batch + depth :]]
    have = b.sizes(x)

    def body() -> ir.Value:
        vector = [b.loop_index(i) for i in range(outer)]
        places = [b.place(b.extract(indices, [*vector, b.index(i)]), have[batch + i]) for i in range(depth)]
        return b.read(x, [*vector[:batch], *places, *(b.loop_index(i) for i in range(outer, len(sizes)))])

    return b.elementwise([], result.dtype, sizes, body, exact=True)


@lowering(graph.ScatterElementsOp)
def lower_scatter_elements(op: graph.ScatterElementsOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """A copy of `x`, then loops over the updates."""
    (x, indices, _), attributes = operands, op.attribute_values()
    size, from_start = b.size(x, attributes["axis"]), attributes["from_start"]

    def places(at: list[ir.Value]) -> list[ir.Value]:
        return [b.place(b.extract(indices, at), size, from_start=from_start) if i == attributes["axis"] else iv for i, iv in enumerate(at)]

    return scatter(b, operands, op.result_types()[0].dtype, attributes["reduction"], places)


@lowering(graph.ScatterNdOp)
def lower_scatter_nd(op: graph.ScatterNdOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """A copy of `x`, then loops over the updates."""
    x, indices, _ = operands
    outer, depth, have = indices.type.rank - 1, indices.type.shape[-1], b.sizes(x)

    def places(at: list[ir.Value]) -> list[ir.Value]:
        vector = [b.place(b.extract(indices, [*at[:outer], b.index(i)]), have[i]) for i in range(depth)]
        return [*vector, *at[outer:]]

    return scatter(b, operands, op.result_types()[0].dtype, op.attribute_values()["reduction"], places)


def scatter(b: LinalgBuilder, operands: Sequence[ir.Value], dtype: str, reduction: str, places: Any) -> ir.Value:
    """A copy of `x` with each update stored or combined at `places(indices of the update)`; narrow floats are combined in f32."""
    x, _, updates = operands
    rounds = b.sizes(updates)
    if b.has_elements is not None:
        rounds[0] = arith.SelectOp(b.has_elements, b.index_of(rounds[0]), b.index(0)).result  # there is nothing to write to
    if reduction == "none":

        def put(at: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
            return [b.insert_element(b.extract(updates, at), carried[0], places(at))]

        return b.loops(rounds, [b.copy(x)], put)[0]
    s = Scalars(b, dtype)

    def combine(at: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        where = places(at)
        value = s.binary(_COMBINE[reduction], b.extract(carried[0], where), b.widen(b.extract(updates, at)))
        return [b.insert_element(value, carried[0], where)]

    start = b.elementwise([x], compute_dtype(dtype), b.sizes(x), lambda v: v)
    return narrowed(b, b.loops(rounds, [start], combine)[0], dtype)


@lowering(graph.AtRoundOp)
def lower_at_round(op: graph.AtRoundOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """One generic that reads at the iteration's index."""
    (x, number), attributes = operands, op.attribute_values()
    axis, last = attributes["axis"], arith.SubIOp(b.index_of(b.size(x, attributes["axis"])), b.index(1)).result
    at = b.as_index(b.extract(number, []))
    at = arith.SubIOp(last, at).result if attributes["backwards"] else at
    at = arith.MaxSIOp(arith.MinSIOp(at, last).result, b.index(0)).result
    sizes = [size for i, size in enumerate(b.sizes(x)) if i != axis]
    places = [loop - (loop > axis) for loop in range(x.type.rank)]

    def body() -> ir.Value:
        return b.extract(x, [at if i == axis else b.loop_index(place) for i, place in enumerate(places)])

    return b.elementwise([], op.result_types()[0].dtype, sizes, body, exact=True)
