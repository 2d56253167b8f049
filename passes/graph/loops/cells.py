"""Recognises the cells of recurrent layers in the bodies of loops: LSTM, GRU and the plain recurrent layer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

from stepwell.dialects.core.mlir import defining_op, ir
from stepwell.dialects.core.types import compute_dtype, is_float, type_of
from stepwell.dialects.graph.known import KnownValues
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.graph.loops.rounds import Rounds
from stepwell.passes.graph.loops.sums import Part, Product, Sum, behind_slices, is_vector, sum_of, whole

_PLAIN = {"graph.sigmoid": "sigmoid", "graph.tanh": "tanh", "graph.relu": "relu", "graph.softplus": "softplus"}
_OF_ALPHA = {"graph.leaky_relu": "leaky_relu", "graph.elu": "elu"}


@dataclass(frozen=True)
class Function:
    """An activation function as the recurrent ops name it."""

    name: str
    alpha: float = 0.0
    beta: float = 0.0


@dataclass(frozen=True)
class Gate:
    """An activation function of a sum."""

    function: Function
    of: Part


@dataclass(frozen=True)
class Cell:
    """A cell of a recurrent layer: the carried values that are its states, and the inputs of its gates."""

    kind: str
    states: tuple[int, ...]
    """The indices of the carried values: the hidden state, and for an LSTM the cell state."""
    functions: tuple[Function, ...]
    sums: tuple[Sum, ...]
    """The terms from the inputs, for each gate in the order of the op."""
    recurrent: tuple[Product, ...]
    """The products with the hidden state, for each gate in the order of the op."""
    peepholes: tuple[Part, ...] = ()
    hidden_bias: Sum | None = None
    """For a GRU whose reset gate comes after the product: the term that is added to the product."""


class Cells:
    """Finds cells in the body of a loop."""

    def __init__(self, rounds: Rounds) -> None:
        self.rounds = rounds
        self._known = KnownValues(rounds.b.weights)

    def cell(self, number: int) -> Cell:
        """The cell whose hidden state is carried value `number`. Raises NoMatch if there is none."""
        argument, after = self.rounds.arguments[number], self.rounds.yielded(number)
        kind = type_of(argument)
        if kind.rank != 2 or not is_float(kind.dtype) or compute_dtype(kind.dtype) != kind.dtype or not isinstance(kind.shape[1], int):
            raise NoMatch(f"a carried value is no state of a recurrent layer ({kind}): these are f32 or f64, batch x hidden size")
        if type_of(after).shape != kind.shape or type_of(self.rounds.initial[number]).shape != kind.shape:
            raise NoMatch(f"a carried value changes its sizes ({kind})")
        for find in (self._lstm, self._gru, self._rnn):
            if (found := find(number, argument, after)) is not None:
                return found
        raise NoMatch(f"a carried value of {kind} is not computed as the state of an LSTM, a GRU or a plain recurrent layer is")

    # The shapes of expressions.

    def _factors(self, value: ir.Value) -> Iterator[tuple[ir.Value, ir.Value]]:
        """The factors of a product, in both orders."""
        yield from self._sides(value, "graph.mul")

    @staticmethod
    def _sides(value: ir.Value, name: str) -> Iterator[tuple[ir.Value, ir.Value]]:
        op = defining_op(value)
        if op is not None and op.name == name:
            yield from permutations(op.operands, 2)

    def scalar(self, value: ir.Value) -> float | None:
        """The number in a constant of one element."""
        array = self._known.value(value) if type_of(value).size == 1 else None
        return None if array is None else float(array.reshape(()))

    def gate(self, value: ir.Value) -> Gate | None:
        """A value as an activation function applied to another value."""
        part = whole(value)
        if part is None:
            return None
        part = behind_slices(part)
        op = defining_op(part.value)
        if op is None or self.rounds.is_outside(part.value):
            return None
        if op.name in _PLAIN:
            return Gate(Function(_PLAIN[op.name]), Part(op.operands[0], part.first, part.count))
        if op.name in _OF_ALPHA:
            return Gate(Function(_OF_ALPHA[op.name], op.opview.attribute_values()["alpha"]), Part(op.operands[0], part.first, part.count))
        if op.name == "graph.clamp" and op.opview.attribute_values() == {"min": 0.0, "max": 1.0}:
            alpha, beta, inner = 1.0, 0.0, op.operands[0]
            for side, other in self._sides(inner, "graph.add"):
                if (number := self.scalar(other)) is not None:
                    beta, inner = number, side
                    break
            for side, other in self._factors(inner):
                if (number := self.scalar(other)) is not None:
                    alpha, inner = number, side
                    break
            return Gate(Function("hard_sigmoid", alpha, beta), Part(inner, part.first, part.count))
        return None

    def _is_rest(self, value: ir.Value, of: ir.Value) -> bool:
        """Whether a value is `1 - of`."""
        op = defining_op(value)
        return op is not None and op.name == "graph.sub" and op.operands[1] == of and self.scalar(op.operands[0]) == 1

    # The cells.

    def _lstm(self, _: int, h: ir.Value, after: ir.Value) -> Cell | None:
        """h' = o * f(c'), c' = f * c + i * g"""
        for opened, squashed in self._factors(after):
            output, out = self.gate(opened), self.gate(squashed)
            if output is None or out is None:
                continue
            for place, c in enumerate(self.rounds.arguments):
                new = self.rounds.yielded(place)
                if c == h or out.of != whole(new):
                    continue
                for kept, entered in self._sides(new, "graph.add"):
                    forget = next((self.gate(left) for left, right in self._factors(kept) if right == c), None)
                    pair = next(((self.gate(left), self.gate(right)) for left, right in self._factors(entered)), None)
                    if forget is None or pair is None or pair[0] is None or pair[1] is None:
                        continue
                    entering, cell = pair if pair[0].function == forget.function else pair[::-1]
                    assert entering is not None
                    assert cell is not None
                    if not entering.function == forget.function == output.function:
                        raise NoMatch("the gates of its LSTM have different activation functions")
                    gates = (entering, output, forget, cell)
                    functions = (forget.function, cell.function, out.function)
                    return self._made("lstm", (self.rounds.arguments.index(h), place), functions, gates, (c, new, c, None))
        return None

    def _gru(self, number: int, h: ir.Value, after: ir.Value) -> Cell | None:
        """h' = z * h + (1 - z) * n"""
        for kept, entered in self._sides(after, "graph.add"):
            for opened, state in self._factors(kept):
                if state != h or (update := self.gate(opened)) is None:
                    continue
                for rest, new in self._factors(entered):
                    if not self._is_rest(rest, opened) or (candidate := self.gate(new)) is None:
                        continue
                    return self._gru_of(number, h, update, candidate)
        return None

    def _gru_of(self, number: int, h: ir.Value, update: Gate, candidate: Gate) -> Cell:
        total = sum_of(self.rounds, candidate.of)
        for i, one in enumerate(total.products):  # n = g(x + (r * h) w)
            reset = next((self.gate(left) for left, right in self._factors(one.lhs) if right == h), None)
            if reset is not None:
                rest = Sum(total.products[:i] + total.products[i + 1 :], total.fixed, total.rows, total.others)
                return self._gru_made(number, h, update, reset, candidate, rest, one, None)
        for i, part in enumerate(total.others):  # n = g(x + r * (h w + b))
            for opened, inner in self._factors(part.value):
                reset = self.gate(opened)
                if reset is None or whole(inner) != Part(inner, part.first, part.count):
                    continue
                linear = sum_of(self.rounds, Part(inner, 0, part.count))
                vectors = all(is_vector(one.value) for one in linear.fixed)
                if [one.lhs for one in linear.products] != [h] or linear.rows or linear.others or not vectors:
                    continue
                rest = Sum(total.products, total.fixed, total.rows, total.others[:i] + total.others[i + 1 :])
                return self._gru_made(number, h, update, reset, candidate, rest, linear.products[0], Sum(fixed=linear.fixed))
        raise NoMatch("the candidate of its GRU does not depend on the state by a reset gate")

    def _gru_made(
        self, number: int, h: ir.Value, update: Gate, reset: Gate, candidate: Gate, rest: Sum, recurrent: Product, hidden_bias: Sum | None
    ) -> Cell:
        if update.function != reset.function:
            raise NoMatch("the gates of its GRU have different activation functions")
        (z, z_h, _), (r, r_h, _) = (self._split(h, sum_of(self.rounds, gate.of), None) for gate in (update, reset))
        self._check_inputs(rest)
        return Cell("gru", (number,), (update.function, candidate.function), (z, r, rest), (z_h, r_h, recurrent), (), hidden_bias)

    def _rnn(self, number: int, h: ir.Value, after: ir.Value) -> Cell | None:
        """h' = f(x + h w)"""
        gate = self.gate(after)
        return None if gate is None else self._made("rnn", (number,), (gate.function,), (gate,), (None,))

    def _made(
        self, kind: str, states: tuple[int, ...], functions: tuple[Function, ...], gates: Sequence[Gate], seen: Sequence[ir.Value | None]
    ) -> Cell:
        """A cell made of gates; `seen` has, for each gate, the cell state that its peephole sees."""
        sums, recurrent, peepholes = [], [], []
        for gate, c in zip(gates, seen, strict=True):
            inputs, with_state, hole = self._split(self.rounds.arguments[states[0]], sum_of(self.rounds, gate.of), c)
            sums.append(inputs)
            recurrent.append(with_state)
            peepholes += [] if hole is None else [hole]
        if peepholes and len(peepholes) != 3:
            raise NoMatch("some gates of its LSTM have peepholes, and others none")
        return Cell(kind, states, functions, tuple(sums), tuple(recurrent), tuple(peepholes))

    def _split(self, h: ir.Value, total: Sum, c: ir.Value | None) -> tuple[Sum, Product, Part | None]:
        """The terms of a gate's sum: those from the inputs, the product with the hidden state, and a peephole."""
        of_state = [one for one in total.products if one.lhs == h]
        if len(of_state) != 1:
            raise NoMatch(f"a gate has {len(of_state)} products with the hidden state, not one")
        hole, others = None, list(total.others)
        for part in total.others:
            sides = [] if c is None else [right for left, right in self._factors(part.value) if left == c]
            found = next((right for right in sides if self.rounds.is_invariant(right) and is_vector(right)), None)
            if found is not None and hole is None:
                hole = Part(found, part.first, part.count)
                others.remove(part)
        rest = Sum(tuple(one for one in total.products if one.lhs != h), total.fixed, total.rows, tuple(others))
        self._check_inputs(rest)
        return rest, of_state[0], hole

    def _check_inputs(self, total: Sum) -> None:
        """Raise NoMatch if the terms of a gate's sum besides the state cannot be inputs of a layer."""
        late = [one.lhs for one in total.products if not self.rounds.can_stack(one.lhs)] + [part.value for part in total.others]
        if late:
            raise NoMatch(f"a gate depends on a value ({type_of(late[0])}) that is neither the state nor a row that the rounds read in turn")
