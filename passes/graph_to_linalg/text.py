"""Lowering of ops on sequences of tokens."""

from stepwell.dialects import graph
from stepwell.dialects.core.mlir import arith, ir
from stepwell.passes.framework.rewriting import NoMatch
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering


@lowering(graph.CountNgramsOp)
def lower_count_ngrams(op: graph.CountNgramsOp, operands: Operands, b: LinalgBuilder) -> ir.Value | NoMatch:
    """Loops over the n-grams of each row, each looked up in the pool by bisection."""
    (x, pool, columns), attributes = operands, op.attribute_values()
    known, length = op.operand_types()[1].shape
    if known is None or length is None:
        return NoMatch(f"the pool must have static sizes, got {pool.type}")
    rows, tokens = b.sizes(x)
    start = b.filled(0, "i64", [rows, attributes["size"]])
    if 0 in (known, length, attributes["size"], *x.type.shape):  # nothing to look up
        return start
    one, last, end = b.index(1), b.index(known - 1), b.index(known)
    i64_one = b.scalar(1, "i64")
    less, equal, below = arith.CmpIPredicate.slt, arith.CmpIPredicate.eq, arith.CmpIPredicate.ult

    def body(at: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        row, skipped = at
        apart = arith.AddIOp(skipped, one).result
        span = arith.MulIOp(apart, b.index(length - 1)).result
        starts = arith.SubIOp(b.index_of(tokens), span).result

        def look_up(place: ir.Value, counts: list[ir.Value]) -> list[ir.Value]:
            where = [arith.AddIOp(place, arith.MulIOp(apart, b.index(i)).result).result for i in range(length)]
            gram = [b.extract(x, [row, w]) for w in where]

            def halve(_: ir.Value, bounds: list[ir.Value]) -> list[ir.Value]:
                low, high = bounds
                middle = arith.ShRUIOp(arith.AddIOp(low, high).result, one).result
                at_most = arith.MinUIOp(middle, last).result
                before = b.scalar(False, "i1")
                for i in reversed(range(length)):
                    entry = b.extract(pool, [at_most, b.index(i)])
                    same = arith.AndIOp(arith.CmpIOp(equal, entry, gram[i]).result, before).result
                    before = arith.OrIOp(arith.CmpIOp(less, entry, gram[i]).result, same).result
                active = arith.CmpIOp(below, low, high).result
                up = arith.AndIOp(active, before).result
                down = arith.AndIOp(active, arith.XOrIOp(before, b.scalar(True, "i1")).result).result
                above = arith.SelectOp(up, arith.AddIOp(middle, one).result, low).result
                return [above, arith.SelectOp(down, middle, high).result]

            found = b.loop(b.index(0), b.index(known.bit_length()), [b.index(0), end], halve)[0]
            entry = arith.MinUIOp(found, last).result
            hit = b.scalar(True, "i1")
            for i, token in enumerate(gram):
                hit = arith.AndIOp(hit, arith.CmpIOp(equal, b.extract(pool, [entry, b.index(i)]), token).result).result

            def count() -> list[ir.Value]:
                column = [row, b.place(b.extract(columns, [entry]), attributes["size"])]
                more = arith.AddIOp(b.extract(counts[0], column), i64_one).result
                return [b.insert_element(more, counts[0], column)]

            return b.branch(hit, counts, count)

        return b.loop(b.index(0), starts, carried, look_up)

    return b.loops([rows, attributes["skips"] + 1], [start], body)[0]
