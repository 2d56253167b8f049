"""Taps: the values inside a compiled model are those that ONNX Runtime computes there."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from stepwell import InputError, ModelError
from stepwell.quantizer.taps import Tapped, with_outputs

DIGITS = Path(__file__).parents[3] / "examples/digits/digits.onnx"


@pytest.fixture(scope="module")
def digits() -> onnx.ModelProto:
    return onnx.load(DIGITS)


def test_values_inside_are_those_of_onnx_runtime(digits: onnx.ModelProto) -> None:
    names = [name for node in digits.graph.node for name in node.output]
    image = np.random.default_rng(0).uniform(0, 1, (2, 1, 8, 8)).astype(np.float32)
    found = Tapped(digits, names).run({"image": image})
    tapped = with_outputs(digits, names)
    session = onnxruntime.InferenceSession(tapped.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = dict(zip([v.name for v in tapped.graph.output], session.run(None, {"image": image}), strict=True))
    assert list(found) == names
    for name in names:
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=2e-5 * np.abs(expected[name]).max(), err_msg=name)


def test_inputs_and_weights_are_given_back_as_they_are(digits: onnx.ModelProto) -> None:
    image = np.random.default_rng(1).uniform(0, 1, (1, 1, 8, 8)).astype(np.float32)
    found = Tapped(digits, ["image", "gemm2.bias", "relu4.out", "relu4.out"]).run({"image": image})
    stored = next(onnx.numpy_helper.to_array(t) for t in digits.graph.initializer if t.name == "gemm2.bias")
    np.testing.assert_array_equal(found["image"], image)
    np.testing.assert_array_equal(found["gemm2.bias"], stored)
    assert list(found) == ["image", "gemm2.bias", "relu4.out"]


def test_the_callers_model_is_not_changed(digits: onnx.ModelProto) -> None:
    before = digits.SerializeToString(deterministic=True)
    assert [v.name for v in with_outputs(digits, ["relu1.out", "probability"]).graph.output] == ["probability", "relu1.out"]
    assert digits.SerializeToString(deterministic=True) == before


def test_what_the_model_lacks_is_named(digits: onnx.ModelProto) -> None:
    with pytest.raises(ModelError, match=r"no value 'relu9\.out', nor 1 others"):
        with_outputs(digits, ["relu1.out", "relu9.out", "x"])
    with pytest.raises(InputError, match="image"):
        Tapped(digits, ["relu1.out"]).run({})
