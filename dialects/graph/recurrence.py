"""Recurrent layers as one op each: LSTM (Hochreiter and Schmidhuber, 1997), GRU (Cho et al., 2014) and the plain recurrent layer (Elman, 1990).

The products of the inputs with their weights do not depend on the state, so they are an operand that is computed for all steps at once. The op covers
only the recurrent part.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import ir, operand_fields, result_fields
from stepwell.dialects.core.sizes import Dim
from stepwell.dialects.core.types import FLOATS, TensorType
from stepwell.dialects.graph.base import GraphOp, InferredTypes, Operand, OptionalOperand, Pure, Result
from stepwell.dialects.graph.inference import (
    expect_choice,
    expect_dim,
    expect_dtype,
    expect_floats,
    expect_length,
    expect_rank,
    expect_same_dtype,
    expect_shape,
)
from stepwell.dialects.graph.numerics import narrow, wide
from stepwell.dialects.graph.transcendental import SigmoidOp

Array = np.ndarray
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
"""For each direction of a layer, whether it goes from the last step to the first."""


@dataclass(frozen=True)
class Activation:
    """An activation function of a recurrent layer: its definition, `function(x, alpha, beta)`, and which of the two numbers it uses."""

    function: Callable[[Array, float, float], Array]
    takes: int = 0


ACTIVATIONS: dict[str, Activation] = {
    "affine": Activation(lambda x, alpha, beta: alpha * x + beta, 2),
    "elu": Activation(lambda x, alpha, _: np.where(x < 0, alpha * np.expm1(x), x), 1),
    "hard_sigmoid": Activation(lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1), 2),
    "leaky_relu": Activation(lambda x, alpha, _: np.where(x < 0, alpha * x, x), 1),
    "relu": Activation(lambda x, *_: np.maximum(x, 0)),
    "scaled_tanh": Activation(lambda x, alpha, beta: alpha * np.tanh(beta * x), 2),
    "sigmoid": Activation(lambda x, *_: SigmoidOp.reference(x)),
    "softplus": Activation(lambda x, *_: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))),
    "softsign": Activation(lambda x, *_: x / (1 + np.abs(x))),
    "tanh": Activation(lambda x, *_: np.tanh(x)),
    "thresholded_relu": Activation(lambda x, alpha, _: np.where(x >= alpha, x, 0), 1),
}


class RecurrentOp(GraphOp):
    """The base class of the recurrent layers, with their common sizes and checks.

    Sizes: `steps`, `batch`, `hidden` (of the state), `directions` (1 or 2), `gates` (of the layer). Common operands:

    - `projected` (steps, batch, directions * gates * hidden): the inputs' products with their weights, with biases added;
    - `weights` (directions, gates, panels, hidden, width): the recurrent weights in panels of columns, as in `packed.matmul`. The weight of
      element k of the state for element j of a gate is at [k, j % width] of panel j // width. The last panel is padded with zeros;
    - `lengths` (batch): the number of steps of each sequence. Later steps leave its state unchanged and give zeros;
    - `initial_h` (directions, batch, hidden): zeros if absent.

    Results: `y` (steps, directions, batch, hidden), the output of each step, and `last_h` (directions, batch, hidden), the final state. `activations`
    names one of `ACTIVATIONS` for each direction and activation function of the layer; `alphas` and `betas` hold its parameters. The input of an
    activation function of a gate is clipped to -clip … clip.
    """

    gates = 0
    functions = 0  # number of activation functions per direction

    y: Result
    last_h: Result
    direction: ir.StringAttr
    activations: ir.ArrayAttr
    alphas: ir.ArrayAttr
    betas: ir.ArrayAttr
    clip: ir.FloatAttr

    @classmethod
    def infer(
        cls,
        *operands: TensorType | None,
        direction: str,
        activations: Sequence[str],
        alphas: Sequence[float],
        betas: Sequence[float],
        **others: object,  # `clip`, and `input_forget` of an LSTM: all values fit
    ) -> InferredTypes:
        given: dict[str, Any] = dict(zip((name for name, _ in operand_fields(cls)), operands, strict=True))
        projected, weights, lengths = (given.pop(name) for name in ("projected", "weights", "lengths"))
        hidden = cls.hidden_size(projected, weights)
        expect_rank("projected", projected, 3)
        expect_choice("direction", direction, list(DIRECTIONS))
        directions = len(DIRECTIONS[direction])
        expect_dim("weights", weights, 0, directions, f"one for each direction of '{direction}'")
        expect_dim("weights", weights, 1, cls.gates, "one for each gate")
        batch = projected.shape[1]
        if hidden is not None:
            expect_dim("projected", projected, 2, directions * cls.gates * hidden, f"directions x gates x hidden size of 'weights' ({weights})")
        if lengths is not None:
            expect_dtype("lengths", lengths, ("i32",))
            expect_shape("lengths", lengths, (batch,), f"the batch of operand 'projected' ({projected})")
        count = directions * cls.functions
        expect_length("activations", activations, count, f"{cls.functions} for each direction")
        for name in activations:
            expect_choice("activations", name, list(ACTIVATIONS))
        expect_floats("alphas", alphas, count, "one for each activation")
        expect_floats("betas", betas, count, "one for each activation")
        state, per_gate = TensorType(projected.dtype, (directions, batch, hidden)), (directions, cls.gates, hidden)
        shapes = {"peepholes": (directions, 3, hidden), "hidden_bias": (directions, hidden), "scales": per_gate, "sums": per_gate}
        for name, operand in given.items():
            if operand is None:
                continue
            if name == "sums":
                expect_dtype("sums", operand, ("i32",))
            else:
                expect_same_dtype(projected=projected, **{name: operand})
            expect_shape(name, operand, shapes.get(name, state.shape), f"as operands 'projected' ({projected}) and 'weights' ({weights}) give")
        return TensorType(projected.dtype, (projected.shape[0], *state.shape)), *[state] * (len(result_fields(cls)) - 1)

    @classmethod
    def hidden_size(cls, projected: TensorType, weights: TensorType) -> Dim:
        """The number of units of the state that the weights imply. Raises InferenceError for types that do not fit together."""
        expect_dtype("projected", projected, FLOATS)
        expect_same_dtype(projected=projected, weights=weights)
        expect_rank("weights", weights, 5)
        return weights.shape[3]

    @classmethod
    def matrices(cls, weights: Array, hidden: int) -> Array:
        """The weights as (directions, gates, hidden, hidden), in the type in which they are multiplied."""
        directions, gates, panels, _, width = weights.shape
        # (directions, gates, panels, hidden, width) -> (directions, gates, hidden, panels * width)
        return np.moveaxis(wide(weights), 2, 3).reshape(directions, gates, hidden, panels * width)[..., :hidden]

    @staticmethod
    def flops(projected: TensorType, weights: TensorType, *rest: TensorType | None, result: TensorType, **attributes: object) -> int:
        """The operations of the products only: the other arithmetic of a step is smaller by a factor of the hidden size."""
        return 2 * projected.elements * result.static_shape[3]


class LstmOp(RecurrentOp, name="lstm", traits=[Pure]):
    """A layer of long short-term memory, with the gates input, output, forget and cell, in this order.

    i = f(x_i + h r_i + p_i c), o = f(x_o + h r_o + p_o c'), f = f(x_f + h r_f + p_f c), c' = f * c + i * g(x_c + h r_c), h' = o * h(c'). Here x is
    from `projected`, r from `weights`, and p (for the input, output and forget gates) from `peepholes` (directions, 3, hidden), zeros if absent (Gers
    and Schmidhuber, "Recurrent nets that time and count", 2000). With `input_forget`, the forget gate is `1 - i`. The state also includes `initial_c`
    and `last_c`, besides `initial_h` and `last_h`. See `RecurrentOp` for the properties of all recurrent layers.
    """

    gates = 4
    functions = 3

    projected: Operand
    weights: Operand
    lengths: OptionalOperand
    initial_h: OptionalOperand
    initial_c: OptionalOperand
    peepholes: OptionalOperand
    last_c: Result
    input_forget: ir.BoolAttr

    @staticmethod
    def reference(
        projected: Array,
        weights: Array,
        lengths: Array | None,
        initial_h: Array | None,
        initial_c: Array | None,
        peepholes: Array | None,
        *,
        input_forget: bool,
        **attributes: Any,
    ) -> tuple[Array, ...]:
        def step(x: Array, r: Array, states: list[Array], functions: list[Function], direction: int) -> list[Array]:
            totals = [x[:, number] + states[0] @ r[number] for number in range(4)]
            holes = None if peepholes is None else wide(peepholes[direction])
            return lstm_step(totals, states[1], holes, functions, input_forget, attributes["clip"])

        return recurrence(LstmOp, projected, weights, lengths, [initial_h, initial_c], step, **attributes)


class GruOp(RecurrentOp, name="gru", traits=[Pure]):
    """A layer of gated recurrent units, with the gates update, reset and hidden, in this order.

    z = f(x_z + h r_z), r = f(x_r + h r_r), h' = (1 - z) * g(x_h + (r * h) r_h) + z * h. Here x is from `projected`, and r_z, r_r and r_h are from
    `weights`. With `hidden_bias` (directions, hidden), the reset gate is applied after the product: h' = (1 - z) * g(x_h + r * (h r_h + hidden_bias))
    + z * h. See `RecurrentOp` for the properties of all recurrent layers.
    """

    gates = 3
    functions = 2

    projected: Operand
    weights: Operand
    lengths: OptionalOperand
    initial_h: OptionalOperand
    hidden_bias: OptionalOperand

    @staticmethod
    def reference(
        projected: Array, weights: Array, lengths: Array | None, initial_h: Array | None, hidden_bias: Array | None, **attributes: Any
    ) -> tuple[Array, ...]:
        def step(x: Array, r: Array, states: list[Array], functions: list[Function], direction: int) -> list[Array]:
            [h], (f, g) = states, functions
            update, reset = (f(clipped(x[:, gate] + h @ r[gate], attributes["clip"])) for gate in range(2))
            inner = (reset * h) @ r[2] if hidden_bias is None else reset * (h @ r[2] + wide(hidden_bias[direction]))
            return [(1 - update) * g(clipped(x[:, 2] + inner, attributes["clip"])) + update * h]

        return recurrence(GruOp, projected, weights, lengths, [initial_h], step, **attributes)


class RnnOp(RecurrentOp, name="rnn", traits=[Pure]):
    """A plain recurrent layer, h' = f(x + h r), with x from `projected` and r from `weights`; see `RecurrentOp`."""

    gates = 1
    functions = 1

    projected: Operand
    weights: Operand
    lengths: OptionalOperand
    initial_h: OptionalOperand

    @staticmethod
    def reference(projected: Array, weights: Array, lengths: Array | None, initial_h: Array | None, **attributes: Any) -> tuple[Array, ...]:
        def step(x: Array, r: Array, states: list[Array], functions: list[Function], direction: int) -> list[Array]:
            return [functions[0](clipped(x[:, 0] + states[0] @ r[0], attributes["clip"]))]

        return recurrence(RnnOp, projected, weights, lengths, [initial_h], step, **attributes)


