"""Indices out of range raise: constant ones when the model is compiled, others when it has run; never silently another element."""

import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings, strategies as st
from onnx import TensorProto, helper, numpy_helper

import stepwell
from stepwell.dialects.core.index_checks import IndexCheck, decoded
from stepwell.dialects.interpreter.evaluate import evaluate
from stepwell.dialects.support.errors import IndexRangeError, IRError, ModelError
from stepwell.driver.build import compile_ir
from stepwell.pipelines.routes import CPU_PATH

RANDOM = np.random.default_rng(11)
FLOAT, I32, I64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64
Value = tuple[str, int, Sequence[Any]]


def make_model(
    nodes: Sequence[onnx.NodeProto], inputs: Sequence[Value], outputs: Sequence[Value], opset: int = 18, **constants: np.ndarray
) -> onnx.ModelProto:
    sides = [[helper.make_tensor_value_info(*value) for value in side] for side in (inputs, outputs)]
    graph = helper.make_graph(nodes, "g", *sides, [numpy_helper.from_array(array, name) for name, array in constants.items()])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8 if opset < 21 else 10)
    onnx.checker.check_model(made)
    return made


def by_onnxruntime(source: onnx.ModelProto, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    results: list[np.ndarray] = onnxruntime.InferenceSession(source.SerializeToString()).run(None, feed)
    return results


def array(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape, np.float32)


# Each ONNX operator with indices: its node, the types of its inputs, indices that are right, and for each what a bad one is told of.
OPERATORS: dict[str, tuple[onnx.NodeProto, dict[str, Value], Value, np.ndarray, dict[tuple[int, ...], tuple[int, str]]]] = {
    "gather": (
        helper.make_node("Gather", ["x", "i"], ["y"], name="node", axis=1), {"x": ("x", FLOAT, [3, 5, 2])}, ("y", FLOAT, [3, 2, 2, 2]),
        np.array([[0, -5], [4, 1]]), {(0, 1): (5, "dimension 1 of size 5"), (1, 1): (-6, "expected -5 to 4")},
    ),
    "gather_elements": (
        helper.make_node("GatherElements", ["x", "i"], ["y"], name="node", axis=1), {"x": ("x", FLOAT, [3, 4])}, ("y", FLOAT, [2, 5]),
        np.array([[0, 1, -4, 3, 2], [3, 3, 0, -1, 1]]), {(1, 4): (4, "dimension 1 of size 4"), (0, 0): (-5, "expected -4 to 3")},
    ),
    "gather_nd": (
        helper.make_node("GatherND", ["x", "i"], ["y"], name="node", batch_dims=1), {"x": ("x", FLOAT, [2, 3, 7, 2])}, ("y", FLOAT, [2, 3, 2]),
        np.array([[[0, 6], [-3, 3], [2, -7]], [[1, 1], [2, 0], [0, 0]]]),
        {(1, 2, 0): (3, "dimension 1 of size 3"), (0, 1, 1): (7, "dimension 2 of size 7"), (0, 0, 1): (-8, "expected -7 to 6")},
    ),
    "scatter_elements": (
        helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], name="node", axis=0),
        {"x": ("x", FLOAT, [4, 3]), "u": ("u", FLOAT, [2, 3])}, ("y", FLOAT, [4, 3]),
        np.array([[0, -4, 3], [1, 2, 1]]), {(1, 1): (4, "dimension 0 of size 4"), (0, 2): (-5, "expected -4 to 3")},
    ),
    "scatter_nd": (
        helper.make_node("ScatterND", ["x", "i", "u"], ["y"], name="node"),
        {"x": ("x", FLOAT, [4, 3, 2]), "u": ("u", FLOAT, [2, 2])}, ("y", FLOAT, [4, 3, 2]),
        np.array([[0, -3], [3, 1]]), {(1, 1): (3, "dimension 1 of size 3"), (0, 0): (-5, "dimension 0 of size 4")},
    ),
}  # fmt: skip


def described(name: str) -> tuple[list[onnx.NodeProto], list[Value], list[Value], np.ndarray]:
    node, types, output, right, _ = OPERATORS[name]
    return [node], list(types.values()), [output], right


