"""Inputs whose values decide sizes, axes and the like: results are those of ONNX's evaluator for each, in all ways to compile."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from covering import by_day
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import stepwell
from stepwell.driver.dynamic import DynamicModel

FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64
X = np.random.default_rng(3).standard_normal((4, 6)).astype(np.float32)


def node(op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> NodeProto:
    return helper.make_node(op, inputs, outputs, **attributes)


def model(nodes: list[NodeProto], inputs: dict[str, list[Any]], floats: Sequence[str] = ("x",), **weights: np.ndarray) -> ModelProto:
    """A model whose inputs are of i64 unless they are among the `floats`; nothing is said of the outputs' shapes."""
    made = [helper.make_tensor_value_info(name, FLOAT if name in floats else INT, shape) for name, shape in inputs.items()]
    kinds = [INT if name.startswith("i") else FLOAT for name in nodes[-1].output]
    graph = helper.make_graph(
        nodes, "values", made, [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(nodes[-1].output, kinds, strict=True)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


Calls = list[tuple[np.ndarray, ...]]
SIZES: dict[str, tuple[ModelProto, Calls]] = {
    "top_k": (
        model([node("TopK", ["x", "k"], ["v", "i"])], {"x": ["n", 6], "k": [1]}), [(X, ints(2)), (X, ints(6)), (X[:2], ints(1)), (X, ints(0))],
    ),
    "range": (
        model([node("Range", ["a", "b", "d"], ["r"]), node("Mul", ["r", "r"], ["i"])], {"a": [], "b": []}, d=np.array(2)),
        [(np.array(1), np.array(8)), (np.array(0), np.array(5)), (np.array(7), np.array(3))],
    ),
    "down": (
        model([node("Range", ["a", "b", "d"], ["r"]), node("Mul", ["r", "r"], ["i"])], {"a": [], "b": []}, d=np.array(-3)),
        [(np.array(9), np.array(1)), (np.array(9), np.array(0)), (np.array(2), np.array(5))],
    ),
    "reshape": (
        model([node("Reshape", ["x", "s"], ["y"])], {"x": ["n", 6], "s": [2]}), [(X, ints(6, 4)), (X, ints(2, 12)), (X[:1], ints(3, 2))],
    ),
    "expand": (
        model([node("Expand", ["x", "s"], ["e"]), node("Neg", ["e"], ["y"])], {"x": ["n", 6], "s": [3]}),
        [(X, ints(2, 4, 6)), (X[:2], ints(5, 2, 6))],
    ),
    "constant_of_shape": (
        model([node("ConstantOfShape", ["s"], ["c"]), node("Add", ["c", "x"], ["y"])], {"s": [2], "x": [1]}),
        [(ints(2, 4), X[0, :1]), (ints(0, 3), X[0, :1]), (ints(33, 17), X[1, :1])],
    ),
    "one_hot": (
        model([node("OneHot", ["j", "d", "x"], ["y"])], {"j": ["n"], "d": [], "x": [2]}),
        [(ints(1, 0, 3), np.array(4), X[0, :2]), (ints(1, -1), np.array(9), X[0, :2])],
    ),
    "tile": (model([node("Tile", ["x", "r"], ["y"])], {"x": ["n", 6], "r": [2]}), [(X, ints(2, 3)), (X, ints(1, 1)), (X, ints(3, 0))]),
    "split": (
        model([node("Split", ["x", "s"], ["a", "b"], axis=1), node("Mul", ["b", "b"], ["c"]), node("Concat", ["c", "a"], ["y"], axis=1)],
              {"x": ["n", 6], "s": [2]}),
        [(X, ints(2, 4)), (X, ints(5, 1)), (X, ints(0, 6))],
    ),
    "slice": (
        model([node("Slice", ["x", "s", "e"], ["a"]), node("Neg", ["a"], ["y"])], {"x": ["n", 6], "s": [2], "e": [2]}),
        [(X, ints(1, 2), ints(3, 9)), (X, ints(0, 0), ints(4, 3)), (X, ints(3, 4), ints(1, 2))],
    ),
    "computed": (  # twice as many rows as the second element says, and one more
        model(
            [
                node("Gather", ["s", "one"], ["g"]), node("Mul", ["g", "two"], ["m"]), node("Add", ["m", "one"], ["p"]),
                node("Concat", ["p", "six"], ["c"], axis=0), node("Expand", ["x", "c"], ["e"]), node("Tanh", ["e"], ["y"]),
            ],
            {"x": [1, 6], "s": [3]}, one=ints(1), two=ints(2), six=ints(6),
        ),
        [(X[:1], ints(-7, 2, 0)), (X[:1], ints(5, 0, -3)), (X[:1], ints(0, 9, 1))],
    ),
    "window": (model([node("HannWindow", ["s"], ["y"])], {"s": []}), [(np.array(10),), (np.array(7),)]),
}  # fmt: skip
VALUES: dict[str, tuple[ModelProto, Calls]] = {
    "sum": (
        model([node("ReduceSum", ["x", "a"], ["y"], keepdims=0)], {"x": ["n", 6], "a": ["k"]}), [(X, ints(0)), (X, ints(-1)), (X[:3], ints(0, 1))],
    ),
    "pads": (model([node("Pad", ["x", "p"], ["y"], mode="reflect")], {"x": ["n", 6], "p": [4]}), [(X, ints(0, 1, 2, 3)), (X, ints(1, 0, 1, 0))]),
    "scales": (
        model([node("Resize", ["x", "", "f"], ["y"], mode="linear")], {"x": ["n", 6], "f": [2]}, ("x", "f")),
        [(X, np.array([2, 0.5], np.float32)), (X, np.array([1, 1.5], np.float32))],
    ),
    "squeezed": (model([node("Unsqueeze", ["x", "a"], ["y"])], {"x": ["n", 6], "a": [1]}), [(X, ints(0)), (X, ints(2)), (X, ints(-2))]),
    "from_shape": (  # pads that follow from the shape of an input
        model([node("Shape", ["x"], ["s"]), node("Concat", ["s", "s"], ["p"], axis=0), node("Pad", ["x", "p"], ["y"])], {"x": ["n", 6]}),
        [(X,), (X[:2],)],
    ),
}  # fmt: skip


def close(got: Sequence[np.ndarray], want: Sequence[np.ndarray]) -> None:
    for one, other in zip(got, want, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def compiled(source: ModelProto, **options: Any) -> DynamicModel:
    made = stepwell.compile(source, **options)
    assert isinstance(made, DynamicModel)
    return made


def reference(source: ModelProto, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    names = [value.name for value in source.graph.input]
    return list(ReferenceEvaluator(source).run(None, dict(zip(names, arrays, strict=True))))


WAYS = [(name, how) for how in ("always", "never") for name in SIZES]
OF_THE_CALL = ("reshape", "slice", "split", "computed")


@pytest.mark.parametrize(("name", "how"), by_day(WAYS, lambda way: way[1] == "never" or way[0] in OF_THE_CALL))
def test_elements_that_are_sizes(name: str, how: str) -> None:
    source, calls = SIZES[name]
    levels: list[str] = []
    made = compiled(source, specialise=how, cache=False, on_level=lambda level, seconds: levels.append(level))
    assert [info.name for info in made.inputs] == [value.name for value in source.graph.input]
    before = len(levels)
    for arrays in [*calls, *reversed(calls)]:
        close(made(*arrays), reference(source, arrays))
    assert (len(levels) == before) == (how == "never")  # then nothing is compiled for them


@pytest.mark.parametrize("name", VALUES)
def test_values_that_must_be_known(name: str) -> None:
    source, calls = VALUES[name]
    made = compiled(source)
    for arrays in [*calls, *reversed(calls)]:
        close(made(*arrays), reference(source, arrays))
    for arrays in calls:
        names = [info.name for info in made.inputs]
        close(list(made.run(dict(zip(names, arrays, strict=True))).values()), reference(source, arrays))


def test_rounds_whose_results_are_collected() -> None:
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [node("Identity", ["c"], ["d"]), node("Add", ["v", "v"], ["w"]), node("Neg", ["w"], ["u"])], "body",
        [value("t", INT, []), value("c", TensorProto.BOOL, []), value("v", FLOAT, [4, 6])],
        [value("d", TensorProto.BOOL, []), value("w", FLOAT, [4, 6]), value("u", FLOAT, [4, 6])],
    )  # fmt: skip
    made = stepwell.compile(model([node("Loop", ["m", "", "x"], ["f", "y"], body=body)], {"x": [4, 6], "m": []}))
    for count in (3, 1, 5):
        last, collected = made(X, np.array(count))
        close([last, collected], [X * 2.0**count, np.stack([-X * 2.0 ** (i + 1) for i in range(count)])])


def test_sizes_stay_free_where_values_are_given() -> None:
    """In one program for all sizes for each value."""
    source, calls = VALUES["sum"]
    made = compiled(source, specialise="never")
    assert (set(made.values), made.by_shape) == ({"a"}, False)
    inner = made.specialise({}, {"a": ints(1)})
    assert isinstance(inner, DynamicModel)
    assert inner.inputs[0].shape == ("n", 6)
    assert inner.general
    for arrays in calls:
        close(made(*arrays), reference(source, arrays))


def test_negative_elements_get_code_of_their_own() -> None:
    source, _ = SIZES["reshape"]
    made = compiled(source, specialise="never")
    for arrays in [(X, ints(-1, 3)), (X, ints(0, 6)), (X, ints(0, -1)), (X, ints(3, 8)), (X[:0], ints(0, 0))]:  # 0 keeps a size
        close(made(*arrays), reference(source, arrays))
    _, calls = SIZES["slice"]
    made = compiled(SIZES["slice"][0], specialise="never")
    for arrays in [(X, ints(-3, 1), ints(4, -1)), *calls]:
        close(made(*arrays), reference(SIZES["slice"][0], arrays))


def test_elements_have_names() -> None:
    assert compiled(SIZES["top_k"][0]).outputs[0].shape == ("n", "k")
    assert compiled(SIZES["tile"][0]).outputs[0].shape == ("n*r_0", "6*r_1")
    assert compiled(VALUES["sum"][0]).outputs[0].shape == ("*",)
    lowered = stepwell.lower(SIZES["computed"][0], "affine", specialise="never")
    texts = {level: str(snapshot) for level, snapshot in lowered.snapshots.items()}
    assert 'stepwell.elements = ["", "?, s_1, ?"]' in texts["graph"]
    assert 'tensor<?x6xf32, "2*s_1 + 1, ?">' in texts["graph"].replace('"2*s_1 + 1">', '"2*s_1 + 1, ?">')
    assert 'stepwell.symbols = ["s_1"]' in texts["affine"]


def test_errors_name_what_was_given() -> None:
    made = compiled(VALUES["sum"][0])
    with pytest.raises(stepwell.ModelError, match=r"where inputs are given as a = \[5\]"):
        made(X, ints(5))
    close(made(X, ints(1)), [X.sum(1)])
    top = compiled(SIZES["top_k"][0], specialise="never")
    with pytest.raises(stepwell.ModelError, match=r"where inputs are given as k = \[7\]"):
        top(X, ints(7))


def test_absurd_elements_are_one_error() -> None:
    made = compiled(SIZES["constant_of_shape"][0], specialise="never")
    with pytest.raises(stepwell.LimitError, match=r"(output 'y' float32\[1099511627776x1099511627776\] would take|take .* bytes)"):
        made(ints(1 << 40, 1 << 40), X[0, :1])
    close(made(ints(2, 2), X[0, :1]), [np.full((2, 2), X[0, 0])])


def test_large_inputs_are_refused_by_name() -> None:
    source = model([node("ReduceSum", ["x", "a"], ["y"])], {"x": [4, 6], "a": [2000]})
    with pytest.raises(stepwell.UnsupportedError, match=r"axes computed at run time.*input 'a' of 2000 elements.*1024 at most"):
        stepwell.compile(source)
    free = compiled(model([node("ReduceSum", ["x", "a"], ["y"])], {"x": [4, 6], "a": ["k"]}))
    with pytest.raises(stepwell.UnsupportedError, match="input 'a': its values must be known, of which at most 1024 may be, got 2000"):
        free(X, np.zeros(2000, np.int64))


def test_what_a_network_computes_is_not_asked_for() -> None:
    nodes = [node("MatMul", ["x", "w"], ["p"]), node("Cast", ["p"], ["a"], to=INT), node("Squeeze", ["a"], ["b"])]
    nodes.append(node("ReduceSum", ["z", "b"], ["y"]))
    source = model(nodes, {"x": [1, 40000], "z": [2, 3]}, ("x", "z"), w=np.zeros((40000, 1), np.float32))
    with pytest.raises(stepwell.UnsupportedError, match="axes computed at run time"):
        stepwell.compile(source)


def test_a_bounded_number_is_kept_by_values() -> None:
    made = compiled(VALUES["squeezed"][0], specialise="always")
    made.capacity = 2
    for axis in (0, 1, 2, 0, 1, 2):
        close(made(X, ints(axis)), [np.expand_dims(X, axis)])
    assert len(made.specialisations) == 2


def test_values_of_two_inputs_in_two_steps() -> None:
    """Of the second one nothing is known to be needed before the first one is given, which decides a rank."""
    nodes = [node("ReduceSum", ["x", "a"], ["r"], keepdims=0), node("Pad", ["r", "p"], ["y"])]
    source = model(nodes, {"x": [4, 6], "a": ["k"], "p": ["l"]})
    made = compiled(source)
    assert set(made.values) == {"a"}
    for arrays in [(X, ints(0), ints(1, 2)), (X, ints(1), ints(0, 3)), (X, ints(0), ints(2, 2))]:
        close(made(*arrays), reference(source, arrays))


def test_the_signature_comes_from_the_cache(cache_folder: Any) -> None:
    source, calls = VALUES["sum"]
    for turn in range(2):
        levels: list[str] = []
        made = compiled(source, specialise="always", on_level=lambda level, seconds, seen=levels: seen.append(level))  # type: ignore[misc]
        close(made(*calls[0]), reference(source, calls[0]))
        assert set(made.values) == {"a"}
        assert ("graph-opt" in levels) == (turn == 0)
    general, calls = SIZES["top_k"]
    for _ in range(2):
        made = compiled(general, specialise="never")
        close(made(*calls[0]), reference(general, calls[0]))


def test_values_as_an_option() -> None:
    source, _ = VALUES["sum"]
    made = stepwell.compile(source, values={"a": ints(0)}, shapes={"x": (4, 6)})
    assert [info.name for info in made.inputs] == ["x"]
    close(made(X), [X.sum(0)])
    assert stepwell.CompileOptions(values={"a": ints(0)}) == stepwell.CompileOptions(values={"a": ints(0)})
    assert stepwell.CompileOptions(values={"a": ints(0)}).key() != stepwell.CompileOptions(values={"a": ints(1)}).key()
    with pytest.raises(stepwell.InputError, match="there is no input 'q' to give a value to"):
        stepwell.compile(source, values={"q": ints(0)})


def test_a_model_that_is_given_what_it_declares_keeps_one_program() -> None:
    """Where ONNX says the sizes of the result in numbers, no values are asked for."""
    graph = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> g (float[4, 6] x, int64[2] s) => (float[3, 8] y) { y = Reshape(x, s) }'
    )
    made = stepwell.compile(graph)
    assert isinstance(made, stepwell.CompiledModel)
    close(made(X, ints(3, 8)), [X.reshape(3, 8)])
