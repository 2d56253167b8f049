"""The names that free dimensions get, and how far they go: through the types of a whole model, to its outputs and its messages."""

import copy
import unicodedata
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

import stepwell
from stepwell.dialects.interpreter.evaluate import evaluate


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
    with pytest.warns(stepwell.ModelWarning, match=r"'x1': expected n \+ 1 = 4, as the sizes of 'x0' say, got 5: equal names"):
        assert compiled(one, np.ones(5, np.float32))[1].shape == (5,)


def test_names_are_compared_as_they_are_written() -> None:
    """Python's parser reads some letters as others, by NFKC: types have their symbols in their text, and these must not become one."""
    alike = ["\uff4e", "n", "\u212a", "K", "\u00b5", "\u03bc", "\uff4d\uff41\uff58", "\uff49\uff46", "\uff4e + 1", "n // 0", "n % 0", "n // (K - K)"]
    shapes = names(relu(alike, [None, *alike[1:]]))
    assert len(set(shapes[0])) == len(alike)
    assert all(str(size).isidentifier() and unicodedata.is_normalized("NFKC", str(size)) for size in shapes[0])
    assert shapes[0][1::2][:3] == ("n", "K", "\u03bc")
    assert shapes[1] == ("x1_0", *shapes[0][1:])


def test_texts_without_end_are_names() -> None:
    """Powers of powers, products of sums and long sums: a sum of products would take all memory, or the parser's stack."""
    power, tower = "9", "n"
    for _ in range(9):
        power, tower = f"({power})**9", f"({tower} + 1)**9"
    texts = [power, tower, "*".join(f"(n + m + {i})" for i in range(40)), "+".join(["n"] * 5000), "(" * 500 + "n" + ")" * 500, "9" * 60 + "*n"]
    shapes = names(relu(["n", "m"], texts[:3], texts[3:]))
    assert all(str(size).isidentifier() for shape in shapes[1:3] for size in shape)


def test_words_that_are_no_names_stand_for_sizes_of_their_own() -> None:
    words = ["?", "None", "unk__7", "dynamic", " ", "-1", "*", "unknown"]
    shapes = names(relu([word for word in words for _ in range(2)], words))
    assert shapes[0] == tuple(f"x0_{i}" for i in range(2 * len(words)))
    assert shapes[1] == tuple(f"x1_{i}" for i in range(len(words)))
    fixed = stepwell.compile(relu(["?", 3], ["?", 3]), shapes={"x0": (2, 3)})
    assert [info.shape for info in fixed.inputs] == [(2, 3), ("x1_0", 3)]


@pytest.mark.parametrize("specialise", ["auto", "always", "never"])
def test_equal_names_of_sizes_that_differ_are_told_apart(specialise: str) -> None:
    nodes = [helper.make_node("GlobalMaxPool", ["x"], ["m"]), helper.make_node("Concat", ["v", "w"], ["y"], axis=1)]
    source = model(nodes, {"x": ["n", 3, "s", "s"], "v": ["n", "k"], "w": ["n", "k + 1"]}, ["m", "y"])
    compiled = stepwell.compile(source, specialise=specialise, threads=1)

    def check(x: tuple[int, int], v: tuple[int, int], w: tuple[int, int]) -> None:
        image, *both = (np.random.default_rng(x[0]).standard_normal(shape, np.float32) for shape in ((2, 3, *x), v, w))
        m, y = compiled(image, *both)
        np.testing.assert_array_equal(m[:, :, 0, 0], image.max((2, 3)))
        np.testing.assert_array_equal(y, np.concatenate(both, axis=1))

    with pytest.warns(stepwell.ModelWarning, match="expected s = 4, as in input 'x', got 9: equal names of dimensions are told apart"):
        check((4, 9), (2, 1), (2, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is said once
        for x in ((5, 5), (7, 2), (4, 9), (3, 3)):
            check(x, (2, 1), (2, 2))
        check((6, 6), (2, 4), (2, 4))
        check((6, 6), (1, 3), (1, 4))
        compiled = copy.copy(compiled)  # which `check` runs from here on
        check((8, 5), (2, 1), (2, 2))
    with pytest.raises(stepwell.InputError, match=r"'w': expected n = 2, as in input 'x', got 3"):
        check((4, 4), (2, 2), (3, 3))  # which the model itself cannot take
    shapes = {"x": (2, 3, 8, 9), "v": (2, 1), "w": (2, 2)}
    assert compiled.specialise(shapes).inputs[0].shape == (2, 3, 8, 9)
    apart = stepwell.compile(source, specialise=specialise, same_names=False)
    assert [info.shape for info in apart.inputs] == [("x_0", 3, "x_2", "x_3"), ("v_0", "v_1"), ("w_0", "w_1")]


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
