"""The lowering of LSTM layers with quantised weights: in each step the state is converted to bytes for integer instructions."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from stepwell.dialects import graph
from stepwell.dialects.core.mlir import arith, ir
from stepwell.passes.graph.integer_products import read_as
from stepwell.passes.graph_to_linalg.casts import cast, rounded
from stepwell.passes.graph_to_linalg.contraction import contract
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, OpFoldResult, dims, element
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering
from stepwell.passes.graph_to_linalg.recurrence import Layer, Products, Step, lstm_step, present
from stepwell.passes.graph_to_linalg.reduction import reduce
from stepwell.passes.graph_to_linalg.scalars import Scalars

QUANTISED = "ui8"  # the type to which states are quantised


@lowering(graph.QuantizedLstmOp)
def lower_quantized_lstm(op: graph.QuantizedLstmOp, operands: Operands, b: LinalgBuilder) -> Sequence[ir.Value]:
    """Like `lower_lstm`; before the product of a step, the range of the state, and the state as integers."""
    projected, weights, scales, sums, lengths, initial_h, initial_c, peepholes = present(op, operands)
    layer = Layer(op, projected, weights, lengths, b, divisible=False)  # the whole batch has one range
    products = _Products(op.operand_types()[1].dtype, scales, sums)
    return layer.run([initial_h, initial_c], partial(lstm_step, products, peepholes))


@dataclass
class _Products:
    """The products of a layer's states with its weights."""

    weights: str
    """The element type of the weights."""
    scales: ir.Value
    sums: ir.Value

    def __call__(self, at: Step) -> Products:
        """The products of the first state of a step: integers, a scale for each column, the sum of each, then the state's scale and zero point."""
        b, floats, integers = at.layer.b, Scalars(at.layer.b, "f32"), Scalars(at.layer.b, "i32")
        stored, shift = read_as(self.weights, b.state.machine)
        numbers, scale, zero = _quantized(b, at.states[0], [at.piece.rows, at.layer.hidden], stored, shift)
        gates = [[gate] for gate in range(at.layer.gates)]
        reads = [*self._summed(at, numbers, stored), *at.of_units(self.scales, gates), *at.of_units(self.sums, gates), (scale, []), (zero, [])]

        def totals(*values: ir.Value) -> list[ir.Value]:
            count = len(gates)
            products, factors, sums = (values[i * count : (i + 1) * count] for i in range(3))
            scale, zero = values[3 * count :]
            moved = integers.add(cast(b, zero, QUANTISED, "i32", False), integers.const(shift))
            whole = [integers.sub(product, integers.mul(moved, total)) for product, total in zip(products, sums, strict=True)]
            return [floats.mul(cast(b, v, "i32", "f32", False), floats.mul(scale, factor)) for v, factor in zip(whole, factors, strict=True)]

        return Products(reads, totals)

    def _summed(self, at: Step, numbers: ir.Value, stored: str) -> Sequence[tuple[ir.Value, Sequence[ir.AffineExpr]]]:
        """The products in i32, one contraction for all gates."""
        layer, b, (_, gates, panels, groups, width, depth) = at.layer, at.layer.b, at.layer.weights.type.shape
        inner = [groups, width, depth] if depth > 1 else [groups, width]
        if groups * depth != layer.hidden:
            filled = b.filled(0, stored, [at.piece.rows, groups * depth])  # the other operand of weights that are 0
            numbers = b.staged(b.insert(numbers, filled, [0, 0]))
        weights = b.part(layer.weights, [at.piece.direction, 0, 0, 0, 0, 0], [gates, panels, groups, width, depth])
        if depth == 1:
            weights = b.reshape(weights, [[0], [1], [2], [3, 4]], [gates, panels, *inner])
        row, gate, panel, column, group, *place = dims(*range(5 + (depth > 1)))
        summed = group * depth + place[0] if place else group
        sizes: list[OpFoldResult] = [at.piece.rows, gates, panels, width]
        maps = [row, summed], [gate, panel, group, column, *place]
        total = contract(b, numbers, maps[0], weights, maps[1], "i32", sizes, 1 + len(place), kinds=(stored, self.weights))
        return at.by_gate(total)


def _quantized(b: LinalgBuilder, x: ir.Value, sizes: Sequence[OpFoldResult], stored: str, shift: int) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Floats as ui8 numbers plus `shift`, in type `stored`, with their scale in f32 and their zero point in ui8: DynamicQuantizeLinear."""
    s = Scalars(b, "f32")
    low, high = (reduce(b, x, (0, 1), name, "f32") for name in ("minimum", "maximum"))

    def scale_of(low: ir.Value, high: ir.Value) -> ir.Value:
        low, high = s.minimum(low, s.const(0)), s.maximum(high, s.const(0))
        return s.select(s.compare("eq", low, high), s.const(1), s.div(s.sub(high, low), s.const(255)))

    def zero_of(low: ir.Value, scale: ir.Value) -> ir.Value:
        return rounded(b, s, s.div(s.neg(low), scale), QUANTISED, None)  # 0 if the low end is above 0

    def number(v: ir.Value, scale: ir.Value, zero: ir.Value) -> ir.Value:
        found = rounded(b, s, s.div(v, scale), QUANTISED, zero)
        if stored == QUANTISED:
            return found
        wide = arith.addi(cast(b, found, QUANTISED, "i32", False), b.scalar(shift, "i32"))
        return arith.trunci(element(stored), wide)

    scale = b.staged(b.elementwise([low, high], "f32", [], scale_of))
    zero = b.staged(b.elementwise([low, scale], QUANTISED, [], zero_of))
    return b.staged(b.elementwise([x, scale, zero], stored, sizes, number)), scale, zero
