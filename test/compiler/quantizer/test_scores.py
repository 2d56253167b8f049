"""Accuracy on labels, agreement without, and networks quantised within a budget of these."""

import numpy as np
import onnx
import pytest
from float_networks import classifier, labelled
from onnx import TensorProto, helper

from stepwell.dialects.support.errors import InputError
from stepwell.quantizer import Calibrated, QuantizeOptions, Samples, accuracy, quantized_within
from stepwell.quantizer.scores import answered
from stepwell.quantizer.taps import Tapped


def of_node(
    node: onnx.NodeProto, x: tuple[int, ...], y: tuple[int, ...], *, kind: int = TensorProto.FLOAT, weights: tuple[TensorProto, ...] = ()
) -> onnx.ModelProto:  # fmt: skip
    """A model of one node, from x to y of these shapes behind a batch of any size."""
    values = [helper.make_tensor_value_info(name, t, ("n", *shape)) for name, t, shape in (("x", TensorProto.FLOAT, x), ("y", kind, y))]
    graph = helper.make_graph([node], "g", values[:1], values[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_accuracy_is_counted():
    model = classifier(0)
    data = labelled(model, 1, right=0.7)
    answers = labelled(model, 1)["y"]
    found = accuracy(model, Samples.from_data(data, model, labels="y"))
    assert found == 100 * np.mean(answers == data["y"])
    assert 55 < found < 85


def test_a_model_that_gives_classes_and_pixels_with_labels():
    """ArgMax inside the model, and classes on axis 1 of images."""
    x = np.random.default_rng(2).normal(0, 1, (3, 4, 5, 5)).astype(np.float32)
    labels = x.argmax(1)
    labels[0, :2] += 1
    greatest = of_node(helper.make_node("ArgMax", ["x"], ["y"], axis=1, keepdims=0), (4, 5, 5), (5, 5), kind=TensorProto.INT64)
    for model in (greatest, of_node(helper.make_node("Neg", ["x"], ["y"]), (4, 5, 5), (4, 5, 5))):
        data = {"x": x if model is greatest else -x, "labels": labels}
        assert accuracy(model, Samples.from_data(data, model, labels="labels")) == pytest.approx(100 * (1 - 10 / 75))


@pytest.mark.parametrize(("shape", "axis"), [((6, 3, 5), -1), ((6, 4, 4), -1), ((6, 5, 3, 4), 1), ((6, 4, 4, 4), 1)])
def test_what_a_model_answers_agrees_with_itself(shape: tuple[int, ...], axis: int):
    """Sequences have classes on the last axis, images on axis 1, also where labels would fit another."""
    x = np.random.default_rng(7).normal(0, 1, shape).astype(np.float32)
    model = of_node(helper.make_node("Neg", ["x"], ["y"]), shape[1:], shape[1:])
    found, on = answered(model, Samples.from_data({"x": x}, model, batch=2))
    assert on == axis
    np.testing.assert_array_equal(np.concatenate([batch.labels for batch in found.batches()]), (-x).argmax(axis))
    assert accuracy(model, found, axis=on) == 100
    other = Samples.from_data({"x": -x}, model, batch=2).with_labels([batch.labels for batch in found.batches() if batch.labels is not None])
    assert accuracy(model, other, axis=on) == pytest.approx(100 * np.mean(x.argmax(axis) == (-x).argmax(axis)))


def test_labels_of_sequences_fit_the_last_axis():
    x = np.random.default_rng(8).normal(0, 1, (4, 3, 5)).astype(np.float32)
    model = of_node(helper.make_node("Neg", ["x"], ["y"]), (3, 5), (3, 5))
    labels = (-x).argmax(-1)
    labels[2, 1] += 1
    assert accuracy(model, Samples.from_data({"x": x, "y": labels}, model, labels="y")) == pytest.approx(100 * 11 / 12)


def test_labels_that_do_not_fit():
    model = classifier(0)
    data = labelled(model, 1)
    with pytest.raises(InputError, match="there are no labels"):
        accuracy(model, Samples.from_data({"x": data["x"]}, model))
    with pytest.raises(InputError, match=r"expected labels that are integers, one for each of 50 results of 'gemm4\.y', got float64\[50\]"):
        accuracy(model, Samples.from_data({**data, "y": data["y"] + 0.5}, model, labels="y"))
    with pytest.raises(InputError, match=r"one for each of 50 results of 'gemm4\.y', got int64\[50, 2\]"):
        accuracy(model, Samples.from_data({**data, "y": np.stack([data["y"]] * 2, 1)}, model, labels="y"))


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


def test_without_labels_a_budget_is_of_agreement():
    """The answers of the floats stand for labels: here they are the labels, so that all is as with them."""
    model = classifier(3, outlier=300.0)
    data = {"x": labelled(model, 4)["x"]}
    found = quantized_within(Calibrated(model, data, QuantizeOptions(per_channel=False, method="minmax")), 3.0)
    assert (found.accuracy, found.kept.layers) == (100, ("gemm2",))
    assert 0 <= found.kept.loss <= 3
    assert found.kept.tries[0][1] > 10


def test_an_output_without_classes_has_no_agreement():
    x = np.random.default_rng(9).normal(0, 1, (4, 3)).astype(np.float32)
    w = helper.make_tensor("w", TensorProto.FLOAT, (3, 1), [1.0, 2.0, 3.0])
    model = of_node(helper.make_node("MatMul", ["x", "w"], ["y"]), (3,), (1,), weights=(w,))
    with pytest.raises(InputError, match=r"expected classes in the output 'y', two or more on axis -1, .* got float32\[1, 1\]; give labels"):
        quantized_within(Calibrated(model, {"x": x}), 1.0)


def test_agreement_of_sequences_with_as_many_steps_as_classes():
    """The axis of classes is that of the answers, though they would fit the other one as well."""
    random = np.random.default_rng(10)
    x = random.normal(0, 1, (8, 4, 6)).astype(np.float32)
    w = onnx.numpy_helper.from_array(random.normal(0, 1, (6, 4)).astype(np.float32), "w")
    model = of_node(helper.make_node("MatMul", ["x", "w"], ["y"]), (4, 6), (4, 4), weights=(w,))
    found = quantized_within(Calibrated(model, {"x": x}), 20.0)
    assert (found.accuracy, found.kept.layers) == (100, ())
    result = [Tapped(m, ["y"]) for m in (found.network.floats, found.network.model)]
    floats, ours = (np.concatenate([t.run({"x": row[None]})["y"] for row in x]) for t in result)
    assert found.kept.loss == pytest.approx(100 * np.mean(floats.argmax(-1) != ours.argmax(-1)))