@pytest.mark.parametrize("name", OPERATORS)
def test_at_run_time(name: str) -> None:
    nodes, inputs, outputs, right = described(name)
    onnx_model = make_model(nodes, [*inputs, ("i", I64, right.shape)], outputs)
    model, trusting = (stepwell.compile(onnx_model, threads=1, disable=disable) for disable in ((), ("check-indices",)))
    given_ = {value[0]: array(*value[2]) for value in inputs}
    want = by_onnxruntime(onnx_model, {**given_, "i": right})[0]
    np.testing.assert_array_equal(model.run({**given_, "i": right})["y"], want)
    assert [info.name for info in model.outputs] == ["y"]
    for place, (index, told) in OPERATORS[name][4].items():
        bad = right.copy()
        bad[place] = index
        with pytest.raises(IndexRangeError, match=rf"SW010 graph\.{name} of node: index {index} is out of range for .*{told}"):
            model.run({**given_, "i": bad})
        for far in (2**31, -(2**31) - 1, 2**62, 2**63 - 1, -(2**63)):
            bad[place] = far
            with pytest.raises(IndexRangeError, match=f"index {far} is out of range"):
                model.run({**given_, "i": bad})
            assert trusting.run({**given_, "i": bad})["y"].shape == want.shape
    np.testing.assert_array_equal(model.run({**given_, "i": right})["y"], want)
    np.testing.assert_array_equal(trusting.run({**given_, "i": right})["y"], want)


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("disable", [(), ("check-indices",)], ids="+".join)
def test_constants(name: str, disable: tuple[str, ...]) -> None:
    nodes, inputs, outputs, right = described(name)
    for place, (index, told) in OPERATORS[name][4].items():
        bad = right.copy()
        bad[place] = index
        where = ", ".join(map(str, place))
        with pytest.raises(ModelError, match=rf"graph\.{name} of node: index {index}, at \[{where}\], is out of range for .*{told}"):
            stepwell.lower(make_model(nodes, inputs, outputs, i=bad), "graph-opt", disable=disable)
    assert "reduce_max" not in stepwell.lower(make_model(nodes, inputs, outputs, i=right), "graph-opt", disable=disable).text()


def test_images_of_regions() -> None:
    """Other ops than those that move data say what their indices are, too."""
    node = helper.make_node("RoiAlign", ["x", "boxes", "i"], ["y"], name="node", output_height=2, output_width=3)
    boxes = np.array([[0, 1, 4, 5], [1, 0, 3, 6]], np.float32)
    source = make_model([node], [("x", FLOAT, [3, 2, 7, 5]), ("i", I64, [2])], [("y", FLOAT, [2, 2, 2, 3])], boxes=boxes)
    model, feed = stepwell.compile(source, threads=1), {"x": array(3, 2, 7, 5), "i": np.array([2, 0])}
    np.testing.assert_allclose(model.run(feed)["y"], by_onnxruntime(source, feed)[0], rtol=1e-5, atol=1e-6)
    for index, told in ((3, 3), (2**40, 2**40), (-1, -4)):  # it does not count from the end
        with pytest.raises(IndexRangeError, match=rf"SW010 graph.roi_align of node: index {told} is out of range for dimension 0 of size 3"):
            model.run({**feed, "i": np.array([1, index])})


def two_gathers() -> onnx.ModelProto:
    """Two tables of different sizes read at the same places, which are computed; and one read at places of another type."""
    nodes = [
        helper.make_node("Add", ["i", "one"], ["j"], name="next"),
        helper.make_node("Gather", ["large", "j"], ["a"], name="from_large"),
        helper.make_node("Gather", ["small", "j"], ["b"], name="from_small"),
        helper.make_node("Gather", ["small", "k"], ["c"], name="by_k"),
        helper.make_node("Add", ["a", "b"], ["ab"]),
        helper.make_node("Add", ["ab", "c"], ["y"]),
    ]
    tables = {"large": array(9, 20), "small": array(7, 20), "one": np.array(1)}
    return make_model(nodes, [("i", I64, ["n"]), ("k", I32, ["n"])], [("y", FLOAT, ["n", 20])], **tables)


