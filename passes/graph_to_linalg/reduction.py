"""Lowerings of reductions along axes and of softmax: a fill with the neutral element, then a generic that folds into it."""

from collections.abc import Sequence

from stepwell.dialects import graph
from stepwell.dialects.core.mlir import ir, math
from stepwell.dialects.core.types import compute_dtype, dtype_info
from stepwell.dialects.graph import GraphOp
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, dims
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering
from stepwell.passes.graph_to_linalg.scalars import Scalars

# The combiner of each reduction.
REDUCTIONS: dict[type[GraphOp], str] = {
    graph.ReduceSumOp: "add",
    graph.ReduceProdOp: "mul",
    graph.ReduceMaxOp: "maximum",
    graph.ReduceMinOp: "minimum",
}


def neutral(name: str, dtype: str) -> float | int:
    """The neutral element of a combiner."""
    lowest, highest = dtype_info(dtype).extremes
    return {"add": 0, "mul": 1, "maximum": lowest, "maximum_number": lowest, "minimum": highest}[name]


def reduce(b: LinalgBuilder, x: ir.Value, axes: Sequence[int], name: str, dtype: str) -> ir.Value:
    """`x` folded along `axes`, which disappear; narrow floats are folded in f32, which is the result's type."""
    rank = x.type.rank
    kept = [i for i in range(rank) if i not in axes]
    order = [*kept, *(i for i in range(rank) if i in axes)]
    loop_of = {dim: loop for loop, dim in enumerate(order)}
    s = Scalars(b, dtype)
    out = b.filled(neutral(name, s.dtype), s.dtype, [b.size(x, i) for i in kept])
    maps = [dims(*(loop_of[i] for i in range(rank))), dims(*range(len(kept)))]
    return b.generic([x], out, maps, rank - len(kept), lambda value, total: s.accumulate(name, b.widen(value), total))


@lowering(*REDUCTIONS)
def lower_reduction(op: GraphOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """A fill and a fold; a rounding of narrow floats after it."""
    (x,), (dtype,) = operands, [t.dtype for t in op.operand_types()]
    attributes = op.attribute_values()
    axes = sorted(attributes["axes"])
    if not axes:
        return b.copy(x)
    folded = narrowed(b, reduce(b, x, axes, REDUCTIONS[type(op)], dtype), dtype)
    return b.with_unit_dims(folded, axes) if attributes["keepdims"] else folded


def narrowed(b: LinalgBuilder, value: ir.Value, dtype: str) -> ir.Value:
    """A tensor of the compute type of `dtype` as one of `dtype`."""
    if compute_dtype(dtype) == dtype:
        return value
    return b.elementwise([value], dtype, b.sizes(value), lambda x: x)


@lowering(graph.SoftmaxOp)
def lower_softmax(op: GraphOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """rewrite: softmax(x) -> e * (1 / sum(e)),  e = exp(x - max(x))"""
    return normalised_powers(b, operands[0], op.attribute_values()["axis"], op.result_types()[0].dtype)


@lowering(graph.LogSoftmaxOp)
def lower_log_softmax(op: GraphOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """rewrite: log_softmax(x) -> (x - max(x)) - log(sum(exp(x - max(x))))"""
    [x], axis, dtype = operands, op.attribute_values()["axis"], op.result_types()[0].dtype
    others = [i for i in range(x.type.rank) if i != axis]
    s, sizes = Scalars(b, dtype), b.sizes(x)
    greatest, _, total = powers_of(b, s, x, axis, dtype)
    logarithm = b.staged(b.elementwise([total], s.dtype, b.sizes(total), lambda t: s.call(math.LogOp, t)))  # once for each row
    return b.elementwise([x, greatest, logarithm], dtype, sizes, lambda v, m, t: s.sub(s.sub(v, m), t), loops={1: others, 2: others})


def normalised_powers(b: LinalgBuilder, x: ir.Value, axis: int, dtype: str) -> ir.Value:
    """The softmax of `x` along an axis, as elements of `dtype`.

    One division per sum, which is at least 1, takes far less time than one per element, and costs half a unit in the last place.
    """
    others = [i for i in range(x.type.rank) if i != axis]
    s, sizes = Scalars(b, dtype), b.sizes(x)
    _, powers, total = powers_of(b, s, x, axis, dtype)
    part = b.elementwise([total], s.dtype, b.sizes(total), lambda t: s.div(s.const(1), t))
    return b.elementwise([powers, part], dtype, sizes, s.mul, loops={1: others})


def powers_of(b: LinalgBuilder, s: Scalars, x: ir.Value, axis: int, dtype: str) -> tuple[ir.Value, ir.Value, ir.Value]:
    """The maxima of `x` along an axis, the exponentials of `x` minus these, and the sums of the exponentials along the axis.

    The maxima ignore NaN, which takes one instruction where `maximum` takes three: a NaN reaches the sum by its own exponential.
    """
    greatest = reduce(b, x, [axis], "maximum_number", dtype)
    others = [i for i in range(x.type.rank) if i != axis]
    powers = b.elementwise([x, greatest], s.dtype, b.sizes(x), lambda v, m: s.call(math.ExpOp, s.sub(v, m)), loops={1: others})
    return greatest, powers, reduce(b, powers, [axis], "add", s.dtype)
