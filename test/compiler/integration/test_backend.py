"""The ONNX backend: prepare, run, single nodes, devices; and ONNX's own backend tests through it."""

import re
import unittest

import numpy as np
import onnx
import onnx.backend.test
import pytest
from onnx import TensorProto, helper

import stepwell.backend
import stepwell.integration.onnx_backend
from stepwell.dialects.support.errors import InputError, StepwellError
from stepwell.integration.onnx_backend import StepwellBackend


def model() -> onnx.ModelProto:
    """p = x - z, q = relu(x)."""
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("x", "z", "p", "q 1")]
    nodes = [helper.make_node("Sub", ["x", "z"], ["p"]), helper.make_node("Relu", ["x"], ["q 1"])]
    graph = helper.make_graph(nodes, "g", info[:2], info[2:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def arrays() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    return rng.standard_normal((2, 3), np.float32), rng.standard_normal((2, 3), np.float32)


@pytest.mark.parametrize("backend", [stepwell.integration.onnx_backend, StepwellBackend])
def test_prepare_and_run(backend) -> None:
    x, z = arrays()
    prepared = backend.prepare(model(), "CPU", threads=1)
    for inputs in ([x, z], (x, z), {"z": z, "x": x}):
        outputs = prepared.run(inputs)
        assert isinstance(outputs, tuple)
        np.testing.assert_array_equal(outputs[0], x - z)
        np.testing.assert_array_equal(outputs[1], np.maximum(x, 0))
        np.testing.assert_array_equal(outputs.p, outputs["p"])
        np.testing.assert_array_equal(outputs["q 1"], outputs[1])
    np.testing.assert_array_equal(backend.run_model(model(), [x, z])[0], x - z)


def test_bad_calls_are_typed_errors() -> None:
    x, z = arrays()
    prepared = stepwell.integration.onnx_backend.prepare(model())
    with pytest.raises(InputError, match="expected 2 inputs"):
        prepared.run([x])
    with pytest.raises(InputError, match="input 'z'"):
        prepared.run([x, z.T])
    with pytest.raises(InputError, match="run: unknown options verbose"):
        prepared.run([x, z], verbose=True)
    with pytest.raises(InputError, match="device: expected 'CPU', got 'CUDA'"):
        stepwell.integration.onnx_backend.prepare(model(), "CUDA")
    with pytest.raises(StepwellError):
        stepwell.integration.onnx_backend.prepare(onnx.ModelProto())


@pytest.mark.parametrize(("device", "there"), [("CPU", True), ("CPU:0", True), ("CUDA", False), ("CUDA:1", False), ("TPU", False), ("CPU:x", False)])
def test_devices(device: str, there: bool) -> None:
    assert stepwell.integration.onnx_backend.supports_device(device) is there


def test_single_nodes() -> None:
    x, z = arrays()
    run_node = stepwell.integration.onnx_backend.run_node
    np.testing.assert_array_equal(run_node(helper.make_node("Sub", ["x", "z"], ["y"]), [x, z])[0], x - z)
    np.testing.assert_array_equal(run_node(helper.make_node("Relu", ["x"], ["y"]), x)[0], np.maximum(x, 0))
    np.testing.assert_array_equal(run_node(helper.make_node("Mul", ["x", "x"], ["y"]), [x, x])[0], x * x)
    info = [(np.float32, (2, 3))]
    np.testing.assert_array_equal(run_node(helper.make_node("Sub", ["x", "z"], ["y"]), [x, z], outputs_info=info, opset_version=13)[0], x - z)
    with pytest.raises(InputError, match=r"expected 2 inputs \(x, z\), got 1"):
        run_node(helper.make_node("Sub", ["x", "z"], ["y"]), [x])


ONNX_TESTS = re.compile(
    "test_(add|sub|relu|conv_with_strides_padding|argmax_default_axis_random|cast_FLOAT_to_FLOAT16|gelu_tanh_1|Linear)_cpu"
    "|test_operator_(addmm|conv|maxpool|permute2|reduced_sum_keepdim|selu|view)_cpu"
)


@pytest.mark.parametrize(("nodes", "count"), [(False, 8), pytest.param(True, 15, marks=pytest.mark.nightly)])
def test_by_the_runner_of_onnx(nodes: bool, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of ONNX's own tests by its own runner, which knows nothing of us but the interface; test_onnx_suite.py runs more, in a process apart.

    By day without the tests of single nodes, all of which ONNX makes anew first, in four seconds.
    """
    if not nodes:
        load = onnx.backend.test.runner.load_model_tests
        monkeypatch.setattr("onnx.backend.test.runner.load_model_tests", lambda kind: load(kind=kind) if kind != "node" else [])
    chosen = unittest.TestSuite()
    for cls in onnx.backend.test.BackendTest(stepwell.backend, __name__).test_cases.values():
        chosen.addTests(cls(name) for name in vars(cls) if ONNX_TESTS.fullmatch(name))
    result = chosen.run(unittest.TestResult())
    assert result is not None
    assert [text for _, text in (*result.failures, *result.errors)] == []
    assert (result.testsRun, len(result.skipped)) == (count, 0)