def expected(model: onnx.ModelProto, i: np.ndarray, k: np.ndarray) -> np.ndarray:
    tables = {entry.name: numpy_helper.to_array(entry) for entry in model.graph.initializer}
    total: np.ndarray = tables["large"][i + 1] + tables["small"][i + 1] + tables["small"][k]
    return total


def places(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


K = np.array([6, 0, -7], np.int32)
WRONG = [
    (places(0, 7, 1), K, "from_small: index 8"), (places(8, 0, 1), K, "from_large: index 9"), (places(-9, 0, 1), K, "from_small: index -8"),
    (places(0, 5, -8), np.array([7, 0, 0], np.int32), "by_k: index 7"), (places(0, 0, 0), np.array([-8, 0, 0], np.int32), "by_k: index -8"),
]  # fmt: skip


def check_two(model: Any, source: onnx.ModelProto) -> None:
    i = places(0, 5, -8)
    np.testing.assert_allclose(model(i, K)[0], expected(source, i, K), rtol=1e-6)
    for i, k, told in WRONG:
        with pytest.raises(IndexRangeError, match=rf"graph\.gather of {told} is out of range"):
            model(i, k)


@pytest.mark.usefixtures("cache_folder")
def test_free_dimensions_and_the_cache() -> None:
    source, levels = two_gathers(), []
    for _ in range(2):
        model = stepwell.compile(source, threads=1, specialise="always", on_level=lambda level, seconds: levels.append(level))
        check_two(model, source)
    assert levels.count("cache") == 2  # the model with free dimensions, and that for the shapes that came
    shared = model.specialise({"i": (3,), "k": (3,)}).executable.checks
    assert [check.result for check in shared.checks] == [0, 0, 1]
    assert shared.hidden == 2


@pytest.mark.parametrize("level", CPU_PATH)
def test_going_on_from_each_level(level: str) -> None:
    source = two_gathers()
    lowered = stepwell.lower(source, level, shapes={"i": (3,), "k": (3,)})
    text = lowered.text(generic=True)
    assert ("stepwell.checks" in text) == (level != "graph")
    check_two(compile_ir(text, level, lowered.weights, threads=1), source)
    if level in ("graph", "graph-opt"):
        i = places(0, 5, -8)
        again = stepwell.read_ir(text, level, lowered.weights)
        results = evaluate(again.module, again.weights, {"i": i, "k": K})
        assert list(results) == ["y"]
        np.testing.assert_allclose(results["y"], expected(source, i, K), rtol=1e-6)
        for i, k, _ in WRONG:
            with pytest.raises(IndexRangeError, match=r"graph\.gather of (from_small|from_large|by_k): index -?\d is out of range"):
                evaluate(again.module, again.weights, {"i": i, "k": k})


def test_ir_whose_checks_are_not_its_own() -> None:
    lowered = stepwell.lower(two_gathers(), "graph-opt", shapes={"i": (3,), "k": (3,)})
    text = lowered.text()
    for old, new, told in (
        ("result = 1", "result = 2", "counted from 0"), ("sizes = array<i64: 7>", "sizes = array<i64: 7, 8>", "as many sizes as dims"),
        ("node = \"by_k\"", "nodes = \"by_k\"", "there is no field 'nodes', expected node, op, result, dims, sizes, exact"),
        ("result = 1", "result = 0", r"must return \(\S+, \d+ elements of i64\), as"),
    ):  # fmt: skip
        assert old in text
        with pytest.raises(IRError, match=told):
            stepwell.read_ir(text.replace(old, new), "graph-opt", lowered.weights)


def test_the_code_grows_by_a_kernel_for_each_tensor_of_indices() -> None:
    shapes = {"i": (3,), "k": (3,)}
    checked, trusting = (
        stepwell.lower(two_gathers(), "graph-opt", shapes=shapes, disable=disable).text().count(" call @") for disable in ((), ("check-indices",))
    )
    assert checked == trusting + 2


def test_calls_at_the_same_time_each_have_their_own_status() -> None:
    source = two_gathers()
    model = stepwell.compile(source, threads=1, shapes={"i": (3,), "k": (3,)})
    wrong: list[str] = []

    def call(number: int) -> None:
        good, bad = places(number % 6, 0, 1), places(0, 100 + number, 1)
        for _ in range(200):
            if not np.allclose(model(good, K)[0], expected(source, good, K)):
                wrong.append("result")
            try:
                model(bad, K)
            except IndexRangeError as error:
                if f"index {101 + number} " not in str(error):
                    wrong.append(str(error))
            else:
                wrong.append("no error")

    threads = [threading.Thread(target=call, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-12, 12), min_size=3, max_size=3))
