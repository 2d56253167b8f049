"""Comparing outputs with a reference: the error measures and the verdict."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from stepwell.analysis.compare import compare, run_onnxruntime
from stepwell.dialects.support.errors import InputError


def one(got: np.ndarray, expected: np.ndarray, tolerance: float | None = None):
    (result,) = compare({"y": got}, {"y": expected}, tolerance)
    return result


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_measures() -> None:
    result = one(np.array([1.0, 2.5, -8.0]), np.array([1.0, 2.0, -10.0]))
    assert (result.max_abs, result.max_rel, result.scale_rel) == (2.0, 0.25, 0.2)
    assert not result.ok
    assert one(np.array([1.0, 2.5, -8.0]), np.array([1.0, 2.0, -10.0]), 0.2).ok
    assert "max abs error 2, max rel error 0.25, relative to scale 0.2 (tolerance 1e-10): WRONG" in str(result)


def test_equal_arrays_are_equal() -> None:
    for array in (f32(1, 2), np.zeros(3), np.array([], np.float16), np.array(5, np.int64), f32(np.nan, np.inf, -np.inf, 0)):
        result = one(array.copy(), array)
        assert (result.max_abs, result.max_rel, result.scale_rel, result.ok) == (0.0, 0.0, 0.0, True)


def test_tolerance_depends_on_the_type() -> None:
    exact = np.linspace(-3, 5, 100)
    for dtype, error in ((np.float64, 1e-11), (np.float32, 5e-5), (np.float16, 1e-2), (ml_dtypes.bfloat16, 5e-2)):
        assert one((exact * (1 + error)).astype(dtype), exact.astype(dtype)).ok, dtype
        assert not one((exact * (1 + 10 * error)).astype(dtype), exact.astype(dtype)).ok, dtype


@pytest.mark.parametrize(("got", "expected"), [(np.nan, 1), (1, np.nan), (np.inf, 1), (1, np.inf), (np.inf, -np.inf), (np.nan, np.inf)])
def test_special_values_have_to_be_the_same(got: float, expected: float) -> None:
    result = one(f32(got, 3), f32(expected, 3), 1e9)
    assert not result.ok
    assert result.max_abs == np.inf


def test_infinities_do_not_hide_other_errors() -> None:
    result = one(f32(np.inf, 1.5), f32(np.inf, 1.0))
    assert (result.max_abs, result.scale_rel, result.ok) == (0.5, 0.5, False)


def test_expected_zeros() -> None:
    result = one(f32(0.5, 2), f32(0, 2))
    assert (result.max_abs, result.max_rel, result.scale_rel) == (0.5, 0.0, 0.25)
    assert not one(f32(1e-9), f32(0)).ok


def test_integers_are_exact() -> None:
    big = np.array([2**63 - 1, -(2**63), 7], np.int64)
    assert one(big, big).ok
    result = one(np.array([2**63 - 2, -(2**63), 7], np.int64), big)
    assert (result.max_abs, result.ok) == (1.0, False)
    extremes = one(np.array([-(2**63)], np.int64), np.array([2**63 - 1], np.int64))
    assert extremes.max_abs == 2.0**64
    assert one(np.array([255, 0], np.uint8), np.array([0, 0], np.uint8)).max_abs == 255
    flags = one(np.array([True, False]), np.array([True, True]))
    assert (flags.max_abs, flags.ok) == (1.0, False)
    assert not one(np.array([3]), np.array([4]), tolerance=10.0).ok


def test_wrong_outputs_are_named() -> None:
    expected = {"a": f32(1, 2), "b": f32(1, 2), "c": f32(1, 2)}
    results = compare({"a": f32(1, 2).reshape(2, 1), "b": np.array([1.0, 2.0])}, expected)
    assert [result.problem for result in results] == [
        "expected float32[2], got float32[2, 1]",
        "expected float32[2], got float64[2]",
        "expected float32[2], got nothing",
    ]
    assert not any(result.ok for result in results)
    assert str(results[2]) == "c: expected float32[2], got nothing: WRONG"


def model() -> onnx.ModelProto:
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("x", "z", "p", "q")]
    nodes = [helper.make_node("Sub", ["x", "z"], ["p"]), helper.make_node("Exp", ["x"], ["q"])]
    graph = helper.make_graph(nodes, "g", info[:2], info[2:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_against_onnxruntime(tmp_path) -> None:
    rng = np.random.default_rng(0)
    inputs = {"z": rng.standard_normal((2, 3), np.float32), "x": rng.standard_normal((2, 3), np.float32)}
    outputs = {"q": np.exp(inputs["x"]), "p": inputs["x"] - inputs["z"]}
    onnx.save(model(), tmp_path / "m.onnx")
    for source in (model(), model().SerializeToString(), tmp_path / "m.onnx", str(tmp_path / "m.onnx")):
        results = compare(outputs, run_onnxruntime(source, inputs))
        assert [result.name for result in results] == ["p", "q"]
        assert all(result.ok for result in results)
    wrong = compare({**outputs, "q": outputs["q"] * 1.01}, run_onnxruntime(model(), inputs))
    assert [result.ok for result in wrong] == [True, False]


def test_onnxruntime_refusing_is_an_input_error() -> None:
    with pytest.raises(InputError, match="onnxruntime cannot run the model: "):
        run_onnxruntime(b"nonsense", {})
    with pytest.raises(InputError, match=r"onnxruntime cannot run the model: .*x"):
        run_onnxruntime(model(), {"x": np.zeros((2, 4), np.float32), "z": np.zeros((2, 3), np.float32)})
