"""What is written of a quantised network: integers, scales and zero points of weights, biases and values."""

from typing import Any

import numpy as np
import onnx
import pytest
from float_networks import FloatNet
from onnx import numpy_helper

from stepwell import InputError, UnsupportedError
from stepwell.quantizer import Quantized, QuantizeOptions, quantize
from stepwell.quantizer.graphs import Links


def quantized(model: onnx.ModelProto, *shape: int, **options: Any) -> Quantized:
    """The network, quantised with a few samples of normal numbers."""
    return quantize(model, {"x": np.random.default_rng(1).normal(0.2, 1, (3, *shape)).astype(np.float32)}, QuantizeOptions(**options), cache=False)


def stored(made: Quantized, node: str, place: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """The integers, scales, zero points and axis of what a node reads."""
    links = Links(made.model.graph)
    reader = next(n for n in made.model.graph.node if n.name == node)
    maker = links.makers[reader.input[place]]
    assert maker.op_type == "DequantizeLinear"
    arrays = [links.array(name) for name in maker.input]
    assert all(array is not None for array in arrays)
    return *arrays, next((a.i for a in maker.attribute if a.name == "axis"), 1)


def floats(made: Quantized, node: str, place: int) -> np.ndarray:
    """The numbers that a node reads."""
    numbers, scale, zero, axis = stored(made, node, place)
    along = [-1 if i == axis else 1 for i in range(numbers.ndim)] if scale.ndim else []
    return (numbers.astype(np.float64) - zero.reshape(along)) * scale.reshape(along)


def original(made: Quantized, node: str, place: int) -> np.ndarray:
    links = Links(made.floats.graph)
    array = links.array(next(n for n in made.floats.graph.node if n.name == node).input[place])
    assert array is not None
    return array


@pytest.mark.parametrize(("kind", "shape", "axis", "attributes"), [
    ("Conv", (5, 3, 3, 3), 0, {}), ("Conv", (6, 1, 3, 3), 0, {"group": 3}), ("ConvTranspose", (3, 5, 2, 2), 1, {}),
    ("ConvTranspose", (3, 2, 2, 2), None, {"group": 3}),
])  # fmt: skip
def test_weights_of_convolutions(kind: str, shape: tuple[int, ...], axis: int | None, attributes: dict[str, int]):
    net = FloatNet(0)
    made = quantized(net.model(net.op(kind, "x", net.weight(*shape), **attributes), 1, 3, 6, 6), 1, 3, 6, 6)
    name = f"{kind.lower()}0"
    numbers, scale, zero, _ = stored(made, name, 1)
    assert numbers.dtype == zero.dtype == np.int8
    assert not zero.any()
    assert scale.shape == (() if axis is None else (shape[axis],))
    assert np.abs(numbers).max() == 127
    error = np.abs(floats(made, name, 1) - original(made, name, 1))
    others = tuple(i for i in range(4) if i != axis) if axis is not None else None
    assert (error.max(axis=others) <= 0.5001 * scale).all()


@pytest.mark.parametrize("transposed", [0, 1])
def test_weights_and_biases_of_products(transposed: int):
    net = FloatNet(0)
    h = net.op("MatMul", net.op("Gemm", "x", net.weight(*((6, 8) if transposed else (8, 6))), net.weight(6), transB=transposed), net.weight(6, 4))
    made = quantized(net.model(h, 3, 8), 3, 8)
    assert stored(made, "gemm0", 1)[1].shape == (6,)
    assert stored(made, "gemm0", 1)[3] == 1 - transposed
    assert stored(made, "matmul1", 1)[1].shape == (4,)
    numbers, scale, zero, axis = stored(made, "gemm0", 2)
    assert (numbers.dtype, axis) == (np.int32, 0)
    assert not zero.any()
    np.testing.assert_array_equal(scale, made.parameters["x"].scale * stored(made, "gemm0", 1)[1])
    assert (np.abs(floats(made, "gemm0", 2) - original(made, "gemm0", 2)) <= 0.5001 * scale).all()


def test_one_scale_for_all_channels_and_7_bits():
    net = FloatNet(0)
    model = net.model(net.op("Conv", "x", net.weight(5, 3, 3, 3), net.weight(5)), 1, 3, 6, 6)
    made = quantized(model, 1, 3, 6, 6, per_channel=False, reduce_range=True)
    numbers, scale, _, _ = stored(made, "conv0", 1)
    assert scale.shape == ()
    assert np.abs(numbers).max() == 63
    assert (np.abs(floats(made, "conv0", 2) - original(made, "conv0", 2)) <= 0.5001 * scale * made.parameters["x"].scale).all()


@pytest.mark.parametrize("weight", [0.0, 1e-12])
def test_a_bias_beside_weights_of_nothing_does_not_overflow(weight: float):
    """A pruned channel has tiny weights, and so a tiny scale, but its bias counts."""
    net = FloatNet(0)
    model = net.model(net.op("Conv", "x", net.weight(4, 3, 1, 1), net.weight(4)), 1, 3, 6, 6)
    tensor = next(t for t in model.graph.initializer if t.name == "w0")
    array = numpy_helper.to_array(tensor).copy()
    array[2] *= weight / np.abs(array[2]).max()
    tensor.CopyFrom(numpy_helper.from_array(array, "w0"))
    made = quantized(model, 1, 3, 6, 6)
    numbers = stored(made, "conv0", 2)[0].astype(np.int64)
    assert np.abs(numbers).max() <= 1 << 30
    bias = original(made, "conv0", 2)
    np.testing.assert_allclose(floats(made, "conv0", 2)[2], bias[2], rtol=1e-6)
    assert abs(bias[2]) > 0.01


def test_activations_are_bytes_with_a_zero_point_or_around_0():
    net = FloatNet(0)
    h = net.op("Relu", net.op("Conv", "x", net.weight(4, 3, 1, 1)))
    model = net.model(net.op("Conv", h, net.weight(5, 4, 1, 1)), 1, 3, 6, 6)
    made = quantized(model, 1, 3, 6, 6, method="minmax")
    seen = made.histograms["x"]
    assert 0 < made.parameters["x"].zero_point < 255
    assert made.parameters["x"].scale == pytest.approx((seen.high - seen.low) / 255, rel=1e-6)
    assert (made.parameters["relu1.y"].zero_point, made.parameters["relu1.y"].zero_point.dtype) == (0, np.uint8)
    around = quantized(model, 1, 3, 6, 6, method="minmax", symmetric_activations=True)
    assert all((used.zero_point, used.zero_point.dtype) == (0, np.int8) for used in around.parameters.values())


def test_values_that_only_move_share_a_scale():
    net = FloatNet(0)
    h = net.op("MaxPool", net.op("Conv", "x", net.weight(4, 3, 1, 1)), kernel_shape=[2, 2], strides=[2, 2])
    made = quantized(net.model(net.op("Gemm", net.op("Flatten", h), net.weight(36, 3)), 1, 3, 6, 6), 1, 3, 6, 6)
    chain = {made.parameters[name] for name in ("conv0.y", "maxpool1.y", "flatten2.y")}
    assert len(chain) == 1


@pytest.mark.parametrize(("factor", "shared"), [(0.8, True), (0.05, False)])
def test_what_is_concatenated_shares_a_scale_unless_that_hurts_another_reader(factor: float, shared: bool):
    net = FloatNet(0)
    wide = net.op("Relu", net.op("Conv", "x", net.weight(4, 3, 1, 1)))
    net.weights["factor"] = np.array(factor, np.float32)
    narrow = net.op("Relu", net.op("Mul", wide, "factor"))
    h = net.op("Conv", net.op("Concat", wide, narrow, axis=1), net.weight(4, 8, 1, 1))
    other = net.op("Conv", narrow, net.weight(4, 4, 1, 1))
    made = quantized(net.model(net.op("Sub", h, other), 1, 3, 6, 6), 1, 3, 6, 6)
    joined = next(name for name in made.parameters if name.startswith("concat"))
    assert made.parameters[joined] == made.parameters[wide]
    assert (made.parameters[narrow] == made.parameters[joined]) == shared
    alone = FloatNet(0)
    first = alone.op("Relu", alone.op("Conv", "x", alone.weight(4, 3, 1, 1)))
    alone.weights["factor"] = np.array(factor, np.float32)
    second = alone.op("Relu", alone.op("Mul", first, "factor"))
    only = quantized(alone.model(alone.op("Conv", alone.op("Concat", first, second, axis=1), alone.weight(4, 8, 1, 1)), 1, 3, 6, 6), 1, 3, 6, 6)
    assert only.parameters[first] == only.parameters[second], "nothing reads the narrow one by itself"


def test_weights_that_two_layers_share_are_stored_once():
    net = FloatNet(0)
    w = net.weight(6, 6)
    made = quantized(net.model(net.op("MatMul", net.op("Relu", net.op("MatMul", "x", w)), w), 2, 6), 2, 6)
    assert sum(tensor.data_type == onnx.TensorProto.INT8 for tensor in made.model.graph.initializer) == 2, "the numbers, and zero points"


def test_inputs_and_outputs_keep_their_names_and_floats_are_gone():
    net = FloatNet(0)
    model = net.model(net.op("Conv", net.op("Relu", net.op("Conv", "x", net.weight(4, 3, 1, 1))), net.weight(5, 4, 1, 1)), 1, 3, 6, 6)
    made = quantized(model, 1, 3, 6, 6)
    onnx.checker.check_model(made.model, full_check=True)
    assert [value.name for value in made.model.graph.input] == ["x"]
    assert [value.name for value in made.model.graph.output] == [value.name for value in model.graph.output]
    large = [t.name for t in made.model.graph.initializer if t.data_type == onnx.TensorProto.FLOAT and not t.name.endswith("_scale")]
    assert large == []


def test_everything_may_stay_in_float():
    net = FloatNet(0)
    made = quantized(net.model(net.op("MatMul", "x", net.weight(6, 6)), 2, 6), 2, 6, keep_float={"matmul*"})
    assert (made.layers, made.parameters) == ((), {})
    assert [node.op_type for node in made.model.graph.node] == ["MatMul"]


def test_what_cannot_be_quantised_is_named():
    net = FloatNet(0)
    nothing = net.model(net.op("Relu", "x"), 2, 6)
    with pytest.raises(UnsupportedError, match=r"no node that can be quantised: expected products of f32 \(Conv, .*\), it has Relu"):
        quantized(nothing, 2, 6)
    net = FloatNet(0)
    product = net.model(net.op("MatMul", "x", net.weight(6, 6)), 2, 6)
    with pytest.raises(InputError, match=r"keep_float: expected names of nodes, or patterns of such, got 'fc1', which fits none of 1 nodes"):
        quantized(product, 2, 6, keep_float={"fc1"})
    with pytest.raises(UnsupportedError, match=r"expected products of f32 \(Conv\), it has MatMul"):
        quantized(product, 2, 6, op_types={"Conv"})
