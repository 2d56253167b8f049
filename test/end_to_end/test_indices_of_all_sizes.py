"""Indices along dimensions of any size: one program gives what ONNX Runtime does for each size, and an error for each index out of range."""

from collections.abc import Sequence
from typing import Any

import guarded
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import stepwell
from stepwell.dialects.core.index_checks import IndexCheck
from stepwell.dialects.core.size_parser import parse
from stepwell.dialects.core.sizes import symbol
from stepwell.dialects.support.errors import IndexRangeError, ModelError
from stepwell.driver.dynamic import DynamicModel

RANDOM = np.random.default_rng(7)
FLOAT, I64 = TensorProto.FLOAT, TensorProto.INT64
Input = tuple[str, int, Sequence[Any]]
FAR = (2**31, -(2**31) - 1, 2**62, 2**63 - 1, -(2**63))


def model(node: onnx.NodeProto, inputs: Sequence[Input], declared: Sequence[Any] | None = None) -> onnx.ModelProto:
    sides = [helper.make_tensor_value_info(*value) for value in inputs], [helper.make_tensor_value_info("y", FLOAT, declared)]
    graph = helper.make_graph([node], "g", *sides)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def node(op: str, *inputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs, ["y"], name="node", **attributes)


# Each operator with indices: the model, which symbol its indices go along (a column of index vectors has one each), and one of `x` for messages.
OPERATORS: dict[str, tuple[onnx.ModelProto, tuple[str, ...], int]] = {
    "gather": (model(node("Gather", "x", "i", axis=1), [("x", FLOAT, ["a", "n", 3]), ("i", I64, ["k", 2])]), ("n",), 1),
    "gather_elements": (model(node("GatherElements", "x", "i", axis=1), [("x", FLOAT, ["a", "n"]), ("i", I64, ["a", "k"])]), ("n",), 1),
    "gather_nd": (model(node("GatherND", "x", "i", batch_dims=1), [("x", FLOAT, ["a", "n", "m", 2]), ("i", I64, ["a", "k", 2])]), ("n", "m"), 1),
    "scatter_elements": (
        model(
            node("ScatterElements", "x", "i", "u", axis=0, reduction="add"),
            [("x", FLOAT, ["n", 4]), ("i", I64, ["k", 4]), ("u", FLOAT, ["k", 4])],
        ),
        ("n",), 0,
    ),
    "scatter_nd": (
        model(
            node("ScatterND", "x", "i", "u", reduction="max"), [("x", FLOAT, ["n", "m", "a"]), ("i", I64, ["k", 2]), ("u", FLOAT, ["k", "a"])]
        ),
        ("n", "m"), 0,
    ),
}  # fmt: skip
SIZES: list[dict[str, int]] = [
    {"a": 2, "n": 5, "m": 3, "k": 4}, {"a": 3, "n": 1, "m": 1, "k": 7}, {"a": 1, "n": 17, "m": 2, "k": 0}, {"a": 2, "n": 0, "m": 4, "k": 0},
    {"a": 4, "n": 64, "m": 9, "k": 33}, {"a": 0, "n": 6, "m": 5, "k": 3}, {"a": 2, "n": 5, "m": 3, "k": 4},
]  # fmt: skip


def given(source: onnx.ModelProto, along: tuple[str, ...], sizes: dict[str, int]) -> dict[str, np.ndarray]:
    """Random inputs of these sizes, and random indices that are right, half of them counted from the end."""
    feed = {}
    for value in source.graph.input:
        shape = [dim.dim_value or sizes[dim.dim_param] for dim in value.type.tensor_type.shape.dim]
        feed[value.name] = RANDOM.standard_normal(shape, np.float32)
        if value.name == "i":
            limits = np.array([max(sizes[name], 1) for name in along] if len(along) > 1 else max(sizes[along[0]], 1))
            feed["i"] = RANDOM.integers(-limits, limits, shape)
    return feed


def general(source: onnx.ModelProto, **options: Any) -> DynamicModel:
    compiled = stepwell.compile(source, specialise="never", threads=1, **options)
    assert isinstance(compiled, DynamicModel)
    return compiled


