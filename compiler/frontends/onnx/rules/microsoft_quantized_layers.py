"""Rules for whole layers of ONNX Runtime's domain com.microsoft with quantised weights: LSTM, attention, and embeddings."""

from dataclasses import dataclass, replace

from stepwell.dialects.core.dtypes import BYTES
from stepwell.dialects.core.sizes import same_sizes
from stepwell.dialects.core.types import type_of
from stepwell.dialects.graph.recurrence import DIRECTIONS
from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.frontends.blocks.slicing import split_axis
from stepwell.frontends.builder import Value, dims_of
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import Group, onnx_rule
from stepwell.frontends.onnx.rules.microsoft import MICROSOFT
from stepwell.frontends.onnx.rules.microsoft_attention import FIXED, AttentionAttributes, attended, divided, with_bias
from stepwell.frontends.onnx.rules.microsoft_normalizations import Embeddings, normalised_rows
from stepwell.frontends.onnx.rules.microsoft_quantization import dynamic_quantize_matmul, matmul_integer_to_float, number, real
from stepwell.frontends.onnx.rules.quantization import is_zero
from stepwell.frontends.onnx.rules.recurrence import ImportedLayer, LstmInputs, RecurrentAttributes


@onnx_rule("DynamicQuantizeLSTM", since=1, domain=MICROSOFT)
def dynamic_quantize_lstm(
    b: ImportBuilder,
    given: LstmInputs,
    w_scale: Value | None = None,
    w_zero_point: Value | None = None,
    r_scale: Value | None = None,
    r_zero_point: Value | None = None,
    *,
    attributes: RecurrentAttributes,
    input_forget: int = 0,
) -> tuple[Value, ...]:
    """Outputs: Y, Y_h, Y_c. All inputs are quantised as one tensor, and so is the state of all sequences before each step."""
    if type_of(given.x).dtype != "f32":
        raise UnsupportedError(f"of {type_of(given.x)} is not supported; supported: f32")
    layer = QuantizedLayer(b, given, attributes)
    made = layer.attributes(attributes, "Sigmoid", "Tanh", "Tanh")
    layer.of_inputs = layer.parameters("W", given.w, w_scale, w_zero_point)
    scale, zero_point = layer.parameters("R", given.r, r_scale, r_zero_point)
    peepholes = layer.peepholes(given.peepholes)
    projected = layer.projected(layer.both_biases(given.bias))
    states = (layer.state("initial_h", given.initial_h), layer.state("initial_c", given.initial_c))
    numbers, sums = layer.numbers(zero_point)
    scales = b.with_shape(scale, (layer.directions, layer.gates, layer.hidden))
    operands = (projected, numbers, scales, sums, layer.lengths(given.sequence_lens), *states, peepholes)
    return layer.results(b.quantized_lstm(*operands, **made, input_forget=bool(input_forget)))


