"""Lowerings of iterations over whole matrices: elimination for determinants, pairwise coupling."""

from stepwell.dialects import graph
from stepwell.dialects.core.mlir import arith, ir
from stepwell.dialects.core.types import compute_dtype
from stepwell.dialects.graph.linear_algebra import LEAST_ROUNDS, NEAR_ENOUGH
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder
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


@lowering(graph.PairwiseCouplingOp)
def lower_pairwise_coupling(op: graph.PairwiseCouplingOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """One sample after the other. The inner loops of an iteration are empty once a sample is close enough to its optimum."""
    (x,), dtype = operands, op.result_types()[0].dtype
    s, zero, (samples, size, _) = Scalars(b, "f64"), b.index(0), b.sizes(x)
    classes = b.index_of(size)
    number = arith.SIToFPOp(s.type, b.from_index(classes)).result
    rounds = arith.MaxSIOp(classes, b.index(LEAST_ROUNDS)).result
    enough, start = (s.div(s.const(value), s.maximum(number, s.const(1))) for value in (NEAR_ENOUGH, 1))

    def pair(n: ir.Value, i: ir.Value, j: ir.Value) -> ir.Value:
        value = b.extract(x, [n, i, j])
        return value if dtype == "f64" else arith.ExtFOp(s.type, value).result

    def sample(at: list[ir.Value], tensors: list[ir.Value]) -> list[ir.Value]:
        (n,), (q, qp, p, out) = at, tensors

        def first(i: ir.Value, state: list[ir.Value]) -> list[ir.Value]:
            def other(j: ir.Value, inner: list[ir.Value]) -> list[ir.Value]:
                beside, same = pair(n, j, i), arith.CmpIOp(arith.CmpIPredicate.eq, i, j).result
                squares = s.add(inner[1], s.select(same, s.const(0), s.mul(beside, beside)))
                return [b.insert_element(s.neg(s.mul(beside, pair(n, i, j))), inner[0], [i, j]), squares]

            row, squares = b.loop(zero, classes, [state[0], s.const(0)], other)
            return [b.insert_element(squares, row, [i, i]), b.insert_element(start, state[1], [i])]

        q, p = b.loop(zero, classes, [q, p], first)

        def round_(_: ir.Value, state: list[ir.Value]) -> list[ir.Value]:
            left = state[2]  # the number of classes in this iteration: none after the last one

            def product(i: ir.Value, inner: list[ir.Value]) -> list[ir.Value]:
                def term(j: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
                    return [s.add(sums[0], s.mul(b.extract(q, [i, j]), b.extract(state[1], [j])))]

                total = b.loop(zero, left, [s.const(0)], term)[0]
                return [b.insert_element(total, inner[0], [i]), s.add(inner[1], s.mul(b.extract(state[1], [i]), total))]

            qp, whole = b.loop(zero, left, [state[0], s.const(0)], product)

            def error(i: ir.Value, worst: list[ir.Value]) -> list[ir.Value]:
                return [s.maximum(worst[0], s.abs(s.sub(b.extract(qp, [i]), whole)))]

            near = s.compare("lt", b.loop(zero, left, [s.const(0)], error)[0], enough)
            left = s.select(near, zero, left)

            def move(i: ir.Value, inner: list[ir.Value]) -> list[ir.Value]:
                qp, p, whole = inner
                own, slope = b.extract(q, [i, i]), b.extract(qp, [i])
                step = s.div(s.sub(whole, slope), own)
                scale = s.add(s.const(1), step)
                gain = s.mul(step, s.add(s.mul(step, own), s.mul(s.const(2), slope)))
                whole = s.div(s.div(s.add(whole, gain), scale), scale)
                p = b.insert_element(s.add(b.extract(p, [i]), step), p, [i])

                def follow(j: ir.Value, tensors: list[ir.Value]) -> list[ir.Value]:
                    moved = s.div(s.add(b.extract(tensors[0], [j]), s.mul(step, b.extract(q, [i, j]))), scale)
                    return [b.insert_element(moved, tensors[0], [j]), b.insert_element(s.div(b.extract(tensors[1], [j]), scale), tensors[1], [j])]

                return [*b.loop(zero, classes, [qp, p], follow), whole]

            qp, p, _ = b.loop(zero, left, [qp, state[1], whole], move)
            return [qp, p, left]

        qp, p, _ = b.loop(zero, rounds, [qp, p, classes], round_)

        def write(i: ir.Value, inner: list[ir.Value]) -> list[ir.Value]:
            value = b.extract(p, [i])
            return [b.insert_element(value if dtype == "f64" else arith.TruncFOp(ir.F32Type.get(), value).result, inner[0], [n, i])]

        return [q, qp, p, b.loop(zero, classes, [out], write)[0]]

    scratch = [b.empty("f64", sizes) for sizes in ([size, size], [size], [size])]
    return b.loops([samples], [*scratch, b.empty(dtype, [samples, size])], sample)[3]
