"""Every level has a meaning that can be run: the levels agree with each other and with native code, and a fault shows between two of them."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import onnx
import pytest
from faults import broken
from importing import floats, ints, model, node
from onnx import TensorProto, helper

import stepwell
from stepwell import IndexRangeError, InputError, StepwellError, compare_levels, interpret
from stepwell.analysis.interpretation import NATIVE, Step
from stepwell.dialects.interpreter import MEANINGS
from stepwell.driver import lowering
from stepwell.passes.graph.simplification.simplify_algebra import SimplifyAlgebra
from stepwell.passes.graph_to_linalg.convert_graph_to_linalg import ConvertGraphToLinalg
from stepwell.passes.schedule.assign_schedules import AssignSchedules
from stepwell.pipelines.routes import CPU_PATH

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits.onnx"


def convolution() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Wide enough for Winograd's method, its input padded, with an epilogue and a pooling."""
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]), node("Relu", ["c"], ["r"]), node("Add", ["r", "x"], ["s"], name="add"),
        node("MaxPool", ["s"], kernel_shape=[2, 2], strides=[2, 2]),
    ]  # fmt: skip
    weights = {"w": floats(16, 16, 3, 3), "b": floats(16)}
    return model(nodes, {"x": floats(1, 16, 9, 9)}, {"y": floats(1, 16, 4, 4)}, weights), {"x": floats(1, 16, 9, 9, seed=1)}


def attention() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    nodes = [
        node("MatMul", ["x", "w"], ["q"], name="q"), node("Transpose", ["x"], ["t"], perm=[0, 2, 1]), node("MatMul", ["q", "t"], ["s"], name="s"),
        node("Softmax", ["s"], ["p"], axis=-1), node("MatMul", ["p", "x"], ["a"], name="a"), node("LayerNormalization", ["a", "g"], ["y"]),
    ]  # fmt: skip
    return model(nodes, {"x": floats(2, 7, 8)}, {"y": floats(2, 7, 8)}, {"w": floats(8, 8), "g": floats(8)}), {"x": floats(2, 7, 8, seed=1)}


def integers() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Unsigned where it matters, wrapping, places by number, a running sum, conversions."""
    nodes = [
        node("Mul", ["x", "k"], ["m"]), node("BitShift", ["m", "k"], ["h"], direction="RIGHT"), node("Gather", ["h", "i"], ["g"], axis=1),
        node("ArgMax", ["g"], ["best"], axis=0, keepdims=0), node("Cast", ["g"], ["f"], to=TensorProto.FLOAT16),
        node("CumSum", ["f", "axis"], ["sums"]), node("Less", ["m", "k"], ["less"]),
    ]  # fmt: skip
    weights = {"k": ints(3, 1, 2, 7, dtype=np.uint8), "i": ints(3, -1, 0), "axis": ints(1)[0]}
    outputs = {"best": ints(1, 1, 1), "sums": floats(5, 3, dtype=np.float16), "less": np.zeros((5, 4), bool), "h": np.zeros((5, 4), np.uint8)}
    x = np.random.default_rng(1).integers(0, 256, (5, 4), np.uint8)
    return model(nodes, {"x": x}, outputs, weights), {"x": x}


def empty() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Outputs that are an input, a weight, the same value twice; a sum of nothing."""
    nodes = [
        node("ReduceSum", ["x"], ["zero"], name="sum", keepdims=0), node("Identity", ["x"], ["same"]), node("Identity", ["w"], ["weight"], name="w"),
    ]  # fmt: skip
    outputs = {"zero": np.float32(0), "same": floats(0, 3), "weight": floats(2)}
    return model(nodes, {"x": floats(0, 3)}, outputs, {"w": floats(2)}), {"x": floats(0, 3)}


