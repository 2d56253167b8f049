"""Lowerings of ops that depend on the order of elements: argmax and argmin, running sums, top-k."""

from typing import Any

from stepwell.dialects import graph
from stepwell.dialects.core.mlir import arith, ir
from stepwell.passes.framework.rewriting import NoMatch
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, Size, dims, highest, lowest
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering
from stepwell.passes.graph_to_linalg.scalars import Scalars


@lowering(graph.ArgMaxOp, graph.ArgMinOp)
def lower_arg(op: graph.ArgMaxOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """One generic that folds the extreme and its place together; NaN wins, as in numpy."""
    (x,), attributes = operands, op.attribute_values()
    s, axis, rank = Scalars(b, op.operand_types()[0].dtype), attributes["axis"], x.type.rank
    greatest = isinstance(op, graph.ArgMaxOp)
    others = [i for i in range(rank) if i != axis]
    sizes = [b.size(x, i) for i in others]
    best = b.filled(lowest(s.dtype) if greatest else highest(s.dtype), s.dtype, sizes)
    place = b.filled(0, "i64", sizes)
    source = dims(*(rank - 1 if i == axis else others.index(i) for i in range(rank)))
    out = dims(*range(rank - 1))
    predicate = ("g" if greatest else "l") + ("e" if attributes["select_last"] else "t")

    def fold(value: ir.Value, extreme: ir.Value, where: ir.Value) -> list[ir.Value]:
        value = b.widen(value)
        better = s.compare(predicate, value, extreme)
        if s.is_float:
            nan = s.compare("ne", value, value)
            if not attributes["select_last"]:
                nan = arith.AndIOp(nan, s.compare("eq", extreme, extreme)).result
            better = arith.OrIOp(better, nan).result
        return [s.select(better, value, extreme), s.select(better, b.from_index(b.here(rank - 1)), where)]

    found = b.generics([x], [best, place], [source, out, out], 1, fold)[1]
    return b.with_unit_dims(found, [axis]) if attributes["keepdims"] else found


@lowering(graph.CumsumOp, graph.CumprodOp)
def lower_scan(op: graph.CumsumOp, operands: Operands, b: LinalgBuilder) -> ir.Value | NoMatch:
    """One generic with two outputs: the fold so far, which the loop along the axis carries, and what is shown of it. Narrow floats in f32."""
    (x,), attributes, dtype = operands, op.attribute_values(), op.result_types()[0].dtype
    s, axis, sizes, rank = Scalars(b, dtype), attributes["axis"], b.sizes(x), x.type.rank
    name, neutral = ("mul", 1) if isinstance(op, graph.CumprodOp) else ("add", 0)
    others = [i for i in range(rank) if i != axis]
    along: Any = ir.AffineExpr.get_dim(rank - 1)
    inputs, maps = [x], []
    if attributes["reverse"]:
        size = sizes[axis]
        if not isinstance(size, int):
            return NoMatch(f"dimension {axis} must have a static size to be scanned from its end, got {x.type}")
        along = along * -1 + (size - 1)
        inputs.append(b.empty("i8", [size]))  # which says how far the loop goes, as a reversed access does not
        maps.append(dims(rank - 1))
    everywhere = [along if i == axis else ir.AffineExpr.get_dim(others.index(i)) for i in range(rank)]
    folded = b.filled(neutral, s.dtype, [sizes[i] for i in others])

    def step(value: ir.Value, *rest: ir.Value) -> list[ir.Value]:
        before = rest[-2]
        after = s.accumulate(name, b.widen(value), before)
        return [after, b.narrow(before if attributes["exclusive"] else after, dtype)]

    return b.generics(inputs, [folded, b.empty(dtype, sizes)], [everywhere, *maps, dims(*range(rank - 1)), everywhere], 1, step)[1]


@lowering(graph.TopKOp)
def lower_top_k(op: graph.TopKOp, operands: Operands, b: LinalgBuilder) -> list[ir.Value]:
    """Selection: for each of the k places, one pass over the row finds the best element after the previous one."""
    (x, k), attributes, results = operands, op.attribute_values(), op.result_types()
    axis, largest, dtype, sizes = attributes["axis"], attributes["largest"], results[0].dtype, b.sizes(x)
    s, none = Scalars(b, dtype), b.index(-1)
    wanted = results[0].shape[axis]
    chosen: Size = wanted if wanted is not None else b.as_index(b.extract(k, []))

    def beats(y: ir.Value, z: ir.Value) -> ir.Value:
        """Whether `y` comes before `z`; NaN counts as the greatest."""
        more, less = (y, z) if largest else (z, y)
        above = s.compare("gt", more, less)
        if not s.is_float:
            return above
        nan = arith.AndIOp(s.compare("ne", more, more), s.compare("eq", less, less)).result
        return arith.OrIOp(above, nan).result

    def row(at: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
        def places(where: ir.Value) -> list[ir.Value]:
            return [*at[:axis], where, *at[axis:]]

        def pick(rank: list[ir.Value], state: list[ir.Value]) -> list[ir.Value]:
            values, indices, before, before_at = state
            start = arith.CmpIOp(arith.CmpIPredicate.eq, before_at, none).result

            def scan(inner: list[ir.Value], found: list[ir.Value]) -> list[ir.Value]:
                value, where = b.widen(b.extract(x, places(inner[0]))), inner[0]
                later = arith.CmpIOp(arith.CmpIPredicate.slt, before_at, where).result
                tied = arith.AndIOp(arith.XOrIOp(beats(value, before), b.scalar(True, "i1")).result, later).result
                left = arith.OrIOp(start, arith.OrIOp(beats(before, value), tied).result).result
                first = arith.CmpIOp(arith.CmpIPredicate.eq, found[1], none).result
                better = arith.AndIOp(left, arith.OrIOp(first, beats(value, found[0])).result).result
                return [s.select(better, value, found[0]), s.select(better, where, found[1])]

            value, where = b.loops([sizes[axis]], [s.const(0), none], scan)
            values = b.insert_element(b.narrow(value, dtype), values, places(rank[0]))
            indices = b.insert_element(b.from_index(where), indices, places(rank[0]))
            return [values, indices, value, where]

        return b.loops([chosen], [*outs, s.const(0), none], pick)[:2]

    out_sizes = [*sizes[:axis], chosen, *sizes[axis + 1 :]]
    return b.loops([*sizes[:axis], *sizes[axis + 1 :]], [b.empty(dtype, out_sizes), b.empty("i64", out_sizes)], row)