Function = Callable[[Array], Array]


def clipped(x: Array, clip: float) -> Array:
    """`x` clipped to -clip … clip; NaN is unchanged."""
    return np.clip(x, x.dtype.type(-clip), x.dtype.type(clip))


def lstm_step(totals: list[Array], c: Array, holes: Array | None, functions: list[Function], input_forget: bool, clip: float) -> list[Array]:
    """The states of an LSTM after a step, where `c` is the cell state before it.

    `totals` are the sums of the contributions of inputs and state to each gate, each (batch, hidden), and `holes` are the peepholes (3, hidden).
    """
    f, g, out = functions

    def gate(number: int, hole: int, c: Array) -> Array:
        return f(clipped(totals[number] if holes is None else totals[number] + holes[hole] * c, clip))

    entering = gate(0, 0, c)
    kept = 1 - entering if input_forget else gate(2, 2, c)
    c = kept * c + entering * g(clipped(totals[3], clip))
    return [gate(1, 1, c) * out(c), c]


def recurrence(
    cls: type[RecurrentOp],
    projected: Array,
    weights: Array,
    lengths: Array | None,
    initial: Sequence[Array | None],
    step: Callable[[Array, Array, list[Array], list[Function], int], list[Array]],
    *,
    direction: str,
    activations: Sequence[str],
    alphas: Sequence[float],
    betas: Sequence[float],
    clip: float,
) -> tuple[Array, ...]:
    """The results of a layer; states and sums are kept in f32 for the narrow floats.

    `step` takes the part of `projected` for a step as (batch, gates, hidden), the weights as (gates, hidden, hidden), the states (the first is the
    layer's output), the activation functions, and the number of the direction. It returns the next states.
    """
    dtype, (steps, batch, columns), (directions, gates) = projected.dtype, projected.shape, weights.shape[:2]
    hidden = columns // (directions * gates)
    r = cls.matrices(weights, hidden)
    x = wide(projected).reshape(steps, batch, directions, gates, hidden)
    y = np.zeros((steps, directions, batch, hidden), x.dtype)
    last = [np.zeros((directions, batch, hidden), x.dtype) if v is None else wide(v).copy() for v in initial]
    for d, backward in enumerate(DIRECTIONS[direction]):
        own = slice(d * cls.functions, (d + 1) * cls.functions)
        chosen = zip(activations[own], alphas[own], betas[own], strict=True)
        functions = [bound(name, x.dtype.type(alpha), x.dtype.type(beta)) for name, alpha, beta in chosen]
        for t in reversed(range(steps)) if backward else range(steps):
            before = [state[d] for state in last]
            after = step(x[t, :, d], r[d], before, functions, d)
            goes_on = np.ones((batch, 1), bool) if lengths is None else (t < lengths)[:, None]
            y[t, d] = np.where(goes_on, after[0], 0)
            for state, old, new in zip(last, before, after, strict=True):
                state[d] = np.where(goes_on, new, old)
    return tuple(narrow(array, dtype) for array in (y, *last))


def bound(name: str, alpha: float, beta: float) -> Function:
    """An activation function bound to its parameters."""
    function = ACTIVATIONS[name].function
    return lambda x: function(x, alpha, beta)