@pytest.mark.parametrize("name", OPERATORS)
def test_results_and_errors_for_many_sizes_in_turn(name: str) -> None:
    source, along, dim = OPERATORS[name]
    levels: list[str] = []
    compiled = general(source, on_level=lambda level, seconds: levels.append(level), cache=False)
    right = onnxruntime.InferenceSession(source.SerializeToString())
    made = len(levels)
    for turn, sizes in enumerate(SIZES):
        feed = given(source, along, sizes)
        want = right.run(None, feed)[0]
        np.testing.assert_allclose(compiled.run(feed)["y"], want, rtol=1e-5, atol=1e-6)
        one = compiled.specialise({key: array.shape for key, array in feed.items()})
        np.testing.assert_allclose(guarded.run(one, feed, turn % 3)["y"], want, rtol=1e-5, atol=1e-6)
        assert (len(levels) == made) == (all(sizes[free] for free in along) or not feed["i"].size)  # code of its own where no element can be meant
        made = len(levels)
        if not feed["i"].size:
            continue
        for column, name_of_size in enumerate(along):
            size = sizes[name_of_size]
            place = tuple(RANDOM.integers(0, n) for n in feed["i"].shape)
            place = (*place[:-1], column) if len(along) > 1 else place
            for wrong in (size, -size - 1, *FAR):
                bad = feed["i"].copy()
                bad[place] = wrong
                told = rf"graph\.{name} of node: index {wrong} is out of range for dimension {dim + column} of size {size} \(expected -{size} to "
                with pytest.raises(IndexRangeError, match=told):
                    compiled.run({**feed, "i": bad})


@pytest.mark.parametrize("name", OPERATORS)
def test_kernels_stay_within_memory_for_any_index(name: str) -> None:
    source, along, _ = OPERATORS[name]
    trusting = general(source, disable=("check-indices",))
    for sizes in SIZES:
        feed = given(source, along, sizes)
        for wrong in FAR:
            bad = {**feed, "i": np.full_like(feed["i"], wrong)}
            assert not np.isnan(guarded.run(trusting.specialise({key: array.shape for key, array in bad.items()}), bad, 1)["y"]).any()


@pytest.mark.usefixtures("cache_folder")
def test_checks_come_from_the_cache_and_from_threads() -> None:
    source, along, _ = OPERATORS["gather"]
    for turn in range(2):
        levels: list[str] = []
        compiled = stepwell.compile(source, specialise="never", on_level=lambda level, seconds, seen=levels: seen.append(level))  # type: ignore[misc]
        assert (levels == ["cache"]) == (turn == 1)
        for n in (3, 8):
            feed = given(source, along, {"a": 1, "n": n, "k": 2})
            assert compiled.run(feed)["y"].shape == (1, 2, 2, 3)
            with pytest.raises(IndexRangeError, match=f"index {n} is out of range for dimension 1 of size {n}"):
                compiled.run({**feed, "i": np.full((2, 2), n)})


def test_an_index_that_is_not_used_is_not_wrong() -> None:
    """Indices that are expanded to no element at all are not read."""
    nodes = [
        helper.make_node("Shape", ["z"], ["s"]), helper.make_node("Expand", ["i", "s"], ["j"]),
        helper.make_node("Gather", ["x", "j"], ["y"], name="node"),
    ]  # fmt: skip
    inputs: list[Input] = [("x", FLOAT, ["n"]), ("i", I64, [1]), ("z", FLOAT, ["k"])]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(*value) for value in inputs], [helper.make_tensor_value_info("y", FLOAT, None)]
    )
    compiled = general(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9))
    x = np.arange(4, dtype=np.float32)
    for i, k in ((3, 2), (9, 0)):
        assert compiled(x, np.array([i]), np.zeros(k, np.float32))[0].tolist() == [3.0] * k
    with pytest.raises(IndexRangeError, match="index 9 is out of range for dimension 0 of size 4"):
        compiled(x, np.array([9]), np.zeros(1, np.float32))