def test_raises_where_numpy_does(chosen: list[int]) -> None:
    i = places(*chosen)
    try:
        want = expected(TWO, i, K)
    except IndexError:
        with pytest.raises(IndexRangeError):
            two_model()(i, K)
        return
    np.testing.assert_allclose(two_model()(i, K)[0], want, rtol=1e-6)


TWO = two_gathers()
_MODELS: list[Any] = []


def two_model() -> Any:
    if not _MODELS:
        _MODELS.append(stepwell.compile(TWO, threads=1, shapes={"i": (3,), "k": (3,)}))
    return _MODELS[0]


def test_operators_that_gather_and_scatter_underneath() -> None:
    nodes = [
        helper.make_node("ReverseSequence", ["x", "lengths"], ["r"], name="reverse", time_axis=0, batch_axis=1),
        helper.make_node("MaxUnpool", ["p", "i"], ["u"], name="unpool", kernel_shape=[2], strides=[2]),
        helper.make_node("MaxPool", ["p"], ["q", "best"], name="pool", kernel_shape=[2]),
        helper.make_node("GridSample", ["image", "grid"], ["s"], name="sample"),
    ]
    inputs = [
        ("x", FLOAT, [4, 3]), ("lengths", I64, [3]), ("p", FLOAT, [1, 1, 3]), ("i", I64, [1, 1, 3]),
        ("image", FLOAT, [1, 2, 5, 4]), ("grid", FLOAT, [1, 3, 3, 2]),
    ]  # fmt: skip
    outputs = [("r", FLOAT, [4, 3]), ("u", FLOAT, [1, 1, 6]), ("q", FLOAT, [1, 1, 2]), ("best", I64, [1, 1, 2]), ("s", FLOAT, [1, 2, 3, 3])]
    source = make_model(nodes, inputs, outputs)
    model = stepwell.compile(source, threads=1)
    assert [check.node for check in model.executable.checks.checks] == ["reverse", "unpool"]  # the others are in range by what they are
    feed = {
        "x": array(4, 3), "lengths": np.array([4, 1, 2]), "p": array(1, 1, 3), "i": np.array([[[1, 2, 5]]]),
        "image": array(1, 2, 5, 4), "grid": 3 * array(1, 3, 3, 2),
    }  # fmt: skip
    want = by_onnxruntime(source, feed)
    for got, right in zip(model.run(feed).values(), want, strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-5)
    with pytest.raises(IndexRangeError, match="of reverse: index 4 is out of range for dimension 0 of size 4"):
        model.run({**feed, "lengths": np.array([4, 5, 2])})
    with pytest.raises(IndexRangeError, match="of reverse: index -5 is out of range"):  # of a length below 0
        model.run({**feed, "lengths": np.array([4, -1, 2])})
    # Nor does an index here count from the end.
    with pytest.raises(IndexRangeError, match=r"of unpool: index -1 is out of .* of size 6 \(expected 0 to 5\)"):
        model.run({**feed, "i": np.array([[[1, 2, -1]]])})
    with pytest.raises(IndexRangeError, match="of unpool: index 6 is out of range for dimension 0 of size 6"):
        model.run({**feed, "i": np.array([[[1, 2, 6]]])})


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_tensor_scatter(mode: str) -> None:
    node = helper.make_node("TensorScatter", ["x", "u", "at"], ["y"], name="node", axis=1, mode=mode)
    inputs: list[Value] = [("x", FLOAT, [2, 4, 3]), ("u", FLOAT, [2, 2, 3]), ("at", I64, [2])]
    source = make_model([node], inputs, [("y", FLOAT, [2, 4, 3])], opset=24)
    model, feed = stepwell.compile(source, threads=1), {"x": array(2, 4, 3), "u": array(2, 2, 3)}
    for at in ((0, 2), (1, 1), *([(3, 9)] if mode == "circular" else [])):
        want = by_onnxruntime(source, {**feed, "at": places(*at)})[0]
        np.testing.assert_array_equal(model.run({**feed, "at": places(*at)})["y"], want)
    for at, index in (((0, -1), -5), *([((3, 0), 4)] if mode == "linear" else [])):
        with pytest.raises(IndexRangeError, match=f"of node: index {index} is out of range for dimension 1 of size 4"):
            model.run({**feed, "at": places(*at)})


