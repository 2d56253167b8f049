"""Lowering of determinants: elimination in a copy of each matrix."""

from stepwell.dialects import graph
from stepwell.dialects.core.mlir import arith, ir
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, compute_dtype
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering
from stepwell.passes.graph_to_linalg.scalars import Scalars


@lowering(graph.DetOp)
def lower_det(op: graph.DetOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """Gaussian elimination with partial pivoting, one matrix after the other; narrow floats in f32."""
    (x,), dtype = operands, op.result_types()[0].dtype
    s, sizes, one = Scalars(b, dtype), b.sizes(x), b.index(1)
    size = b.index_of(sizes[-1])

    def matrix(at: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        def column(k: ir.Value, state: list[ir.Value]) -> list[ir.Value]:
            work, total = state

            def larger(i: ir.Value, best: list[ir.Value]) -> list[ir.Value]:
                value = s.abs(b.extract(work, [*at, i, k]))
                better = s.compare("gt", value, best[0])
                return [s.select(better, value, best[0]), s.select(better, i, best[1])]

            row = b.loop(k, size, [s.const(-1), k], larger)[1]
            pivot = b.extract(work, [*at, row, k])
            stays = arith.CmpIOp(arith.CmpIPredicate.eq, row, k).result
            total = s.mul(total, s.select(stays, pivot, s.neg(pivot)))
            below = arith.AddIOp(k, one).result

            def swap(j: ir.Value, inner: list[ir.Value]) -> list[ir.Value]:
                upper, lower = (b.extract(inner[0], [*at, i, j]) for i in (k, row))
                swapped = b.insert_element(lower, inner[0], [*at, k, j])
                return [b.insert_element(upper, swapped, [*at, row, j])]

            work = b.loop(k, size, [work], swap)[0]
            no_pivot = s.compare("eq", pivot, s.const(0))

            def eliminate(i: ir.Value, inner: list[ir.Value]) -> list[ir.Value]:
                factor = s.div(b.extract(inner[0], [*at, i, k]), pivot)
                factor = s.neg(s.select(no_pivot, s.const(0), factor))

                def subtract(j: ir.Value, matrices: list[ir.Value]) -> list[ir.Value]:
                    left = s.add(b.extract(matrices[0], [*at, i, j]), s.mul(factor, b.extract(matrices[0], [*at, k, j])))
                    return [b.insert_element(left, matrices[0], [*at, i, j])]

                return b.loop(below, size, inner, subtract)

            return [b.loop(below, size, [work], eliminate)[0], total]

        work, total = b.loop(b.index(0), size, [carried[0], s.const(1)], column)
        return [work, b.insert_element(b.narrow(total, dtype), carried[1], at)]

    copy = b.elementwise([x], compute_dtype(dtype), sizes, lambda v: v)
    return b.loops(sizes[:-2], [copy, b.empty(dtype, sizes[:-2])], matrix)[1]
