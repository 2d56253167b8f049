"""Bias correction: what is left of mean errors, and where the corrections go."""

import numpy as np
import onnx
import pytest
from float_networks import FloatNet, run_plainly
from onnx import numpy_helper

from stepwell.dialects.support.errors import InputError
from stepwell.quantizer import Quantized, quantize
from stepwell.quantizer.correct_bias import bias_corrected

OUTPUT = "add16.y"
LAYERS = {"conv0": "w1", "conv2": None, "conv4": None, "conv8": "w5", "gemm13": "w7", "matmul15": "w9"}
"""The layers, and their biases."""


@pytest.fixture(scope="module")
def samples(images: np.ndarray) -> list[dict[str, np.ndarray]]:
    return [{"x": image} for image in images]


@pytest.fixture(scope="module")
def corrected(network: Quantized, samples: list[dict[str, np.ndarray]]) -> onnx.ModelProto:
    return bias_corrected(network.floats, network.model, samples)


def stored(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def mean_errors(network: Quantized, model: onnx.ModelProto, samples: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Of each layer's result, which has the same name in all these networks: (result in floats - result) for each channel."""
    values = {f"{name}.y": name for name in LAYERS} | {OUTPUT: "matmul15"}
    errors = {}
    runs = [[run_plainly(m, feed, list(values)) for feed in samples] for m in (network.floats, model)]
    for value, name in values.items():
        want, got = (np.stack([run[value] for run in of_model]).astype(np.float64) for of_model in runs)
        errors[name] = (want - got).mean((0, 1, 3, 4) if name.startswith("conv") else (0, 1))
    return errors


def test_mean_errors_vanish(network: Quantized, corrected: onnx.ModelProto, samples: list[dict[str, np.ndarray]]):
    onnx.checker.check_model(corrected, full_check=True)
    before, after = (mean_errors(network, model, samples) for model in (network.model, corrected))
    for name in LAYERS:
        assert np.abs(after[name]).max() <= 0.1 * np.abs(before[name]).max(), name


def test_nothing_but_biases_changes(network: Quantized, corrected: onnx.ModelProto):
    before, after = stored(network.model), stored(corrected)
    biases = {bias if bias == "w9" else f"{bias}_quantized" for bias in LAYERS.values() if bias}
    assert {name for name, array in before.items() if not np.array_equal(after[name], array)} == biases
    for layer in ("conv2", "conv4"):  # which had none
        node = next(node for node in corrected.graph.node if node.name == layer)
        assert after[f"{node.input[2]}.quantised"].dtype == np.int32
    assert len(corrected.graph.node) == len(network.model.graph.node) + 2
    assert stored(network.model).keys() == before.keys(), "the caller's model is as it was"


def test_a_new_bias_has_the_scale_of_the_products(network: Quantized, corrected: onnx.ModelProto):
    """With any other, no integer kernel could add it to its sums."""
    makers = {name: node for node in corrected.graph.node for name in node.output}
    arrays = stored(corrected)
    for node in corrected.graph.node:
        if node.name in ("conv2", "conv4"):
            x, w, b = (arrays[makers[name].input[1]] for name in node.input)
            np.testing.assert_array_equal(b, x * w)


def test_shared_biases_and_products_without_one_are_left():
    net = FloatNet(3)
    shared = net.weight(6)
    h = net.op("Relu", net.op("Gemm", "x", net.weight(6, 6), shared))
    h = net.op("Relu", net.op("Gemm", h, net.weight(6, 6), shared))
    model = net.model(net.op("MatMul", h, net.weight(6, 4)), 3, 6)
    x = net.rng.normal(0, 1, (4, 3, 6)).astype(np.float32)
    made = quantize(model, {"x": x})
    after = bias_corrected(made.floats, made.model, [{"x": a} for a in x])
    changed = {name for name, array in stored(made.model).items() if not np.array_equal(stored(after)[name], array)}
    # Quantised, each Gemm has a bias of its own, in its own scale.
    assert changed == {f"{shared}_quantized", f"{shared}_quantized_1"}
    assert [node.op_type for node in after.graph.node] == [node.op_type for node in made.model.graph.node]


def test_no_samples(network: Quantized):
    with pytest.raises(InputError, match="samples: there are none"):
        bias_corrected(network.floats, network.model, [])
