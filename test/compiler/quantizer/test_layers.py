"""Layers of a quantised network beside those in floats, and the network in which each has a switch."""

import numpy as np
import onnx
import pytest
from float_networks import run_plainly
from onnx import numpy_helper

from stepwell.dialects.support.errors import InputError
from stepwell.quantizer import Quantized
from stepwell.quantizer.layers import SWITCHES, layer_pairs, switched

OUTPUT = "add16.y"


def test_layers_and_what_belongs_to_them(network: Quantized):
    pairs = layer_pairs(network.floats, network.model)
    found = {pair.name: ([node.op_type for node in pair.behind], pair.float_result, pair.parameters is not None) for pair in pairs}
    assert found == {
        "conv0": (["Relu"], "relu1.y", True), "conv2": (["Relu"], "relu3.y", True), "conv4": ([], "conv4.y", True),
        "add5": (["Relu"], "relu6.y", True), "conv8": (["Relu"], "relu9.y", True), "concat10": ([], "concat10.y", True),
        "globalaveragepool11": ([], "globalaveragepool11.y", True), "gemm13": (["Relu"], "relu14.y", True),
        "matmul15": ([], "matmul15.y", False),
    }  # fmt: skip
    for pair in pairs:
        assert pair.parameters == network.parameters.get(pair.float_result)


def test_switches(network: Quantized, images: np.ndarray):
    """All off gives the network of floats, all on the quantised one, bit by bit; and one alone something else."""
    pairs = layer_pairs(network.floats, network.model)
    both, _ = switched(network.floats, network.model, pairs)
    onnx.checker.check_model(both, full_check=True)
    count = len(pairs)

    def run(switches: np.ndarray) -> np.ndarray:
        return run_plainly(both, {"x": images[0], SWITCHES: switches})[OUTPUT]

    in_floats, together = (run_plainly(model, {"x": images[0]})[OUTPUT] for model in (network.floats, network.model))
    np.testing.assert_array_equal(run(np.zeros(count, bool)), in_floats)
    np.testing.assert_array_equal(run(np.ones(count, bool)), together)
    alone = [run(row) for row in np.eye(count, dtype=bool)]
    assert all(np.any(result != in_floats) and np.any(result != together) for result in alone)


def test_a_layer_alone(network: Quantized, images: np.ndarray):
    """A pointwise convolution alone, by numpy: its data, which are exact, are rounded, and its weights, and its result behind the activation."""
    pairs = layer_pairs(network.floats, network.model)
    both, results = switched(network.floats, network.model, pairs)
    index = next(i for i, pair in enumerate(pairs) if pair.name == "conv8")
    feed = {"x": images[0], SWITCHES: np.eye(len(pairs), dtype=bool)[index]}
    x = run_plainly(network.floats, {"x": images[0]}, ["maxpool7.y"])["maxpool7.y"]

    def rounded(array: np.ndarray, value: str) -> np.ndarray:
        used = network.parameters[value]
        return (np.clip(np.rint(array / used.scale) + int(used.zero_point), 0, 255) - int(used.zero_point)) * used.scale

    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in network.model.graph.initializer}
    w, b = ((stored[f"{name}_quantized"].astype(np.float64).T * stored[f"{name}_scale"]).T for name in ("w4", "w5"))
    want = np.einsum("nchw,oc->nohw", rounded(x, "maxpool7.y"), w[:, :, 0, 0]) + b[:, None, None]
    got = run_plainly(both, feed, [results[index]])[results[index]]
    step = network.parameters["relu9.y"].scale
    assert np.abs(got - rounded(np.maximum(want, 0), "relu9.y")).max() <= 1.01 * step  # sums in f32 may round another way
    assert np.mean(np.abs(got - rounded(np.maximum(want, 0), "relu9.y")) < 0.01 * step) > 0.99


def test_networks_that_do_not_belong_together(network: Quantized):
    other = onnx.ModelProto()
    other.CopyFrom(network.floats)
    next(node for node in other.graph.node if node.name == "conv4").name = "another"
    with pytest.raises(InputError, match=r"it has a node 'conv4' \(Conv\), and the network of floats has no such one"):
        layer_pairs(other, network.model)