class QuantizedLayer(ImportedLayer):
    """A recurrent layer with quantised weights, which are given transposed."""

    b: ImportBuilder
    of_inputs: tuple[Value, Value | None]
    """The scale and the zero point of each column of the inputs' weights."""

    def __init__(self, b: ImportBuilder, given: LstmInputs, attributes: RecurrentAttributes) -> None:
        x, w, r = given.x, given.w, given.r
        for name, value in (("X", x), ("W", w), ("R", r)):
            if type_of(value).rank != 3:
                raise ModelError(f"its input {name} must have rank 3, got {type_of(value)}")
        for name, value in (("W", w), ("R", r)):
            if type_of(value).dtype not in BYTES:
                raise UnsupportedError(f"weights {name} of {type_of(value)} are not supported; supported: {', '.join(BYTES)}")
        directions, hidden = len(DIRECTIONS.get(attributes.direction, [attributes.direction])), dims_of(r)[1]
        for name, value, inputs in (("W", w, type_of(x).shape[2]), ("R", r, hidden)):
            self.expect(name, value, (directions, inputs, 4 * hidden))
        super().__init__(b, replace(given, w=b.transposed(w, (0, 2, 1)), r=b.transposed(r, (0, 2, 1))), 4, attributes)

    def parameters(self, name: str, weights: Value, scale: Value | None, zero_point: Value | None) -> tuple[Value, Value | None]:
        """The scale and the zero point of weights as (directions, gates * hidden); no zero point if it is 0.

        They are given in this form, or as one number for each direction.
        """
        b, columns, dtype = self.b, (self.directions, self.gates * self.hidden), type_of(weights).dtype
        if scale is None or zero_point is None:
            raise ModelError(f"its inputs {name}_scale and {name}_zero_point must be given")
        for what, value, wanted in (("scale", scale, "f32"), ("zero_point", zero_point, dtype)):
            kind = type_of(value)
            if kind.dtype != wanted or not any(same_sizes(kind.shape, sizes) for sizes in (columns, columns[:1])):
                raise ModelError(f"its input {name}_{what} must be of {wanted}, one number for each direction or for each column; got {kind}")
        spread = [v if type_of(v).rank == 2 else b.expand(b.with_shape(v, (columns[0], 1)), shape=columns) for v in (scale, zero_point)]
        return spread[0], None if is_zero(b, zero_point) else spread[1]

    def multiplied(self, rows: Value, weights: Value) -> Value:
        scale, zero_point = (None if v is None else self.b.with_shape(v, (self.directions * self.gates * self.hidden,)) for v in self.of_inputs)
        assert scale is not None
        return dynamic_quantize_matmul(self.b, rows, weights, scale, zero_point)

    def numbers(self, zero_point: Value | None) -> tuple[Value, Value]:
        """The recurrent weights without a zero point, in the form for `graph.quantized_lstm`, and the sums of their columns."""
        b, weights = self.b, self.weights()
        shape = (self.directions, self.gates, 1, self.hidden, self.hidden)
        if zero_point is None and type_of(weights).dtype == "ui8":
            weights = b.convert(weights, "i16")
        elif zero_point is not None:
            zero = b.with_shape(zero_point, (self.directions, self.gates, 1, 1, self.hidden))
            weights = b.convert(b.sub(b.convert(weights, "i32"), b.convert(zero, "i32")), "i16")
        sums = b.reduce_sum(b.convert(weights, "i32"), axes=(2, 3), keepdims=False)
        return b.with_shape(weights, (*shape, 1)), sums


@onnx_rule("QAttention", since=1, domain=MICROSOFT, fixed=FIXED)
def qattention(
    b: ImportBuilder,
    x: Value,
    weights: Value,
    bias: Value,
    x_scale: Value,
    weights_scale: Value,
    mask_index: Value | None = None,
    x_zero_point: Value | None = None,
    weights_zero_point: Value | None = None,
    past: Value | None = None,
    *,
    attributes: AttentionAttributes,
) -> tuple[Value, ...]:
    """Only the product that computes queries, keys and values uses integers."""
    sizes = divided(x, weights, attributes.num_heads)
    zero_point = None if x_zero_point is None else number(b, x_zero_point, "the zero point of the input")
    product = matmul_integer_to_float(b, x, weights, x_scale, weights_scale, zero_point, weights_zero_point)
    projected = with_bias(b, split_axis(b, product, 2, sizes), bias)
    return attended(b, projected, attributes, mask_index, past)


@dataclass(frozen=True)
class Parameters(Group):
    """The scales, or the zero points, of quantised embeddings and of their normalisation."""

    words: Value | None = None
    positions: Value | None = None
    segments: Value | None = None
    gamma: Value | None = None
    beta: Value | None = None


@onnx_rule("QEmbedLayerNormalization", since=1, domain=MICROSOFT)
def qembed_layer_normalization(
    b: ImportBuilder, embeddings: Embeddings, scales: Parameters, zero_points: Parameters, *, epsilon: float = 1e-12
) -> tuple[Value, Value]:
    """Rows are converted to floats after the lookup."""

    def read(name: str, stored: Value) -> Value:
        return real(b, stored, getattr(scales, name), getattr(zero_points, name))

    _, _, gamma, beta = embeddings.required
    total, kept = embeddings.summed(b, read)
    return normalised_rows(b, total, read("gamma", gamma), read("beta", beta), epsilon, "f32")[0], kept