def sized(op: str, **more: np.ndarray) -> DynamicModel:
    """A program for all sizes of `x` by an operator whose result the model declares to be of one size."""
    shape = [2, 6] if op == "Reshape" else [4, 3] if op == "Expand" else [2, 3]
    inputs: list[Input] = [("x", FLOAT, ["n", 3]), *((name, I64, list(array.shape)) for name, array in more.items())]
    return general(model(node(op, "x", *more), inputs, shape))


def rows(count: int) -> np.ndarray:
    return np.arange(3 * count, dtype=np.float32).reshape(count, 3)


def test_declared_sizes_are_checked_for_any_size_of_the_operand() -> None:
    reshape = sized("Reshape", s=np.array([2, 6]))
    assert reshape(rows(4), np.array([2, -1]))[0].tolist() == rows(4).reshape(2, 6).tolist()
    with pytest.raises(IndexRangeError, match="ask for size 6 along dimension 0, for which the model declares 2"):
        reshape(rows(4), np.array([6, 2]))
    with pytest.raises(ModelError, match="declares tensor<2x6xf32>, which has another number of elements than the operand tensor<5x3xf32>"):
        reshape(rows(5), np.array([2, 6]))
    expand = sized("Expand", s=np.array([4, 3]))
    assert expand(rows(4), np.array([1, 3]))[0].tolist() == rows(4).tolist()
    assert expand(rows(1), np.array([4, 3]))[0].tolist() == rows(1).repeat(4, axis=0).tolist()
    with pytest.raises(IndexRangeError, match="ask for size 2 along dimension 0, for which the model declares 4"):
        expand(rows(4), np.array([2, 3]))
    taken = sized("Slice", s=np.array([1]), e=np.array([1]))
    for count in (3, 9, 2):
        assert taken(rows(count), np.array([-2]), np.array([count]))[0].tolist() == rows(count)[-2:].tolist()
    for count in (1, 0):
        with pytest.raises(IndexRangeError, match=f"ask for size {count} along dimension 0, for which the model declares 2"):
            taken(rows(count), np.array([0]), np.array([2]))


def test_checks_for_the_sizes_of_a_run() -> None:
    check = IndexCheck("n", "graph.gather", 0, (1, 2), (symbol("n"), parse("2*n + 1")))
    assert check.with_sizes({"n": 3}).limits == (6, 14)
    assert check.with_sizes({"n": 3}).problem([5, 14]) == "graph.gather of n: index 7 is out of range for dimension 2 of size 7 (expected -7 to 6)"


@pytest.mark.parametrize("op", ["GatherElements", "ScatterElements"])
def test_known_indices_in_the_shape_of_an_input(op: str) -> None:
    """How many they are is known, and said in symbols all the same."""
    operands = ["flat", "places"] + ["flat"] * (op == "ScatterElements")
    nodes = [
        helper.make_node("Size", ["x"], ["size"]), helper.make_node("Unsqueeze", ["size", "first"], ["shape"]),
        helper.make_node("Reshape", ["x", "shape"], ["flat"]), helper.make_node("Reshape", ["i", "shape"], ["places"]), node(op, *operands),
    ]  # fmt: skip
    places, first = np.array([3, 0, 2, 1]).reshape(1, 1, 2, 2), np.array([0])
    weights = [onnx.numpy_helper.from_array(array, name) for name, array in (("i", places), ("first", first))]
    sides = [helper.make_tensor_value_info("x", FLOAT, [1, 1, "s", "s"])], [helper.make_tensor_value_info("y", FLOAT, None)]
    source = helper.make_model(helper.make_graph(nodes, "g", *sides, weights), opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    x = RANDOM.standard_normal((1, 1, 2, 2), np.float32)
    want = x.reshape(-1)[places.reshape(-1)] if op == "GatherElements" else x.reshape(-1)[np.argsort(places.reshape(-1))]
    np.testing.assert_array_equal(stepwell.compile(source, specialise="never", threads=1, cache=False)(x)[0], want)
