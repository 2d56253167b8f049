"""Lowerings of recurrent layers: a loop over the steps, each a product of the state with the weights followed by the gates."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from stepwell.dialects import graph
from stepwell.dialects.core.mlir import arith, ir, math
from stepwell.dialects.core.sizes import static_sizes
from stepwell.dialects.core.symbolic_shapes import element_bits
from stepwell.dialects.graph.recurrence import DIRECTIONS, RecurrentOp
from stepwell.passes.framework.rewriting import NoMatch
from stepwell.passes.graph_to_linalg.contraction import contract
from stepwell.passes.graph_to_linalg.elementwise import clamp, elu, leaky_relu, sigmoid, softplus
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, OpFoldResult, dims
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering
from stepwell.passes.graph_to_linalg.reduction import narrowed
from stepwell.passes.graph_to_linalg.scalars import Scalars
from stepwell.passes.schedule.sequences import chunks_on_threads

Function: TypeAlias = Callable[[ir.Value], ir.Value]
Read: TypeAlias = tuple[ir.Value, Sequence[Any]]
"""An operand of an element-wise op over (batch, hidden), and its map."""


def affine(s: Scalars, x: ir.Value, alpha: float, beta: float) -> ir.Value:
    """`alpha * x + beta`."""
    return s.add(s.mul(s.const(alpha), x), s.const(beta))


ACTIVATIONS: dict[str, Callable[[Scalars, ir.Value, float, float], ir.Value]] = {
    "affine": affine,
    "elu": lambda s, x, alpha, _: elu(s, x, alpha=alpha),
    "hard_sigmoid": lambda s, x, alpha, beta: clamp(s, affine(s, x, alpha, beta), min=0.0, max=1.0),
    "leaky_relu": lambda s, x, alpha, _: leaky_relu(s, x, alpha=alpha),
    "relu": lambda s, x, *_: s.maximum(x, s.const(0)),
    "scaled_tanh": lambda s, x, alpha, beta: s.mul(s.const(alpha), s.call(math.TanhOp, s.mul(s.const(beta), x))),
    "sigmoid": lambda s, x, *_: sigmoid(s, x),
    "softplus": lambda s, x, *_: softplus(s, x),
    "softsign": lambda s, x, *_: s.div(x, s.add(s.const(1), s.abs(x))),
    "tanh": lambda s, x, *_: s.call(math.TanhOp, x),
    "thresholded_relu": lambda s, x, alpha, _: s.select(s.compare("ge", x, s.const(alpha)), x, s.const(0)),
}
"""Activation functions on one element; their definitions are in the dialect's table of the same name."""


@dataclass(frozen=True)
class Piece:
    """The part of a layer that one loop over the steps computes: neighbouring sequences in one direction."""

    direction: OpFoldResult
    backward: bool | ir.Value
    """Whether the loop goes from the last step to the first."""
    first: OpFoldResult
    """The first sequence."""
    rows: OpFoldResult
    """The number of sequences."""


