"""Accuracy on labels, and networks quantised within a budget of it."""

import numpy as np
import onnx
import pytest
from float_networks import classifier, labelled
from onnx import TensorProto, helper

from stepwell.dialects.support.errors import InputError
from stepwell.quantizer import Calibrated, QuantizeOptions, Samples, accuracy, quantized_within


def test_accuracy_is_counted():
    model = classifier(0)
    data = labelled(model, 1, right=0.7)
    answers = labelled(model, 1)["y"]
    found = accuracy(model, Samples.of(data, model, labels="y"))
    assert found == 100 * np.mean(answers == data["y"])
    assert 55 < found < 85


def test_a_model_that_gives_classes_and_pixels_with_labels():
    """ArgMax inside the model, and classes on axis 1 of images."""
    x = np.random.default_rng(2).normal(0, 1, (3, 4, 5, 5)).astype(np.float32)
    images = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4, 5, 5))

    def made(node: onnx.NodeProto, kind: int) -> onnx.ModelProto:
        graph = helper.make_graph([node], "g", [images], [helper.make_tensor_value_info("y", kind, None)])
        return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))

    labels = x.argmax(1)
    labels[0, :2] += 1
    greatest = made(helper.make_node("ArgMax", ["x"], ["y"], axis=1, keepdims=0), TensorProto.INT64)
    for model in (greatest, made(helper.make_node("Neg", ["x"], ["y"]), TensorProto.FLOAT)):
        data = {"x": x if model is greatest else -x, "labels": labels}
        assert accuracy(model, Samples.of(data, model, labels="labels")) == pytest.approx(100 * (1 - 10 / 75))


def test_labels_that_do_not_fit():
    model = classifier(0)
    data = labelled(model, 1)
    with pytest.raises(InputError, match="there are no labels"):
        accuracy(model, Samples.of({"x": data["x"]}, model))
    with pytest.raises(InputError, match=r"expected labels that are integers, one for each of 50 results of 'gemm4\.y', got float64\[50\]"):
        accuracy(model, Samples.of({**data, "y": data["y"] + 0.5}, model, labels="y"))
    with pytest.raises(InputError, match=r"one for each of 50 results of 'gemm4\.y', got int64\[50, 2\]"):
        accuracy(model, Samples.of({**data, "y": np.stack([data["y"]] * 2, 1)}, model, labels="y"))


@pytest.fixture(scope="module")
def hurt() -> Calibrated:
    """A network in which the outlier leaves few of the 8 bits to the rest of one layer's weights."""
    model = classifier(3, outlier=300.0)
    return Calibrated(model, labelled(model, 4), QuantizeOptions(per_channel=False, method="minmax"), labels="y")


def test_the_layer_that_hurts_stays_in_float(hurt: Calibrated):
    steps: list[str] = []
    found = quantized_within(hurt, 3.0, on_step=steps.append)
    assert found.accuracy == 100
    assert found.kept.tries[0][0] == 0
    assert found.kept.tries[0][1] > 10, "without that layer in float much is lost"
    assert found.kept.layers == ("gemm2",)
    assert found.kept.loss <= 3
    assert found.kept.loss == pytest.approx(100 - accuracy(found.network.model, hurt.samples))
    assert {layer.node for layer in found.network.layers} == {"gemm0", "gemm4"}
    assert "accuracy with 1 layers in floats" in steps


def test_a_budget_that_is_met_at_once(hurt: Calibrated):
    found = quantized_within(hurt, 100.0)
    assert found.kept.layers == ()
    assert len(found.kept.tries) == 1
    assert len(found.network.layers) == 3
