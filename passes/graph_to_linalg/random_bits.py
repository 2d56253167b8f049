"""Lowering of pseudorandom numbers: each is computed only from its index."""

from stepwell.dialects import graph
from stepwell.dialects.core.mlir import arith, ir
from stepwell.dialects.graph.random_bits import LAST_SHIFT, ROUNDS, STEP
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering
from stepwell.passes.graph_to_linalg.reshaping import product
from stepwell.passes.graph_to_linalg.scalars import Scalars


@lowering(graph.RandomBitsOp)
def lower_random_bits(op: graph.RandomBitsOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """One generic that hashes the number of an element."""
    attributes, s = op.attribute_values(), Scalars(b, "ui64")
    shape = b.given_all(attributes["shape"])
    strides = [product(b, shape[dim + 1 :]) for dim in range(len(shape))]
    steps = [stride if isinstance(stride, int) else b.from_index(stride) for stride in strides]

    def mixed(state: ir.Value, shift: int) -> ir.Value:
        return arith.XOrIOp(state, arith.ShRUIOp(state, s.const(shift)).result).result

    def body() -> ir.Value:
        number = s.const(1)
        for dim in reversed(range(len(shape))):
            step = steps[dim]
            number = s.add(number, s.mul(b.from_index(b.loop_index(dim)), s.const(step) if isinstance(step, int) else step))
        state = s.add(s.mul(number, s.const(STEP)), s.const(attributes["seed"]))
        for shift, factor in ROUNDS:
            state = s.mul(mixed(state, shift), s.const(factor))
        return mixed(state, LAST_SHIFT)

    return b.elementwise([], "ui64", shape, body, exact=True)