class Layer:
    """A layer being lowered: its sizes, and its operands in the form that steps read. If it is `divisible`, sequences are independent."""

    def __init__(
        self, op: RecurrentOp, projected: ir.Value, weights: ir.Value, lengths: ir.Value | None, b: LinalgBuilder, *, divisible: bool = True
    ) -> None:
        self.b, self.attributes = b, op.attribute_values()
        self.dtype = op.result_types()[0].dtype
        self.s = Scalars(b, self.dtype)
        self.steps, self.batch = b.size(projected, 0), b.size(projected, 1)
        self.hidden = static_sizes(op.result_types()[0].shape[3:])[0]
        self.directions = DIRECTIONS[self.attributes["direction"]]
        self.gates, self.functions_of_one = type(op).gates, type(op).functions
        sizes: list[OpFoldResult] = [self.steps, self.batch, len(self.directions) * self.gates, self.hidden]
        self.projected = b.reshape(projected, [[0], [1], [2, 3]], sizes)
        self.weights, self.lengths, self.divisible = weights, lengths, divisible

    def functions(self, direction: OpFoldResult) -> list[Function]:
        """The activation functions of a direction on one element; if the direction is dynamic, all directions have the same ones."""
        return [partial(_apply, self.s, *chosen) for chosen in self._chosen(direction if isinstance(direction, int) else 0)]

    def _chosen(self, direction: int) -> list[tuple[str, float, float]]:
        own = slice(direction * self.functions_of_one, (direction + 1) * self.functions_of_one)
        return list(zip(*(self.attributes[name][own] for name in ("activations", "alphas", "betas")), strict=True))

    def clipped(self, x: ir.Value) -> ir.Value:
        """An element clipped to the bounds of the inputs of the gates' functions."""
        clip: float = self.attributes["clip"]
        return clamp(self.s, x, min=-clip, max=clip)

    def run(self, initial: Sequence[ir.Value | None], step: Callable[["Step"], list[ir.Value]]) -> list[ir.Value]:
        """The results of the layer: the outputs of the steps, and the last states.

        `step` builds the ops of one step and returns the states after it, then its output. Directions are independent, and so are sequences of a
        layer that is `divisible`. If it pays, each direction, or a part of the batch, goes through all steps on its own thread; else the directions
        run one after the other, and large ops of a step run on threads by themselves.
        """
        b, numbers = self.b, range(len(self.directions))
        results = [b.empty(self.dtype, [self.steps, len(numbers), self.batch, self.hidden])]
        results += [b.empty(self.dtype, [len(numbers), self.batch, self.hidden]) for _ in initial]
        alike = all(self._chosen(direction) == self._chosen(0) for direction in numbers)
        for group in [list(numbers)] if alike else [[direction] for direction in numbers]:
            chunks = self._chunks(len(group))
            if chunks:

                def one(iv: ir.Value, carried: list[ir.Value], group: list[int] = group, chunks: int = chunks) -> list[ir.Value]:
                    return self._sequences(self._piece(iv, group, chunks), initial, carried, step)

                results = b.independent(len(group) * chunks, results, one)
            else:
                for direction in group:
                    results = self._sequences(Piece(direction, self.directions[direction], 0, self.batch), initial, results, step)
        return results

    def _chunks(self, directions: int) -> int:
        """The number of chunks of the batch in each of `directions` directions that run on their own threads; 0 if none do."""
        if not isinstance(self.steps, int) or not isinstance(self.batch, int):
            return 0
        weights, bits = self.weights.type.shape[1:], element_bits(self.weights.type.element_type)
        return chunks_on_threads(self.steps, directions, self.batch, weights, bits, self.b.state.machine, self.divisible)

    def _piece(self, number: ir.Value, directions: Sequence[int], chunks: int) -> Piece:
        """One of the pieces of these directions with the batch in `chunks` chunks: the first direction's chunks, then the next one's."""
        assert isinstance(self.batch, int), "only a batch of known size is cut"
        b, rows = self.b, self.batch // chunks
        if len(directions) == 1:
            first = 0 if chunks == 1 else arith.muli(number, b.index(rows))
            return Piece(directions[0], self.directions[directions[0]], first, rows)
        direction = number if chunks == 1 else arith.divui(number, b.index(chunks))
        first = 0 if chunks == 1 else arith.muli(arith.remui(number, b.index(chunks)), b.index(rows))
        return Piece(direction, arith.cmpi(arith.CmpIPredicate.eq, direction, b.index(self.directions.index(True))), first, rows)

    def _sequences(
        self, piece: Piece, initial: Sequence[ir.Value | None], results: Sequence[ir.Value], step: Callable[["Step"], list[ir.Value]]
    ) -> list[ir.Value]:
        """The results of the layer with those of a piece written into them: a loop over the steps."""
        b = self.b
        sizes: list[OpFoldResult] = [piece.rows, self.hidden]
        y, *last = results

        def one(ivs: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
            time, (*before, y) = self._time(ivs[0], piece.backward), carried
            place: list[OpFoldResult] = [time, piece.direction, piece.first, 0]
            *after, made = step(Step(self, piece, time, before, b.part(y, place, sizes)))
            return [*after, b.insert(made, y, place)]

        *states, y = b.loops([self.steps], [*(self._start(value, piece) for value in initial), y], one)
        narrow = [narrowed(b, state, self.dtype) for state in states]
        return [y, *(b.insert(state, whole, [piece.direction, piece.first, 0]) for state, whole in zip(narrow, last, strict=True))]

    def _time(self, round_: ir.Value, backward: bool | ir.Value) -> ir.Value:
        """The sequence position of an iteration of the loop over the steps."""
        if backward is False:
            return round_
        last = self.b.index(self.steps - 1) if isinstance(self.steps, int) else arith.subi(self.steps, self.b.index(1))
        turned = arith.subi(last, round_)
        return turned if backward is True else arith.select(backward, turned, round_)

    def _start(self, initial: ir.Value | None, piece: Piece) -> ir.Value:
        """A state of a piece before its first step, in its compute type."""
        b = self.b
        sizes: list[OpFoldResult] = [piece.rows, self.hidden]
        if initial is None:
            return b.filled(0, self.s.dtype, sizes)
        return b.elementwise([b.part(initial, [piece.direction, piece.first, 0], sizes)], self.s.dtype, sizes, lambda x: x)


def _apply(s: Scalars, name: str, alpha: float, beta: float, x: ir.Value) -> ir.Value:
    return ACTIVATIONS[name](s, x, alpha, beta)


@dataclass
class Step:
    """One step of a piece being built."""

    layer: Layer
    piece: Piece
    time: ir.Value
    """Its position in the sequence, an index."""
    states: list[ir.Value]
    """The states before it, (rows, hidden) each."""
    given: ir.Value
    """The destinations of its results."""

    def functions(self) -> list[Function]:
        """The activation functions on one element."""
        return self.layer.functions(self.piece.direction)

    def inputs(self, first: int, count: int) -> list[Read]:
        """The contribution of this step's inputs to `count` gates from the `first` on."""
        layer, piece, b = self.layer, self.piece, self.layer.b
        gate: OpFoldResult = first
        if isinstance(piece.direction, int):
            gate = piece.direction * layer.gates + first
        else:
            gate = arith.addi(arith.muli(piece.direction, b.index(layer.gates)), b.index(first))
        return of_gates(b.part(layer.projected, [self.time, piece.first, gate, 0], [piece.rows, count, layer.hidden]))

    def products(self, state: ir.Value, first: int, count: int) -> list[Read]:
        """The contribution of a state to `count` gates from the `first` on: one product for all of them."""
        layer, b, (_, _, panels, depth, width) = self.layer, self.layer.b, self.layer.weights.type.shape
        weights = b.part(layer.weights, [self.piece.direction, first, 0, 0, 0], [count, panels, depth, width])
        row, gate, panel, column, summed = dims(0, 1, 2, 3, 4)
        sizes: list[OpFoldResult] = [self.piece.rows, count, panels, width]
        return self.by_gate(contract(b, state, [row, summed], weights, [gate, panel, summed, column], layer.s.dtype, sizes, 1))

    def by_gate(self, products: ir.Value) -> list[Read]:
        """Products (rows, gates, panels, columns of a panel) as an operand for each gate, without the padding of the last panel."""
        layer, b, (_, count, panels, width) = self.layer, self.layer.b, products.type.shape
        whole = b.reshape(products, [[0], [1], [2, 3]], [self.piece.rows, count, panels * width])
        return of_gates(whole if panels * width == layer.hidden else b.first(whole, [self.piece.rows, count, layer.hidden]))

    def of_units(self, value: ir.Value, places: Sequence[Sequence[int]]) -> list[Read]:
        """A number for each unit of the state, at each of some indices after the direction."""
        b, hidden = self.layer.b, self.layer.hidden
        return [(b.part(value, [self.piece.direction, *place, 0], [hidden]), dims(1)) for place in places]

    def end(self, reads: Sequence[Read], body: Callable[..., list[ir.Value]]) -> list[ir.Value]:
        """The states after the step, then its output, as one element-wise op.

        `body` takes an element of each operand, then of each state before the step, and returns those of the new states; the step's output is the
        first.
        """
        layer, b, s = self.layer, self.layer.b, self.layer.s
        lengths = [] if layer.lengths is None else [(b.part(layer.lengths, [self.piece.first], [self.piece.rows]), dims(0))]
        inputs, maps = [list(column) for column in zip(*reads, *lengths, strict=True)]
        outs = [*self.states, self.given]
        time = arith.IndexCastOp(ir.IntegerType.get_signless(32), self.time).result if lengths else None

        def compute(*scalars: ir.Value) -> list[ir.Value]:
            before = list(scalars[len(inputs) : -1])
            after = body(*(b.widen(v) for v in scalars[: len(reads)]), *before)
            made = after[0]
            if time is not None:
                goes_on = arith.cmpi(arith.CmpIPredicate.slt, time, scalars[len(reads)])
                made = s.select(goes_on, made, s.const(0))
                after = [s.select(goes_on, new, old) for new, old in zip(after, before, strict=True)]
            return [*after, b.narrow(made, layer.dtype)]

        return b.generics(inputs, outs, [*maps, *[dims(0, 1)] * len(outs)], 0, compute)


def of_gates(value: ir.Value) -> list[Read]:
    """A tensor (batch, gates, hidden) as an operand for each gate."""
    row, column = dims(0, 1)
    return [(value, [row, ir.AffineExpr.get_constant(gate), column]) for gate in range(value.type.shape[1])]


def present(op: RecurrentOp, operands: Operands) -> list[Any]:
    """The operands by field, None for one that is absent. Raises NoMatch if units or weights are dynamic; steps and batch may be."""
    projected, weights = op.operand_types()[:2]
    if not weights.is_static or not isinstance(projected.shape[2], int):
        raise NoMatch(f"its units and weights must have static sizes, got {projected}, {weights}")
    rest = iter(operands)
    return [None if given is None else next(rest) for given in op.operand_groups()]


@dataclass(frozen=True)
class Products:
    """The contribution of the state in a step."""

    reads: Sequence[Read]
    """Operands of the step's last op."""
    totals: Callable[..., Sequence[ir.Value]]
    """Computes the contribution to each gate from an element of each of these."""


def lstm_step(products: Callable[[Step], Products], peepholes: ir.Value | None, at: Step) -> list[ir.Value]:
    """One step of an LSTM: the contribution of the state by `products`, and one element-wise op from that to the next states."""
    layer, s = at.layer, at.layer.s
    f, g, out = at.functions()
    held = [] if peepholes is None else at.of_units(peepholes, [[gate] for gate in range(3)])
    counted = products(at)
    own = len(counted.reads)

    def body(*values: ir.Value) -> list[ir.Value]:
        in_, output, forget, cell = (s.add(x, y) for x, y in zip(counted.totals(*values[:own]), values[own : own + 4], strict=True))
        *held, _, c = values[own + 4 :]

        def seen(total: ir.Value, gate: int, c: ir.Value) -> ir.Value:
            return s.multiply_accumulate(held[gate], c, total) if held else total

        entering = f(layer.clipped(seen(in_, 0, c)))
        kept = s.sub(s.const(1), entering) if layer.attributes["input_forget"] else f(layer.clipped(seen(forget, 2, c)))
        c = s.multiply_accumulate(entering, g(layer.clipped(cell)), s.mul(kept, c))
        return [s.mul(f(layer.clipped(seen(output, 1, c))), out(c)), c]

    return at.end([*counted.reads, *at.inputs(0, 4), *held], body)


@lowering(graph.LstmOp)
def lower_lstm(op: graph.LstmOp, operands: Operands, b: LinalgBuilder) -> Sequence[ir.Value]:
    """A loop over the steps; in it one product for all gates, and one element-wise op from its result to the next states."""
    projected, weights, lengths, initial_h, initial_c, peepholes = present(op, operands)
    layer = Layer(op, projected, weights, lengths, b)

    def products(at: Step) -> Products:
        return Products(at.products(at.states[0], 0, 4), lambda *totals: totals)

    return layer.run([initial_h, initial_c], partial(lstm_step, products, peepholes))


@lowering(graph.GruOp)
def lower_gru(op: graph.GruOp, operands: Operands, b: LinalgBuilder) -> Sequence[ir.Value]:
    """A loop over the steps. With a `hidden_bias` a step is one product and one element-wise op, else two of each.

    In the latter case, the second product multiplies the reset state.
    """
    projected, weights, lengths, initial_h, hidden_bias = present(op, operands)
    layer = Layer(op, projected, weights, lengths, b)
    s = layer.s

    def next_state(update: ir.Value, candidate: ir.Value, h: ir.Value) -> list[ir.Value]:
        return [s.multiply_accumulate(update, h, s.mul(s.sub(s.const(1), update), candidate))]

    def step(at: Step) -> list[ir.Value]:
        f, g = at.functions()
        x, [h] = at.inputs(0, 3), at.states
        if hidden_bias is not None:

            def whole(*values: ir.Value) -> list[ir.Value]:
                (z_h, r_h, h_h), (z_x, r_x, h_x), bias, h = values[:3], values[3:6], values[6], values[7]
                reset = f(layer.clipped(s.add(r_h, r_x)))
                candidate = g(layer.clipped(s.multiply_accumulate(reset, s.add(h_h, bias), h_x)))
                return next_state(f(layer.clipped(s.add(z_h, z_x))), candidate, h)

            return at.end([*at.products(h, 0, 3), *x, *at.of_units(hidden_bias, [[]])], whole)

        update, reset = at.products(h, 0, 2)
        sizes: list[OpFoldResult] = [at.piece.rows, layer.hidden]
        reads = [reset, x[1], (h, dims(0, 1))]
        held = b.generic(
            [value for value, _ in reads],
            b.empty(s.dtype, sizes),
            [*(own for _, own in reads), dims(0, 1)],
            0,
            lambda r_h, r_x, h, _: s.mul(f(layer.clipped(s.add(r_h, b.widen(r_x)))), h),
        )

        def rest(z_h: ir.Value, z_x: ir.Value, h_h: ir.Value, h_x: ir.Value, h: ir.Value) -> list[ir.Value]:
            return next_state(f(layer.clipped(s.add(z_h, z_x))), g(layer.clipped(s.add(h_h, h_x))), h)

        return at.end([update, x[0], *at.products(b.staged(held), 2, 1), x[2]], rest)

    return layer.run([initial_h], step)


@lowering(graph.RnnOp)
def lower_rnn(op: graph.RnnOp, operands: Operands, b: LinalgBuilder) -> Sequence[ir.Value]:
    """A loop over the steps, each a product and an element-wise op."""
    projected, weights, lengths, initial_h = present(op, operands)
    layer = Layer(op, projected, weights, lengths, b)

    def step(at: Step) -> list[ir.Value]:
        [f] = at.functions()
        reads = [*at.products(at.states[0], 0, 1), *at.inputs(0, 1)]
        return at.end(reads, lambda z, x, _: [f(layer.clipped(layer.s.add(z, x)))])

    return layer.run([initial_h], step)
