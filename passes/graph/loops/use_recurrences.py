"""The pass that turns loops whose bodies are cells of recurrent layers into such layers."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import ir, ops_below
from stepwell.dialects.core.sizes import Dim
from stepwell.dialects.core.types import to_numpy, type_of
from stepwell.dialects.graph import GraphBuilder
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.graph.loops.cells import Cell, Cells
from stepwell.passes.graph.loops.remainder import finish, with_stacked
from stepwell.passes.graph.loops.rounds import Rounds, joined, product
from stepwell.passes.graph.loops.sums import Part, Sum, is_vector
from stepwell.passes.graph.outline_regions import rounds_of

UNCLIPPED = float("inf")


@register_pass("use-recurrences", level="graph", optional=True)
class UseRecurrences(Pass):
    """Replace loops in whose iterations an LSTM, a GRU or a plain recurrent layer takes a step by a recurrent op.

    rewrite: loop { h' = f(x[round] w + h r + b), … }  ->  rnn(x w + b, r, h), and a loop of the rest, which reads its rows
    rewrite: loop { i, f, g, o = …; c' = f * c + i * g; h' = o * tanh(c') }  ->  lstm(x w + b, r, h, c), …   and so for a GRU

    The products of the inputs are computed for all steps at once, and the op keeps its states in a near cache. All iterations of the loop must run,
    and their number must be known or a size: the importer determines that for counting loops. Gates may be split from one product or have products of
    their own, be multiplied with a concatenation of input and state, and have peepholes; the inputs may be computed from rows of tensors, such as the
    output of a first cell that feeds a second cell in the same loop. Counters are computed from the trip count. A loop that does nothing else is
    removed.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        for loop in reversed(list(ops_below(op, "graph.loop"))):
            self._run_on(loop, state)

    def _run_on(self, loop: ir.Operation, state: PassState) -> None:
        view: Any = loop.opview
        b = GraphBuilder(state.weights)
        count = rounds_of(view, state.weights)
        if count is None:
            state.decline(self.name, loop, NoMatch("only the run tells how many rounds there are"))
            return
        rounds = Rounds(view, count, b)
        found: dict[int, ir.Value] = {}
        reasons: dict[int, str] = {}
        while True:
            before = len(found)
            reasons.clear()
            cells = Cells(rounds)
            for number, argument in enumerate(rounds.arguments):
                if number in found or rounds.yielded(number) == argument or rounds.counter(argument) is not None:
                    continue
                try:
                    cell = cells.cell(number)
                    _check_uses(rounds, cell)
                except NoMatch as why:
                    reasons[number] = why.reason
                    continue
                state.did(self.name, loop, f"the carried values {', '.join(map(str, cell.states))} are the states of a graph.{cell.kind}")
                state.count(self.name)
                with ir.InsertionPoint(loop), loop.location:
                    found.update(_layer(rounds, cell))
                after = rounds.yielded(number)
                with ir.InsertionPoint(loop), loop.location:
                    with_stacked(rounds, after)
                for place in cell.states:
                    rounds.end.operands[1 + place] = rounds.arguments[place]
                break
            if len(found) == before:
                break
        for number, reason in reasons.items():
            if number not in found:
                state.decline(self.name, loop, NoMatch(f"{reason} (carried value {number})"))
        if found:
            finish(rounds, found)


def _check_uses(rounds: Rounds, cell: Cell) -> None:
    """Raise NoMatch if a cell cannot be moved out of the body because something else uses its states."""
    after = rounds.yielded(cell.states[0])
    own = {1 + place for place in cell.states}  # operands of the last op
    seen: set[ir.Value] = set()
    waiting = [rounds.arguments[place] for place in cell.states]
    while waiting:
        value = waiting.pop()
        if value in seen or value == after:
            continue
        seen.add(value)
        for use in value.uses:
            user = use.owner.operation
            if user.block != rounds.body:
                raise NoMatch("a conditional or a loop in its body reads the state of its cell")
            if user == rounds.end and use.operand_number not in own:
                raise NoMatch("its cell's state before the step, or its cell state, is used otherwise, too")
            waiting += user.results


def _layer(rounds: Rounds, cell: Cell) -> dict[int, ir.Value]:
    """Build the op of a layer in front of the loop, and record its value in each iteration; returns the last states by their indices."""
    b = rounds.b
    initial = [rounds.initial[place] for place in cell.states]
    batch, hidden = type_of(initial[0]).shape
    assert isinstance(hidden, int)
    dtype = type_of(initial[0]).dtype
    gates = len(cell.recurrent)
    weights = joined(rounds.b, [one.weights(rounds) for one in cell.recurrent], 1)
    # (hidden, gates * hidden) -> (directions, gates, panels, hidden, hidden)
    by_gate = b.transpose(b.reshape(weights, shape=(hidden, gates, hidden)), perm=(1, 0, 2))
    operands: list[Any] = [_projected(rounds, cell.sums, batch, hidden, dtype), b.reshape(by_gate, shape=(1, gates, 1, hidden, hidden)), None]
    operands += [b.reshape(value, shape=(1, batch, hidden)) for value in initial]
    attributes: dict[str, Any] = {"direction": "forward", "clip": UNCLIPPED, "activations": [one.name for one in cell.functions]}
    attributes |= {"alphas": [one.alpha for one in cell.functions], "betas": [one.beta for one in cell.functions]}
    if cell.kind == "lstm":
        attributes["input_forget"] = False
        holes = [b.reshape(_vector(rounds, part), shape=(1, 1, hidden)) for part in cell.peepholes]
        operands.append(b.concat(holes, axis=1) if holes else None)
    elif cell.kind == "gru":
        added = None if cell.hidden_bias is None else [_vector(rounds, part) for part in cell.hidden_bias.fixed]
        operands.append(None if added is None else b.reshape(_of_gates(rounds, [added], (hidden,), dtype), shape=(1, hidden)))
    y, *last = getattr(b, cell.kind)(*operands, **attributes)
    after = rounds.yielded(cell.states[0])
    rounds.set_stacked(after, b.reshape(y, shape=(rounds.count, batch, hidden)))
    return {place: b.reshape(value, shape=(batch, hidden)) for place, value in zip(cell.states, last, strict=True)}


def _vector(rounds: Rounds, part: Part) -> ir.Value:
    """An invariant part of one row as a vector."""
    value = part.sliced(rounds, rounds.lifted(part.value))
    sizes = type_of(value).shape
    flat = value if len(sizes) == 1 else rounds.b.reshape(value, shape=sizes[-1:] or (1,))
    return flat if type_of(flat).shape[0] == part.count else rounds.b.expand(flat, shape=(part.count,))


def _of_gates(rounds: Rounds, by_gate: Sequence[Sequence[ir.Value]], shape: Sequence[Dim], dtype: str) -> ir.Value:
    """For each gate, the sum of some values, which broadcast to a shape; the sums lie side by side in the last dimension."""
    return joined(rounds.b, [_total(rounds, values, shape, dtype) for values in by_gate], len(shape) - 1)


def _total(rounds: Rounds, values: Sequence[ir.Value], shape: Sequence[Dim], dtype: str) -> ir.Value:
    """The sum of some values, which broadcast to a shape, in this shape."""
    b = rounds.b
    total: ir.Value = reduce(b.add, values) if values else b.literal(np.zeros((), to_numpy(dtype)))
    return total if type_of(total).shape == tuple(shape) else b.expand(total, shape=tuple(shape))


def _fixed(rounds: Rounds, sums: Sequence[Sum], batch: Dim, hidden: int, dtype: str) -> ir.Value | None:
    """The invariant terms for all gates: a vector if it is the same for the whole batch, too; None if there are none."""
    parts = [part for total in sums for part in total.fixed]
    if not parts:
        return None
    if all(is_vector(part.value) for part in parts):
        return _of_gates(rounds, [[_vector(rounds, part) for part in total.fixed] for total in sums], (hidden,), dtype)
    return _of_gates(rounds, [[part.sliced(rounds, rounds.lifted(part.value)) for part in total.fixed] for total in sums], (batch, hidden), dtype)


def _projected(rounds: Rounds, sums: Sequence[Sum], batch: Dim, hidden: int, dtype: str) -> ir.Value:
    """The contribution of the inputs to all gates in all iterations, (rounds, batch, gates * hidden)."""
    b, count = rounds.b, rounds.count
    whole = (count, batch, len(sums) * hidden)
    by_input = [{one.lhs: one for one in total.products} for total in sums]
    together = all(own.keys() == by_input[0].keys() and len(own) == len(total.products) for own, total in zip(by_input, sums, strict=True))
    fixed = _fixed(rounds, sums, batch, hidden, dtype)
    parts = []
    for lhs in by_input[0] if together else ():  # one product for all gates
        bias = None if fixed is None or type_of(fixed).rank > 1 else fixed
        parts.append(product(b, rounds.stacked(lhs), joined(rounds.b, [own[lhs].weights(rounds) for own in by_input], 1), bias))
        fixed = fixed if bias is None else None
    alone = [[] if together else [product(b, rounds.stacked(one.lhs), one.weights(rounds)) for one in total.products] for total in sums]
    rows = [[_row(rounds, part) for part in total.rows] for total in sums]
    if any(alone) or any(rows):
        parts.append(_of_gates(rounds, [one + other for one, other in zip(alone, rows, strict=True)], (count, batch, hidden), dtype))
    parts += [] if fixed is None else [fixed]
    return _total(rounds, parts, whole, dtype)


def _row(rounds: Rounds, part: Part) -> ir.Value:
    """The part of a value in all iterations, (rounds, batch or 1, columns)."""
    value = part.sliced(rounds, rounds.stacked(part.value))
    sizes = type_of(value).shape
    return value if len(sizes) == 3 else rounds.b.reshape(value, shape=(sizes[0], *(1,) * (3 - len(sizes)), *sizes[1:]))