def loops() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Loops in bodies, as many rounds as the data say; scans in both directions; elimination; a search."""
    nodes = [
        node("RoiAlign", ["x", "boxes", "batch"], ["r"], output_height=2, output_width=3), node("Det", ["m"], ["d"]),
        node("CumSum", ["x", "axis"], ["s"], reverse=1, exclusive=1), node("CumProd", ["m", "axis"], ["p"]),
        node("TfIdfVectorizer", ["t"], ["n"], mode="TF", min_gram_length=1, max_gram_length=2, max_skip_count=1, ngram_counts=[0, 2],
             ngram_indexes=[1, 0, 2], pool_int64s=[4, 2, 2, 3]),
    ]  # fmt: skip
    weights = {"axis": np.array(1)}
    inputs = {
        "x": floats(2, 3, 6, 5), "boxes": np.array([[0, 0, 5, 4], [1, 2, 1, 2], [-2, 1, 9, 3]], np.float32), "batch": ints(1, 0, 1),
        "m": floats(3, 4, 4), "t": ints(4, 2, 3, 2, 2, 3),
    }  # fmt: skip
    outputs = {"r": floats(3, 3, 2, 3), "d": floats(3), "s": inputs["x"], "p": inputs["m"], "n": floats(3)}
    return model(nodes, inputs, outputs, weights, opset=26), inputs


def digits() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    return onnx.load(DIGITS), {"image": np.random.default_rng(5).random((2, 1, 8, 8), np.float32)}


Example = Callable[[], tuple[onnx.ModelProto, dict[str, np.ndarray]]]


def steps(example: Example, **options: Any) -> list[Step]:
    proto, inputs = example()
    shapes = {name: array.shape for name, array in inputs.items()}
    outputs = stepwell.compile(proto, shapes=shapes, cache=False, threads=1, **options).run(inputs)
    return compare_levels(lowering.lower(proto, "graph", shapes=shapes, **options), inputs, outputs)


@pytest.mark.parametrize("example", [convolution, attention, integers, empty, loops, digits], ids=lambda e: e.__name__)
def test_all_levels_agree_with_native_code(example: Example) -> None:
    found = steps(example)
    assert [(s.above, s.below) for s in found] == list(itertools.pairwise([*CPU_PATH.interpretable, NATIVE]))
    assert all(step.ok for step in found), [str(o) for s in found for o in s.outputs]


def test_with_all_switches_off() -> None:
    assert all(step.ok for step in steps(convolution, disable=["use-winograd", "convert-layout"], target="x86-64-v3"))


# --- a fault shows where it was made


@pytest.mark.parametrize(
    ("cls", "name", "other", "above", "below"),
    [
        (SimplifyAlgebra, "graph.relu", "graph.neg", "graph", "graph-opt"),
        (ConvertGraphToLinalg, "arith.addf", "arith.subf", "graph-opt", "linalg"),
        (AssignSchedules, "arith.maximumf", "arith.minimumf", "linalg", "scheduled"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)  # fmt: skip
def test_a_fault_of_a_pass_shows_between_its_levels(cls: type, name: str, other: str, above: str, below: str) -> None:
    with broken(cls, name, other):
        wrong = [step for step in steps(convolution) if not step.ok]
    assert [(step.above, step.below) for step in wrong] == [(above, below)]


def test_a_fault_of_native_code_shows_at_the_last_step() -> None:
    proto, inputs = convolution()
    outputs = dict(stepwell.compile(proto, cache=False).run(inputs))
    outputs["y"] = outputs["y"].copy()
    outputs["y"][0, 3, 2, 1] += 1
    wrong = [step for step in compare_levels(lowering.lower(proto, "graph"), inputs, outputs) if not step.ok]
    assert [(step.above, step.below) for step in wrong] == [("scheduled", NATIVE)]


# --- the interface


def test_one_function_for_every_level() -> None:
    proto, inputs = integers()
    lowered = lowering.lower(proto, "affine")
    results = [interpret(lowered, inputs, level=level) for level in CPU_PATH.interpretable]
    for result in results:
        assert {name: a.dtype for name, a in result.items()} == {name: a.dtype for name, a in results[0].items()}
        for name, array in result.items():
            np.testing.assert_array_equal(array, results[0][name])
    with pytest.raises(InputError, match=r"level affine cannot be interpreted.*graph, graph-opt, linalg, scheduled"):
        interpret(lowered, inputs)
    with pytest.raises(InputError, match=r"unknown level 'cellar'"):
        interpret(lowered, inputs, level="cellar")
    with pytest.raises(InputError, match=r"no snapshot of it at level linalg"):
        interpret(lowering.lower(proto, "graph"), inputs, level="linalg")
    with pytest.raises(InputError, match=r"input 'x' must be tensor<5x4xui8>, got tensor<4xui8>"):
        interpret(lowered, {"x": inputs["x"][0]}, level="linalg")
    with pytest.raises(InputError, match=r"level affine cannot be interpreted"):
        compare_levels(lowered, inputs)


def test_ir_that_was_read_can_be_interpreted() -> None:
    proto, inputs = attention()
    lowered = lowering.lower(proto, "scheduled")
    again = lowering.read_ir(lowered.text(), "scheduled", lowered.weights)
    np.testing.assert_array_equal(interpret(again, inputs)["y"], interpret(lowered, inputs)["y"])
    named = lowered.text().replace("math.sqrt", "math.cbrt")  # edited by hand: what is there is what it means
    assert np.abs(interpret(lowering.read_ir(named, "scheduled", lowered.weights), inputs)["y"] - interpret(lowered, inputs)["y"]).max() > 0.01


def test_an_op_without_a_meaning_is_named_with_its_node() -> None:
    proto, inputs = attention()
    lowered = lowering.lower(proto, "linalg")
    edited = lowered.text().replace("math.exp ", "math.log2 ")
    with mock.patch.dict(MEANINGS):
        del MEANINGS["math.log2"]
        with pytest.raises(StepwellError, match=r"math\.log2 of .*the_softmax.* has no meaning"):
            interpret(lowering.read_ir(edited, "linalg", lowered.weights), inputs)


def test_levels_are_those_above_memory() -> None:
    assert CPU_PATH.interpretable == ("graph", "graph-opt", "linalg", "scheduled")


def test_indices_out_of_range_raise_at_every_level() -> None:
    proto = model([node("Gather", ["x", "i"], axis=1)], {"x": floats(2, 3), "i": ints(0, 1)}, {"y": floats(2, 2)})
    lowered = lowering.lower(proto, "scheduled")
    good, bad = ({"x": floats(2, 3), "i": ints(-3, last)} for last in (2, 3))
    for level in CPU_PATH.interpretable:
        np.testing.assert_array_equal(interpret(lowered, good, level=level)["y"], good["x"][:, [0, 2]])
        with pytest.raises(IndexRangeError, match=r"index 3.* is out of range for .* of size 3"):
            interpret(lowered, bad, level=level)


def test_a_kernel_with_two_results() -> None:
    """TopK and what follows it."""
    k = helper.make_tensor("k", TensorProto.INT64, [1], [2])
    nodes = [helper.make_node("TopK", ["x", "k"], ["v", "i"], "top"), helper.make_node("Neg", ["v"], ["y"], "neg")]
    proto = model(nodes, {"x": floats(3, 5)}, {"y": floats(3, 2), "i": np.zeros((3, 2), np.int64)})
    proto.graph.initializer.append(k)
    lowered = lowering.lower(proto, "graph")
    assert all(step.ok for step in compare_levels(lowered, {"x": floats(3, 5, seed=2)}))
