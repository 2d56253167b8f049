"""Lowerings of ops that depend on the order of elements: argmax and argmin, running sums."""

from typing import Any

from stepwell.dialects import graph
from stepwell.dialects.core.mlir import arith, ir
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, dims
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering
from stepwell.passes.graph_to_linalg.order_codes import Codes, place_of_first
from stepwell.passes.graph_to_linalg.scalars import Scalars


@lowering(graph.ArgMaxOp, graph.ArgMinOp)
def lower_arg(op: graph.ArgMaxOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """The index of the extreme; NaN wins, as in numpy."""
    (x,), attributes = operands, op.attribute_values()
    codes = Codes(b, op.operand_types()[0].dtype, isinstance(op, graph.ArgMaxOp), nan_wins=True)
    found = place_of_first(codes, x, attributes["axis"], last=attributes["select_last"])
    return b.with_unit_dims(found, [attributes["axis"]]) if attributes["keepdims"] else found


@lowering(graph.CumsumOp, graph.CumprodOp)
def lower_scan(op: graph.CumsumOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """One generic with two outputs: the fold so far, which the loop along the axis carries, and the stored part of it. Narrow floats in f32.

    A scan from the end of a dynamic dimension, whose last index no access map can express, folds a reversed copy.
    """
    (x,), attributes, dtype = operands, op.attribute_values(), op.result_types()[0].dtype
    s, axis, sizes, rank = Scalars(b, dtype), attributes["axis"], b.sizes(x), x.type.rank
    turns = attributes["reverse"] and not isinstance(sizes[axis], int)
    x = turned(b, x, axis, dtype) if turns else x
    name, neutral = ("mul", 1) if isinstance(op, graph.CumprodOp) else ("add", 0)
    others = [i for i in range(rank) if i != axis]
    along: Any = ir.AffineExpr.get_dim(rank - 1)
    inputs, maps = [x], []
    if attributes["reverse"] and not turns:
        size = sizes[axis]
        along = along * -1 + (size - 1)
        inputs.append(b.empty("i8", [size]))  # which determines the loop's extent, unlike a reversed access
        maps.append(dims(rank - 1))
    everywhere = [along if i == axis else ir.AffineExpr.get_dim(others.index(i)) for i in range(rank)]
    folded = b.filled(neutral, s.dtype, [sizes[i] for i in others])

    def step(value: ir.Value, *rest: ir.Value) -> list[ir.Value]:
        before = rest[-2]
        after = s.accumulate(name, b.widen(value), before)
        return [after, b.narrow(before if attributes["exclusive"] else after, dtype)]

    shown = b.generics(inputs, [folded, b.empty(dtype, sizes)], [everywhere, *maps, dims(*range(rank - 1)), everywhere], 1, step)[1]
    return turned(b, shown, axis, dtype) if turns else shown


def turned(b: LinalgBuilder, x: ir.Value, axis: int, dtype: str) -> ir.Value:
    """`x` reversed along an axis."""
    sizes = b.sizes(x)
    last = arith.SubIOp(b.index_of(sizes[axis]), b.index(1)).result

    def body() -> ir.Value:
        return b.extract(x, [arith.SubIOp(last, b.loop_index(i)).result if i == axis else b.loop_index(i) for i in range(len(sizes))])

    return b.elementwise([], dtype, sizes, body, exact=True)