def test_a_dimension_without_elements_has_no_index() -> None:
    nodes = [helper.make_node("Gather", ["x", "i"], ["y"], name="node")]
    source = make_model(nodes, [("x", FLOAT, [0, 3]), ("i", I64, [2])], [("y", FLOAT, [2, 3])])
    with pytest.raises(IndexRangeError, match=r"index -1 is out of range for dimension 0 of size 0$"):
        stepwell.compile(source, threads=1)(np.empty((0, 3), np.float32), places(0, -1))
    empty = stepwell.compile(source, threads=1, disable=("check-indices",))(np.empty((0, 3), np.float32), places(0, -1))[0]
    np.testing.assert_array_equal(empty, np.zeros((2, 3)))  # and not what lies behind the input
    none = make_model(nodes, [("x", FLOAT, [0, 3]), ("i", I64, [0])], [("y", FLOAT, [0, 3])])
    assert stepwell.compile(none, threads=1)(np.empty((0, 3), np.float32), places())[0].shape == (0, 3)


def test_a_shape_from_an_index_out_of_range_names_the_gather() -> None:
    nodes = [
        helper.make_node("GatherElements", ["sizes", "two"], ["n"], name="third_size"),  # of a Gather ONNX's own inference tells
        helper.make_node("Reshape", ["x", "n"], ["y"], name="reshape"),
    ]
    source = make_model(nodes, [("x", FLOAT, [2, 3])], [("y", FLOAT, [None])], sizes=np.array([6, 1]), two=np.array([2]))
    with pytest.raises(ModelError, match=r"graph\.gather_elements of third_size: index 2, at \[0\], is out of range for dimension 0 of size 2"):
        stepwell.compile(source)


def test_command(tmp_path: Any) -> None:
    nodes, inputs, outputs, right = described("gather")
    onnx.save(make_model(nodes, [*inputs, ("i", I64, right.shape)], outputs), tmp_path / "m.onnx")
    np.savez(tmp_path / "in.npz", x=array(3, 5, 2), i=right + 1)
    command = [sys.executable, "-m", "stepwell.cli.main", "run", str(tmp_path / "m.onnx"), "--input", str(tmp_path / "in.npz")]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 1
    assert "SW010 graph.gather of node: index 5 is out of range for dimension 1 of size 5" in told.stderr
    assert subprocess.run([*command, "--disable", "check-indices"], capture_output=True, text=True, check=False).returncode == 0


def test_codes() -> None:
    for number in (0, -1, 1, -2, 2, 2**63 - 1, -(2**63)):
        code = 2 * number if number >= 0 else -2 * number - 1
        assert decoded(code) == number
    unsigned = IndexCheck("n", "graph.scatter_elements", 0, (1,), (4,), from_start=True)
    assert unsigned.problem([3]) is None
    for code, index in ((4, 4), (2**63 - 1, 2**63 - 1), (2**63, -(2**63)), (2**64 - 1, -1)):
        said = f"graph.scatter_elements of n: index {index} is out of range for dimension 1 of size 4 (expected 0 to 3)"
        assert unsigned.problem([code]) == said
    check = IndexCheck("n", "graph.gather", 0, (1,), (4,))
    assert check.problem([7]) is None
    assert check.problem([8]) == "graph.gather of n: index 4 is out of range for dimension 1 of size 4 (expected -4 to 3)"
