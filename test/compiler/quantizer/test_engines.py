"""Quantised files in engines: ONNX Runtime and Stepwell agree within a step, OpenVINO loads them, and all are near the network of floats."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from float_networks import FloatNet, branching
from onnx import helper

import stepwell
from stepwell.analysis.compare import run_onnxruntime
from stepwell.quantizer import Quantized, QuantizeOptions, quantize, quantize_weights
from stepwell.quantizer.options import METHODS

DIGITS = Path(__file__).parents[3] / "examples/digits/digits.onnx"


def decibels(want: np.ndarray, got: np.ndarray) -> float:
    """The ratio of signal to error."""
    return float(10 * np.log10(np.square(want).sum() / max(np.square(want - got).sum(), 1e-30)))


def with_steps(made: Quantized, step: float) -> onnx.ModelProto:
    """The quantised network with its result in bytes of that step: so that both engines round to the same numbers."""
    model = onnx.ModelProto.FromString(made.model.SerializeToString())
    stored = (onnx.numpy_helper.from_array(array, name) for name, array in (("step", np.float32(step)), ("middle", np.uint8(128))))
    model.graph.initializer.extend(stored)
    model.graph.node.append(helper.make_node("QuantizeLinear", [model.graph.output[0].name, "step", "middle"], ["steps"], name="steps"))
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("steps", onnx.TensorProto.UINT8, None))
    return model


@pytest.mark.parametrize("options", [
    {}, {"symmetric_activations": True, "quantize_results": True}, {"per_channel": False, "method": "minmax", "fuse_additions": True},
], ids=str)  # fmt: skip
def test_onnx_runtime_and_stepwell_agree_within_a_step(images: np.ndarray, network: Quantized, options: dict[str, Any]):
    """The result is quantised too: its bytes differ by one where the two round a number halfway between two steps differently."""
    made = quantize(branching(0), {"x": images}, QuantizeOptions(**options)) if options else network
    x = np.random.default_rng(5).normal(0.2, 1, images.shape[1:]).astype(np.float32)
    [exact] = run_onnxruntime(made.floats, {"x": x}).values()
    step = float(np.abs(exact).max() / 120)
    model = with_steps(made, step)
    [theirs] = run_onnxruntime(model, {"x": x}).values()
    [ours] = stepwell.compile(model).run({"x": x}).values()
    assert len(np.unique(theirs)) > 4
    assert np.abs(theirs.astype(int) - ours.astype(int)).max() <= 1
    assert decibels(exact, (ours.astype(np.float32) - 128) * step) > 20


def test_the_digits_are_told_apart_as_before(tmp_path: Path):
    """Real data, every method: at least 99 of 100 answers are those of the network of floats."""
    datasets = pytest.importorskip("sklearn.datasets")
    images = (datasets.load_digits().images / 16).astype(np.float32)[:, None]
    before = run_onnxruntime(DIGITS, {"image": images[100:]})["probability"]
    for method in METHODS:
        made = quantize(DIGITS, {"image": images[:100]}, QuantizeOptions(method=method), batch=50, histograms=tmp_path / "seen.npz")
        after = run_onnxruntime(made.model, {"image": images[100:]})["probability"]
        assert (before.argmax(1) == after.argmax(1)).mean() >= 0.99, method
        assert decibels(before, after) > 25, method


def openvino_run(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    openvino = pytest.importorskip("openvino")
    core = openvino.Core()
    result: np.ndarray = core.compile_model(core.read_model(model.SerializeToString()), "CPU")([x])[0]
    return result


@pytest.mark.parametrize("options", [{}, {"symmetric_activations": True, "quantize_results": True}], ids=str)
def test_openvino_loads_them(images: np.ndarray, network: Quantized, options: dict[str, Any]):
    pytest.importorskip("openvino")
    made = quantize(branching(0), {"x": images}, QuantizeOptions(**options)) if options else network
    [exact] = run_onnxruntime(made.floats, {"x": images[0]}).values()
    assert decibels(exact, openvino_run(made.model, images[0])) > 20


@pytest.mark.parametrize("bits", [4, 8])
def test_openvino_loads_weights_in_few_bits(bits: int):
    net = FloatNet(0)
    model = net.model(net.op("Gemm", net.op("Relu", net.op("MatMul", "x", net.weight(64, 48))), net.weight(48, 32), net.weight(32)), 3, 64)
    x = np.random.default_rng(2).standard_normal((3, 64)).astype(np.float32)
    made = quantize_weights(model, bits=bits)
    [want] = run_onnxruntime(made, {"x": x}).values()
    assert decibels(want, openvino_run(made, x)) > 35, "its sums may be of integers"
