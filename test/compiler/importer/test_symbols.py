"""The names that free dimensions get, and how far they go: through the types of a whole model, to its outputs and its messages."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

import stepwell
from stepwell.dialects.graph.evaluate import evaluate


def model(nodes: list[NodeProto], inputs: dict[str, list[Any]], outputs: list[str], **weights: np.ndarray) -> ModelProto:
    graph = helper.make_graph(
        nodes, "symbols", [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def names(source: ModelProto) -> list[tuple[Any, ...]]:
    """The shapes of inputs, then those of outputs."""
    compiled = stepwell.compile(source)
    return [info.shape for info in (*compiled.inputs, *compiled.outputs)]


def relu(*shapes: list[Any]) -> ModelProto:
    inputs = {f"x{i}": shape for i, shape in enumerate(shapes)}
    return model([helper.make_node("Relu", [x], [f"y{i}"]) for i, x in enumerate(inputs)], inputs, [f"y{i}" for i in range(len(shapes))])


def test_names_are_kept_from_input_to_output() -> None:
    assert names(relu(["batch", 3, "h"])) == [("batch", 3, "h")] * 2


def test_dimensions_without_a_name_get_one_of_their_own() -> None:
    assert names(relu([None, 3], [None, 2]))[:2] == [("x0_0", 3), ("x1_0", 2)]


def test_names_that_are_no_words_become_words_and_stay_apart() -> None:
    shapes = names(relu(["batch size", "batch-size"], ["2nd", "max"], ["batch size", "batch_size"]))
    assert shapes[:3] == [("batch_size_2", "batch_size_3"), ("_2nd", "_max"), ("batch_size_2", "batch_size")]


def test_expressions_of_other_dimensions_are_understood() -> None:
    assert names(relu(["past", "new"], ["past + new", "2*new"], ["gone + 1", 1]))[1:3] == [("new + past", "2*new"), ("gone_1", 1)]


def test_an_expression_is_checked_when_the_model_runs() -> None:
    compiled = stepwell.compile(relu(["n"], ["n + 1"]))
    one, two = np.ones(3, np.float32), np.ones(4, np.float32)
    assert [y.shape for y in compiled(one, two)] == [(3,), (4,)]
    with pytest.raises(stepwell.InputError, match=r"'x1': expected n \+ 1 = 4, as the sizes of 'x0' say, got 5"):
        compiled(one, np.ones(5, np.float32))


def test_shape_arithmetic_becomes_expressions() -> None:
    """As exporters write the reshape of an image to rows, whose number is that of its positions."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], strides=[2, 2], pads=[1, 1, 1, 1]), helper.make_node("Shape", ["c"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["s0"]), helper.make_node("Gather", ["s", "two"], ["s2"]),
        helper.make_node("Gather", ["s", "three"], ["s3"]),
        helper.make_node("Mul", ["s2", "s3"], ["count"]), helper.make_node("Unsqueeze", ["s0", "axes"], ["u0"]),
        helper.make_node("Unsqueeze", ["count", "axes"], ["u1"]), helper.make_node("Concat", ["u0", "eight", "u1"], ["shape"], axis=0),
        helper.make_node("Reshape", ["c", "shape"], ["r"]), helper.make_node("Transpose", ["r"], ["y"], perm=[0, 2, 1]),
    ]  # fmt: skip
    indices = {"zero": np.array(0), "two": np.array(2), "three": np.array(3), "axes": np.array([0]), "eight": np.array([8])}
    source = model(nodes, {"x": ["n", 3, "h", "w"]}, ["y"], w=np.ones((8, 3, 3, 3), np.float32), **indices)
    assert names(source)[1] == ("n", "((h + 1) // 2)*((w + 1) // 2)", 8)


def test_the_evaluator_knows_what_symbols_stand_for(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Cast", ["s"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Slice", ["x", "one", "end", "one"], ["tail"]), helper.make_node("Flatten", ["tail"], ["flat"], axis=0),
    ]  # fmt: skip
    source = model(nodes, {"x": ["n", "m"]}, ["f", "flat"], one=np.array([1]), end=np.array([2**62]))
    lowered = stepwell.lower(source, "graph")
    x = np.random.default_rng(0).standard_normal((3, 5), np.float32)
    found = evaluate(lowered.module, lowered.weights, {"x": x})
    np.testing.assert_array_equal(found["f"], [3, 5])
    np.testing.assert_array_equal(found["flat"], x[:, 1:].reshape(1, -1))


def test_sizes_that_cannot_fit_are_one_error() -> None:
    nodes = [helper.make_node("Concat", ["x", "one"], ["longer"], axis=0), helper.make_node("Add", ["longer", "x"], ["y"])]
    with pytest.raises(stepwell.ModelError, match=r'shapes tensor<\?x2xf32, "n \+ 1"> and tensor<\?x2xf32, "n"> do not broadcast'):
        stepwell.compile(model(nodes, {"x": ["n", 2]}, ["y"], one=np.ones((1, 2), np.float32)))
