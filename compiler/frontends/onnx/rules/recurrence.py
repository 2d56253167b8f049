"""Rules for recurrent layers: LSTM, GRU and RNN."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stepwell.dialects.core.sizes import Dim, holds, same_sizes, size_text
from stepwell.dialects.core.types import FLOATS, type_of
from stepwell.dialects.graph.recurrence import DIRECTIONS
from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.frontends.builder import Value, dims_of
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import onnx_rule
from stepwell.frontends.onnx.rounding import rounded_once
from stepwell.frontends.onnx.rules.slicing import slice_axis

# By the operator's name of an activation function (in any case): the dialect's, and the numbers that it takes if the node has none, which are those
# of the operator of that name. There is no operator Affine or ScaledTanh; ONNX Runtime takes zeros, so that nothing is left of the data.
FUNCTIONS: dict[str, tuple[str, tuple[float | None, ...]]] = {
    "Affine": ("affine", (None, None)),
    "Elu": ("elu", (1.0,)),
    "HardSigmoid": ("hard_sigmoid", (0.2, 0.5)),
    "LeakyRelu": ("leaky_relu", (0.01,)),
    "Relu": ("relu", ()),
    "ScaledTanh": ("scaled_tanh", (None, None)),
    "Sigmoid": ("sigmoid", ()),
    "Softplus": ("softplus", ()),
    "Softsign": ("softsign", ()),
    "Tanh": ("tanh", ()),
    "ThresholdedRelu": ("thresholded_relu", (1.0,)),
}


@onnx_rule("LSTM", since=1)
@rounded_once
def lstm(
    b: ImportBuilder,
    x: Value,
    w: Value,
    r: Value,
    bias: Value | None = None,
    sequence_lens: Value | None = None,
    initial_h: Value | None = None,
    initial_c: Value | None = None,
    peepholes: Value | None = None,
    *,
    hidden_size: int | None = None,
    direction: str = "forward",
    activations: Sequence[str] = (),
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float | None = None,
    input_forget: int = 0,
    output_sequence: int = 0,
    layout: int = 0,
) -> tuple[Value, ...]:
    """Outputs: Y, Y_h, Y_c."""
    layer = Layer(b, x, w, r, 4, direction, layout, hidden_size)
    functions = layer.functions(activations or ("Sigmoid", "Tanh", "Tanh") * layer.directions, 3, activation_alpha, activation_beta)
    peepholes = layer.peepholes(peepholes)
    projected = layer.projected(layer.both_biases(bias))
    states = (layer.state("initial_h", initial_h), layer.state("initial_c", initial_c))
    attributes = {**functions, "direction": direction, "clip": bound(clip), "input_forget": bool(input_forget)}
    return layer.results(b.lstm(projected, layer.weights(), layer.lengths(sequence_lens), *states, peepholes, **attributes))


@onnx_rule("GRU", since=1)
@rounded_once
def gru(
    b: ImportBuilder,
    x: Value,
    w: Value,
    r: Value,
    bias: Value | None = None,
    sequence_lens: Value | None = None,
    initial_h: Value | None = None,
    *,
    hidden_size: int | None = None,
    direction: str = "forward",
    activations: Sequence[str] = (),
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float | None = None,
    linear_before_reset: int = 0,
    output_sequence: int = 0,
    layout: int = 0,
) -> tuple[Value, ...]:
    """Outputs: Y, Y_h."""
    layer = Layer(b, x, w, r, 3, direction, layout, hidden_size)
    functions = layer.functions(activations or ("Sigmoid", "Tanh") * layer.directions, 2, activation_alpha, activation_beta)
    hidden_bias = None
    if linear_before_reset:
        of_inputs, of_state = layer.biases(bias)
        outer = 2 * layer.hidden  # of update and reset: both biases are added to their sums
        total = b.add(slice_axis(b, of_inputs, 1, 0, outer), slice_axis(b, of_state, 1, 0, outer))
        projected = layer.projected(b.concat([total, slice_axis(b, of_inputs, 1, outer, layer.hidden)], axis=1))
        hidden_bias = slice_axis(b, of_state, 1, outer, layer.hidden)
    else:
        projected = layer.projected(layer.both_biases(bias))
    state, lengths = layer.state("initial_h", initial_h), layer.lengths(sequence_lens)
    return layer.results(b.gru(projected, layer.weights(), lengths, state, hidden_bias, **functions, direction=direction, clip=bound(clip)))


@onnx_rule("RNN", since=1)
@rounded_once
def rnn(
    b: ImportBuilder,
    x: Value,
    w: Value,
    r: Value,
    bias: Value | None = None,
    sequence_lens: Value | None = None,
    initial_h: Value | None = None,
    *,
    hidden_size: int | None = None,
    direction: str = "forward",
    activations: Sequence[str] = (),
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float | None = None,
    output_sequence: int = 0,
    layout: int = 0,
) -> tuple[Value, ...]:
    """Outputs: Y, Y_h."""
    layer = Layer(b, x, w, r, 1, direction, layout, hidden_size)
    functions = layer.functions(activations or ("Tanh",) * layer.directions, 1, activation_alpha, activation_beta)
    projected = layer.projected(layer.both_biases(bias))
    state, lengths = layer.state("initial_h", initial_h), layer.lengths(sequence_lens)
    return layer.results(b.rnn(projected, layer.weights(), lengths, state, **functions, direction=direction, clip=bound(clip)))


def bound(clip: float | None) -> float:
    """The bound of what goes into the gates' functions: none without `clip`. As in ONNX Runtime, an LSTM's cell state is not clipped."""
    if clip is None:
        return float("inf")
    if clip < 0:
        raise ModelError(f"clip must not be negative, got {clip}")
    return clip


class Layer:
    """A recurrent layer being imported: its sizes, checked, and its operands as the dialect's ops take them."""

    def __init__(self, b: ImportBuilder, x: Value, w: Value, r: Value, gates: int, direction: str, layout: int, hidden_size: int | None) -> None:
        if direction not in DIRECTIONS:
            raise ModelError(f"direction must be one of {', '.join(DIRECTIONS)}; got {direction!r}")
        if layout not in (0, 1):
            raise ModelError(f"layout must be 0 or 1, got {layout}")
        if type_of(x).dtype not in FLOATS:
            raise ModelError(f"its input X must be a float, got {type_of(x)}")
        for name, value in (("X", x), ("W", w), ("R", r)):
            if type_of(value).rank != 3:
                raise ModelError(f"its input {name} must have rank 3, got {type_of(value)}")
        inputs, hidden = dims_of(w)[2], dims_of(r)[2]
        if hidden_size is not None and not holds(hidden_size, "==", hidden):
            raise ModelError(f"hidden_size is {hidden_size}, but R ({type_of(r)}) is for {hidden}")
        self.b, self.x, self.w, self.r, self.gates, self.inputs, self.hidden = b, x, w, r, gates, inputs, hidden
        self.directions, self.batch_first = len(DIRECTIONS[direction]), bool(layout)
        self.batch = type_of(x).shape[0 if self.batch_first else 1]
        self.expect("W", w, (self.directions, gates * hidden, type_of(x).shape[2]))
        self.expect("R", r, (self.directions, gates * hidden, hidden))

    def expect(self, name: str, value: Value, shape: Sequence[Dim]) -> None:
        """Raise ModelError if an input has another shape."""
        own = type_of(value).shape
        if not same_sizes(own, shape):
            wanted = "x".join(map(size_text, shape))
            raise ModelError(f"its input {name} must have the shape {wanted}, got {type_of(value)}")

    def functions(self, names: Sequence[str], each: int, alphas: Sequence[float], betas: Sequence[float]) -> dict[str, list[float] | list[str]]:
        """The attributes that name the activation functions of all directions. They take from `alphas` and `betas` in order, those that need one."""
        count = each * self.directions
        if len(names) != count:
            raise ModelError(f"activations must name {count} functions, {each} for each direction; got {', '.join(names)}")
        known = {name.lower(): name for name in FUNCTIONS}
        unknown = [name for name in names if name.lower() not in known]
        if unknown:
            raise UnsupportedError(f"the activation {unknown[0]!r} is not supported; supported: {', '.join(FUNCTIONS)}")
        names = [known[name.lower()] for name in names]
        return {
            "activations": [FUNCTIONS[name][0] for name in names],
            "alphas": self._numbers("activation_alpha", 0, names, alphas),
            "betas": self._numbers("activation_beta", 1, names, betas),
        }

    @staticmethod
    def _numbers(attribute: str, place: int, names: Sequence[str], given: Sequence[float]) -> list[float]:
        """For each activation function its first or second number: of those given in order, else its default one; 0 if it takes none."""
        takers = [name for name in names if len(FUNCTIONS[name][1]) > place]
        if len(given) > len(takers):
            raise ModelError(f"{attribute} has {len(given)} numbers, but of its activations ({', '.join(names)}) {len(takers)} take one")
        without = [name for name in takers[len(given) :] if FUNCTIONS[name][1][place] is None]
        if without:
            raise ModelError(f"{attribute} must have a number for the activation {without[0]!r}, for which ONNX has no default")
        rest = iter(given)
        return [float(np.float32(next(rest, FUNCTIONS[name][1][place]))) if name in takers else 0.0 for name in names]

    def biases(self, bias: Value | None) -> tuple[Value, Value]:
        """The biases of the inputs' products and of the state's, (directions, gates * hidden) each; zeros if there are none."""
        columns = self.gates * self.hidden
        if bias is None:
            zero = self.b.expand(self.b.scalar(0, like=self.x), shape=(self.directions, columns))
            return zero, zero
        self.expect("B", bias, (self.directions, 2 * columns))
        return slice_axis(self.b, bias, 1, 0, columns), slice_axis(self.b, bias, 1, columns, columns)

    def both_biases(self, bias: Value | None) -> Value | None:
        """The sum of the biases, None if there are none."""
        return None if bias is None else self.b.add(*self.biases(bias))

    def projected(self, bias: Value | None) -> Value:
        """The products of all steps' inputs with the weights of all directions and gates, as one matrix product, and a bias for each column."""
        b, columns = self.b, self.directions * self.gates * self.hidden
        x = b.transposed(self.x, (1, 0, 2)) if self.batch_first else self.x
        steps, batch, _ = dims_of(x)
        rows = b.with_shape(x, (steps * batch, self.inputs))
        product = self.multiplied(rows, b.transposed(b.with_shape(self.w, (columns, self.inputs)), (1, 0)))
        total = product if bias is None else b.add(product, b.with_shape(bias, (columns,)))
        return b.with_shape(total, (steps, batch, columns))

    def multiplied(self, rows: Value, weights: Value) -> Value:
        """The product of the inputs of all steps and sequences with the weights (inputs, directions * gates * hidden)."""
        return self.b.matmul(rows, weights)

    def weights(self) -> Value:
        """The recurrent weights with a matrix for each direction and gate, which is one panel."""
        b, sizes = self.b, (self.directions, self.gates, self.hidden, self.hidden)
        turned = b.transposed(b.with_shape(self.r, sizes), (0, 1, 3, 2))
        return b.with_shape(turned, (self.directions, self.gates, 1, self.hidden, self.hidden))

    def peepholes(self, given: Value | None) -> Value | None:
        """The weights of the peepholes as (directions, 3, hidden), None if there are none."""
        if given is None:
            return None
        self.expect("P", given, (self.directions, 3 * self.hidden))
        return self.b.with_shape(given, (self.directions, 3, self.hidden))

    def lengths(self, sequence_lens: Value | None) -> Value | None:
        """The number of steps of each sequence, None if all have all."""
        if sequence_lens is not None:
            self.expect("sequence_lens", sequence_lens, (self.batch,))
        return sequence_lens

    def state(self, name: str, initial: Value | None) -> Value | None:
        """A state before the first step as (directions, batch, hidden)."""
        if initial is None:
            return None
        sizes = (self.directions, self.batch, self.hidden)
        self.expect(name, initial, (sizes[1], sizes[0], sizes[2]) if self.batch_first else sizes)
        return self.b.transposed(initial, (1, 0, 2)) if self.batch_first else initial

    def results(self, made: Any) -> tuple[Value, ...]:
        """What each step gives, and the last states, in the node's layout."""
        if not self.batch_first:
            return tuple(made)
        y, *states = made
        return self.b.transposed(y, (2, 0, 1, 3)), *(self.b.transposed(state, (1, 0, 2)) for state in states)
