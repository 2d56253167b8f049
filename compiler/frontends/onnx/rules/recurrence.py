"""Rules for recurrent layers: LSTM, GRU and RNN."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.frontends.blocks.recurrence import Layer, bound
from stepwell.frontends.blocks.slicing import slice_axis
from stepwell.frontends.builder import Value
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import Group, onnx_rule
from stepwell.frontends.onnx.rounding import rounded_once

# Maps the operator's name of an activation function (case-insensitive) to the dialect's, with default parameters, which are those of the operator of
# that name. There is no operator Affine or ScaledTanh; ONNX Runtime uses zeros, so that nothing is left of the data.
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
OUTPUT_SEQUENCE = {"output_sequence": 0}  # asks for Y in opsets 1 to 6; Y is made if the node has a name for it


@dataclass(frozen=True)
class RecurrentAttributes(Group):
    """The attributes that recurrent layers share."""

    hidden_size: int | None = None
    direction: str = "forward"
    activations: Sequence[str] = ()
    activation_alpha: Sequence[float] = ()
    activation_beta: Sequence[float] = ()
    clip: float | None = None


@dataclass(frozen=True)
class RecurrentInputs(Group):
    """The inputs that recurrent layers share."""

    x: Value
    w: Value
    r: Value
    bias: Value | None = None
    sequence_lens: Value | None = None
    initial_h: Value | None = None


@dataclass(frozen=True)
class LstmInputs(RecurrentInputs):
    """The inputs of an LSTM."""

    initial_c: Value | None = None
    peepholes: Value | None = None


class ImportedLayer(Layer):
    """A recurrent layer with ONNX's names of activation functions."""

    def __init__(self, b: ImportBuilder, given: RecurrentInputs, gates: int, attributes: RecurrentAttributes, layout: int = 0) -> None:
        super().__init__(b, given.x, given.w, given.r, gates, attributes.direction, layout, attributes.hidden_size)

    def attributes(self, given: RecurrentAttributes, *defaults: str) -> dict[str, Any]:
        """The attributes of the op: direction, clipping, and the activation functions of all directions; by default these for each direction.

        The functions that need parameters take them from `activation_alpha` and `activation_beta` in order.
        """
        names, each = given.activations or defaults * self.directions, len(defaults)
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
            "alphas": self._numbers("activation_alpha", 0, names, given.activation_alpha),
            "betas": self._numbers("activation_beta", 1, names, given.activation_beta),
            "direction": given.direction,
            "clip": bound(given.clip),
        }

    @staticmethod
    def _numbers(attribute: str, place: int, names: Sequence[str], given: Sequence[float]) -> list[float]:
        """For each activation function, its first or second parameter: from those given in order, else its default; 0 if it takes none."""
        takers = [name for name in names if len(FUNCTIONS[name][1]) > place]
        if len(given) > len(takers):
            raise ModelError(f"{attribute} has {len(given)} numbers, but of its activations ({', '.join(names)}) {len(takers)} take one")
        without = [name for name in takers[len(given) :] if FUNCTIONS[name][1][place] is None]
        if without:
            raise ModelError(f"{attribute} must have a number for the activation {without[0]!r}, for which ONNX has no default")
        rest = iter(given)
        return [float(np.float32(next(rest, FUNCTIONS[name][1][place]))) if name in takers else 0.0 for name in names]


@onnx_rule("LSTM", since=1, ignored=OUTPUT_SEQUENCE)
@rounded_once
def lstm(
    b: ImportBuilder, given: LstmInputs, *, attributes: RecurrentAttributes, input_forget: int = 0, layout: int = 0
) -> tuple[Value, ...]:
    """Outputs: Y, Y_h, Y_c."""
    layer = ImportedLayer(b, given, 4, attributes, layout)
    made = layer.attributes(attributes, "Sigmoid", "Tanh", "Tanh")
    peepholes = layer.peepholes(given.peepholes)
    projected = layer.projected(layer.both_biases(given.bias))
    states = (layer.state("initial_h", given.initial_h), layer.state("initial_c", given.initial_c))
    operands = (projected, layer.weights(), layer.lengths(given.sequence_lens), *states, peepholes)
    return layer.results(b.lstm(*operands, **made, input_forget=bool(input_forget)))


@onnx_rule("GRU", since=1, ignored=OUTPUT_SEQUENCE)
@rounded_once
def gru(
    b: ImportBuilder, given: RecurrentInputs, *, attributes: RecurrentAttributes, linear_before_reset: int = 0, layout: int = 0
) -> tuple[Value, ...]:
    """Outputs: Y, Y_h."""
    layer = ImportedLayer(b, given, 3, attributes, layout)
    made = layer.attributes(attributes, "Sigmoid", "Tanh")
    hidden_bias = None
    if linear_before_reset:
        of_inputs, of_state = layer.biases(given.bias)
        outer = 2 * layer.hidden  # of update and reset: both biases are added to their sums
        total = b.add(slice_axis(b, of_inputs, 1, 0, outer), slice_axis(b, of_state, 1, 0, outer))
        projected = layer.projected(b.concat([total, slice_axis(b, of_inputs, 1, outer, layer.hidden)], axis=1))
        hidden_bias = slice_axis(b, of_state, 1, outer, layer.hidden)
    else:
        projected = layer.projected(layer.both_biases(given.bias))
    state, lengths = layer.state("initial_h", given.initial_h), layer.lengths(given.sequence_lens)
    return layer.results(b.gru(projected, layer.weights(), lengths, state, hidden_bias, **made))


@onnx_rule("RNN", since=1, ignored=OUTPUT_SEQUENCE)
@rounded_once
def rnn(b: ImportBuilder, given: RecurrentInputs, *, attributes: RecurrentAttributes, layout: int = 0) -> tuple[Value, ...]:
    """Outputs: Y, Y_h."""
    layer = ImportedLayer(b, given, 1, attributes, layout)
    made = layer.attributes(attributes, "Tanh")
    projected = layer.projected(layer.both_biases(given.bias))
    state, lengths = layer.state("initial_h", given.initial_h), layer.lengths(given.sequence_lens)
    return layer.results(b.rnn(projected, layer.weights(), lengths, state, **made))
