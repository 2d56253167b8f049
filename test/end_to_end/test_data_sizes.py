"""Sizes that depend on data: results are those of ONNX's evaluator, of their own shapes, whatever came before; absurd sizes are errors."""

from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from covering import by_day
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.shape_inference import infer_shapes
from together import together

import stepwell
from stepwell.dialects.core.weights import WeightTable
from stepwell.driver import build, lowering
from stepwell.driver.artifact import assemble

FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64


def node(op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> NodeProto:
    return helper.make_node(op, inputs, outputs, **attributes)


def model(nodes: list[NodeProto], inputs: dict[str, list[Any]], outputs: Sequence[str], **weights: np.ndarray) -> ModelProto:
    graph = helper.make_graph(
        nodes, "data_sizes",
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    bare = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    inferred = infer_shapes(bare)
    types = {value.name: value.type.tensor_type.elem_type for value in (*inferred.graph.output, *inferred.graph.value_info)}
    for value in bare.graph.output:
        value.CopyFrom(helper.make_tensor_value_info(value.name, types[value.name], None))
    return bare


def sparse(rng: np.random.Generator, *shape: int, share: float) -> np.ndarray:
    """Random numbers of which about that share is not 0."""
    return np.where(rng.random(shape) < share, rng.standard_normal(shape), 0).astype(np.float32)


ONE = np.array([1], np.int64)
CASES: dict[str, ModelProto] = {
    "places": model([node("NonZero", ["x"], ["i"]), node("Transpose", ["i"], ["y"])], {"x": ["n", 5]}, ["y", "i"]),
    "chosen": model(
        [
            node("ReduceSum", ["x", "one"], ["s"], keepdims=0), node("Greater", ["s", "zero"], ["c"]),
            node("Compress", ["x", "c"], ["k"], axis=0),
            node("MatMul", ["k", "w"], ["m"]), node("Softmax", ["m"], ["y"], axis=-1), node("Shape", ["k"], ["count"]),
            node("Mul", ["x", "x"], ["early"]),
        ],
        {"x": ["n", 8]}, ["y", "count", "early"], one=ONE, zero=np.array(0, np.float32),
        w=np.random.default_rng(3).standard_normal((8, 11), np.float32),
    ),
    "twice": model(
        [
            node("NonZero", ["x"], ["i"]), node("Squeeze", ["i", "axis"], ["flat"]), node("Gather", ["z", "flat"], ["g"], axis=0),
            node("NonZero", ["g"], ["j"]), node("Concat", ["j", "j"], ["y"], axis=1), node("Exp", ["g"], ["e"]), node("Add", ["e", "g"], ["k"]),
        ],
        {"x": ["n"], "z": ["n", 3]}, ["y", "k"], axis=np.array([0]),
    ),
    "joined": model(
        [
            node("NonZero", ["x"], ["i"]), node("Cast", ["i"], ["f"], to=FLOAT), node("Neg", ["z"], ["m"]),
            node("Concat", ["m", "f"], ["y"], axis=1),
        ],
        {"x": ["n", 4], "z": [2, 3]}, ["y"],
    ),
    "different": model([node("Round", ["x"], ["r"]), node("Unique", ["r"], ["y", "i", "v", "c"])], {"x": ["n", 4]}, ["y", "i", "v", "c"]),
    "as_they_come": model(
        [node("Round", ["x"], ["r"]), node("Unique", ["r"], ["y", "i", "v", "c"], sorted=0)], {"x": ["n", 4]}, ["y", "i", "v", "c"],
    ),
    "different_rows": model(
        [node("Round", ["x"], ["r"]), node("Unique", ["r"], ["y", "i", "v", "c"], axis=0)], {"x": ["n", 2]}, ["y", "i", "v", "c"],
    ),
    "counting": model(
        [
            node("ReduceMax", ["x"], ["m"], keepdims=0), node("Abs", ["m"], ["a"]), node("Mul", ["a", "ten"], ["limit"]),
            node("Range", ["zero", "limit", "step"], ["y"]), node("Reshape", ["y", "column"], ["c"]), node("Mul", ["c", "y"], ["square"]),
        ],
        {"x": ["n"]}, ["y", "square"], zero=np.array(0.5, np.float32), ten=np.array(10, np.float32), step=np.array(0.75, np.float32),
        column=np.array([-1, 1]),
    ),
    "shaped": model(
        [
            node("NonZero", ["x"], ["i"]), node("Shape", ["i"], ["s"]), node("ReduceProd", ["s"], ["p"], keepdims=1),
            node("Add", ["p", "one"], ["q"]),
            node("Concat", ["q", "three"], ["shape"], axis=0), node("Expand", ["z", "shape"], ["y"]),
            node("ConstantOfShape", ["shape"], ["k"]),
        ],
        {"x": ["n"], "z": [3]}, ["y", "k"], one=ONE, three=np.array([3]),
    ),
}  # fmt: skip

COUNT = [node("NonZero", ["x"], ["found"]), node("Size", ["found"], ["k0"]), node("Reshape", ["k0", "one"], ["k"])]
TWO, ZERO = np.array([2], np.int64), np.array([0], np.int64)
CASES |= {
    "largest": model(
        [*COUNT, node("Div", ["k", "two"], ["h"]), node("TopK", ["z", "h"], ["v", "w"]), node("TopK", ["z", "h"], ["a", "b"], axis=1, largest=0),
         node("Add", ["v", "a"], ["y"])],
        {"x": ["n"], "z": [3, 40]}, ["y", "w", "b"], one=ONE, two=TWO,
    ),
    "repeated": model(
        [*COUNT, node("Concat", ["one", "k"], ["r"], axis=0), node("Tile", ["z", "r"], ["y"])], {"x": ["n"], "z": [3, "n"]}, ["y"], one=ONE,
    ),
    "padded": model(
        [*COUNT, node("Sub", ["k", "two"], ["l"]), node("Concat", ["k", "zero", "l", "k"], ["p"], axis=0), node("Pad", ["z", "p", "v"], ["y"])],
        {"x": ["n"], "z": [3, "n"]}, ["y"], one=ONE, two=TWO, zero=ZERO, v=np.array(7, np.float32),
    ),
    "padded_by_edges": model(
        [*COUNT, node("Concat", ["k", "one"], ["p"], axis=0), node("Pad", ["z", "p", "", "one"], ["y"], mode="edge")],
        {"x": ["n"], "z": [3, 5]}, ["y"], one=ONE,
    ),
    "hot": model(
        [*COUNT, node("Add", ["k0", "two"], ["d"]), node("OneHot", ["which", "d", "values"], ["y"])],
        {"x": ["n"]}, ["y"], one=ONE, two=np.array(2), which=np.array([0, 1, 0, -1]), values=np.array([2, 5], np.float32),
    ),
    "parts": model(
        [*COUNT, node("Sub", ["nine", "k"], ["r"]), node("Concat", ["k", "r"], ["p"], axis=0), node("Split", ["z", "p"], ["a", "b"], axis=0),
         node("Neg", ["a"], ["y"])],
        {"x": [7], "z": [9, 2]}, ["y", "b"], one=ONE, nine=np.array([9]),
    ),
    "resized": model(
        [*COUNT, node("Add", ["k", "one"], ["more"]), node("Concat", ["more", "two"], ["p"], axis=0),
         node("Resize", ["z", "", "", "p"], ["y"], mode="linear", axes=[0, 1])],
        {"x": ["n"], "z": [3, "n"]}, ["y"], one=ONE, two=TWO,
    ),
    "scaled": model(
        [*COUNT, node("Cast", ["k"], ["f"], to=FLOAT), node("Div", ["f", "four"], ["g"]), node("Concat", ["half", "g"], ["p"], axis=0),
         node("Resize", ["z", "", "p"], ["y"], coordinate_transformation_mode="asymmetric", nearest_mode="floor")],
        {"x": ["n"], "z": [3, 5]}, ["y"], one=ONE, four=np.array([4], np.float32), half=np.array([0.5], np.float32),
    ),
}  # fmt: skip
BY_ONNX_RUNTIME = ("as_they_come", "padded")  # what the evaluator does not do: keep the order, crop by pads below 0


class OnnxRuntime:
    """As ONNX's evaluator, which fails on some data that Unique does not sort."""

    def __init__(self, source: ModelProto) -> None:
        self.session = onnxruntime.InferenceSession(source.SerializeToString(), providers=["CPUExecutionProvider"])

    def run(self, names: None, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        return list(self.session.run(names, inputs))


def inputs_of(source: ModelProto, n: int, rng: np.random.Generator, share: float) -> dict[str, np.ndarray]:
    shapes = {v.name: [d.dim_value or n for d in v.type.tensor_type.shape.dim] for v in source.graph.input}
    return {name: sparse(rng, *shape, share=share) for name, shape in shapes.items()}


def close(got: Sequence[np.ndarray], want: Sequence[np.ndarray]) -> None:
    for one, other in zip(got, want, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        if one.dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol=64 * 2**-23, atol=64 * 2**-23 * np.abs(other).max(initial=1))
        else:
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", CASES)
def test_results_for_many_data_in_turn(name: str) -> None:
    check(CASES[name], stepwell.compile(CASES[name], specialise="never"), (9, 1, 30, 4, 9), OnnxRuntime if name in BY_ONNX_RUNTIME else None)


@pytest.mark.parametrize("name", by_day(CASES, ["chosen", "twice", "different", "largest", "parts"]))
def test_results_of_inputs_of_one_size(name: str) -> None:
    shapes = {value.name: [dim.dim_value or 9 for dim in value.type.tensor_type.shape.dim] for value in CASES[name].graph.input}
    check(CASES[name], stepwell.compile(CASES[name], shapes=shapes), (9, 9), OnnxRuntime if name in BY_ONNX_RUNTIME else None)


def check(source: ModelProto, compiled: Any, sizes: Sequence[int], oracle: Any) -> None:
    """Results are those of the oracle, ONNX's evaluator unless told, for these sizes, and much and little data."""
    right, rng = (oracle or ReferenceEvaluator)(source), np.random.default_rng(7)
    for n in sizes:
        for share in (0.5, 1.0, 0.1, 0.9):
            given = inputs_of(source, n, rng, share)
            close(list(compiled.run(given).values()), right.run(None, given))


@pytest.mark.parametrize("name", ["chosen", "twice", "different_rows"])
def test_runs_at_the_same_time_do_not_meet(name: str) -> None:
    source = CASES[name]
    compiled, right = stepwell.compile(source, specialise="never"), ReferenceEvaluator(source)
    rng = np.random.default_rng(1)
    work = []
    for n in (3, 12, 40):
        given = inputs_of(source, n, rng, 0.5)
        work.append((given, right.run(None, given)))

    def go(given: dict[str, np.ndarray], want: list[np.ndarray]) -> None:
        for _ in range(40):
            close(list(compiled.run(given).values()), want)

    together(*(partial(go, *job) for job in work))


def test_a_result_is_not_written_to_by_a_later_run() -> None:
    source = CASES["twice"]
    compiled, rng = stepwell.compile(source, specialise="never"), np.random.default_rng(5)
    given = inputs_of(source, 20, rng, 0.7)
    first = compiled.run(given)
    kept = {name: array.copy() for name, array in first.items()}
    for _ in range(5):
        compiled.run(inputs_of(source, 20, rng, 1.0))
    assert all(np.array_equal(first[name], kept[name]) for name in kept)


def test_the_cache_keeps_what_waits_for_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path))
    source = CASES["chosen"]
    path = tmp_path / "model.onnx"
    path.write_bytes(source.SerializeToString())
    shapes = {"x": (9, 8)}
    given = inputs_of(source, 9, np.random.default_rng(2), 0.3)
    want = stepwell.compile(path, shapes=shapes).run(given)
    again = stepwell.compile(path, shapes=shapes)
    close(list(again.run(given).values()), list(want.values()))


def test_a_part_whose_place_becomes_known_after_it() -> None:
    """The size of the whole is known from the start, but not where the part lies that is computed first."""
    inserted = model(
        [
            node("Sin", ["r"], ["row"]), node("NonZero", ["c"], ["i"]), node("Shape", ["i"], ["count"], start=1),
            node("Slice", ["x", "zero", "count", "zero"], ["above"]), node("Slice", ["x", "count", "far", "zero"], ["below"]),
            node("Concat", ["above", "row", "below"], ["y"], axis=0),
        ],
        {"x": ["n", 3], "r": [1, 3], "c": ["m"]}, ["y"], zero=np.array([0]), far=np.array([np.iinfo(np.int64).max]),
    )  # fmt: skip
    compiled = stepwell.compile(inserted, specialise="never")
    rng = np.random.default_rng(11)
    for rows, count in ((5, 2), (5, 0), (7, 6)):
        x, row, chosen = rng.standard_normal((rows, 3), np.float32), rng.standard_normal((1, 3), np.float32), np.arange(count + 1, dtype=np.float32)
        want = np.concatenate([x[:count], np.sin(row), x[count:]])
        np.testing.assert_allclose(compiled(x, row, chosen)[0], want, rtol=1e-6, atol=1e-6)


ASKING = model(  # of data that nobody takes for sizes of the model
    [
        node("ReduceSum", ["a", "one"], ["c"], keepdims=1), node("ReduceSum", ["b", "one"], ["d"], keepdims=1),
        node("Concat", ["c", "d"], ["shape"], axis=0), node("Cast", ["shape"], ["s"], to=INT), node("Abs", ["x"], ["z"]),
        node("Expand", ["z", "s"], ["r"]),
    ],
    {"a": [2000], "b": [2000], "x": [1, 1]}, ["r"], one=np.array([0]),
)  # fmt: skip


@cache
def asking() -> Any:
    ASKING.graph.node[-1].name = "wide"
    return stepwell.compile(ASKING)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (-3.0, 2.0, "ask for the size -3; expected a number from 0"),
        (3e9, 3e9, "would take .* bytes of memory, more than"),
        (9e18, 9e18, "would take .* bytes of memory, more than"),
    ],
)
def test_absurd_sizes_are_one_error_that_names_the_node(a: float, b: float, message: str) -> None:
    compiled = asking()
    given = {name: np.zeros(2000, np.float32) for name in ("a", "b")}
    given["a"][7], given["b"][9] = a, b
    given["x"] = np.full((1, 1), -2, np.float32)
    with pytest.raises(stepwell.StepwellError, match=f"wide.*{message}"):
        compiled.run(given)
    given["a"][7], given["b"][9] = 2, 3
    good = compiled.run(given)
    np.testing.assert_array_equal(good["r"], np.full((2, 3), 2, np.float32))


@pytest.mark.parametrize(
    ("op", "operand", "asked", "message"),
    [
        ("TopK", "k", 8.0, "expected .* <= 6, got .* = 8"), ("TopK", "k", -1.0, "ask for the size -1; expected a number from 0"),
        ("Tile", "k", -2.0, "ask for the size -2; expected a number from 0"), ("Tile", "k", 9e18, "would take .* bytes of memory, more than"),
        ("Pad", "both", 1e15, "would take .* bytes of memory, more than"), ("Pad", "both", -4.0, "expected .* >= 0, got"),
        ("Split", "both", 2.0, "expected .* == .*, got"),
    ],
)  # fmt: skip
def test_absurd_operands_are_one_error_that_names_the_node(op: str, operand: str, asked: float, message: str) -> None:
    compiled = with_operand(op, operand)
    x = np.zeros(2000, np.float32)
    x[5] = asked
    given = {"x": x, "z": np.arange(6, dtype=np.float32)}
    with pytest.raises(stepwell.StepwellError, match=f"wide.*{message}"):
        compiled.run(given)
    x[5] = 3
    good = compiled.run(given)
    assert good["y"].shape == {"TopK": (3,), "Tile": (18,), "Pad": (12,), "Split": (3,)}[op]


@cache
def with_operand(op: str, operand: str) -> Any:
    """A node `wide` of six elements, one of whose operands is computed of others."""
    outputs = {"TopK": ["y", "i"], "Split": ["y", "i"]}.get(op, ["y"])
    extra = {"axis": 0} if op in ("TopK", "Split") else {}
    source = model(
        [
            node("ReduceMax", ["x"], ["most"], keepdims=0), node("ReduceMin", ["x"], ["least"], keepdims=0), node("Add", ["most", "least"], ["sum"]),
            node("Cast", ["sum"], ["k0"], to=INT), node("Reshape", ["k0", "one"], ["k"]), node("Concat", ["k", "k"], ["both"], axis=0),
            node(op, ["z", operand], outputs, **extra),
        ],
        {"x": [2000], "z": [6]}, outputs, one=ONE,
    )  # fmt: skip
    source.graph.node[-1].name = "wide"
    return stepwell.compile(source)


def test_no_array_can_be_given_for_an_output_of_unknown_size() -> None:
    source = CASES["chosen"]
    compiled = stepwell.compile(source, shapes={"x": (4, 8)})
    given = inputs_of(source, 4, np.random.default_rng(0), 1.0)
    with pytest.raises(stepwell.InputError, match="only the run tells its size"):
        compiled.run(given, out={"y": np.empty((4, 11), np.float32)})
    early = np.empty((4, 8), np.float32)
    compiled.run(given, out={"early": early})
    np.testing.assert_allclose(early, given["x"] ** 2, rtol=2**-22)


@pytest.mark.parametrize("specialise", by_day(["never", "auto"], ["auto"]))
def test_a_size_that_turns_out_to_be_one_is_broadcast(specialise: str) -> None:
    """Against a size of an input, one of data, and a number; in an operator of three operands, and in a product of many matrices."""
    nodes = [node("NonZero", [name], [f"{name}_places"]) for name in ("a", "b")]
    nodes += [node("Transpose", [f"{name}_places"], [f"{name}_turned"]) for name in ("a", "b")]
    nodes += [node("Squeeze", [f"{name}_turned", "one"], [name + "_rows"]) for name in ("a", "b")]
    nodes += [node("Gather", ["x", f"{name}_rows"], [f"{name}_x"]) for name in ("a", "b")]
    nodes += [
        node("Add", ["a_x", "y"], ["sum"]), node("Mul", ["sum", "b_x"], ["product"]), node("Sub", ["a_x", "w"], ["difference"]),
        node("Greater", ["a_x", "b_x"], ["greater"]), node("Where", ["greater", "b_x", "y"], ["chosen"]),
        node("Unsqueeze", ["a_x", "one"], ["lhs"]), node("Unsqueeze", ["y", "two"], ["rhs"]), node("MatMul", ["lhs", "rhs"], ["matrices"]),
    ]  # fmt: skip
    outputs, weights = ["product", "difference", "chosen", "matrices"], {"w": np.arange(20, dtype=np.float32).reshape(5, 4), "two": ONE * 2}
    source = model(nodes, {"a": ["k"], "b": ["k"], "x": ["k", 4], "y": ["p", 4]}, outputs, one=ONE, **weights)
    compiled, evaluator = stepwell.compile(source, cache=False, specialise=specialise), ReferenceEvaluator(source)
    rng = np.random.default_rng(9)

    def given(a: int, b: int, p: int) -> dict[str, np.ndarray]:
        x, y = (rng.standard_normal((rows, 4)).astype(np.float32) for rows in (6, p))
        return {"a": (np.arange(6) < a).astype(np.float32), "b": (np.arange(6) < b).astype(np.float32), "x": x, "y": y}

    def right(feeds: dict[str, np.ndarray]) -> None:
        close(list(compiled.run(feeds).values()), evaluator.run(None, feeds))

    right(given(5, 5, 5))
    with pytest.warns(stepwell.ModelWarning, match="runs in which such a size is 1 are computed by a program"):
        right(given(1, 5, 5))
    for sizes in ((1, 1, 1), (1, 3, 1), (5, 1, 1), (1, 1, 3), (1, 4, 4)):
        right(given(*sizes))
    with pytest.raises(stepwell.IndexRangeError):
        compiled.run(given(1, 2, 3))


def test_sizes_that_have_to_be_equal_are_compared() -> None:
    source = model(
        [node("NonZero", ["x"], ["i"]), node("NonZero", ["z"], ["j"]), node("Add", ["i", "j"], ["y"])], {"x": [6], "z": [6]}, ["y"],
    )
    compiled = stepwell.compile(source)
    x = np.array([1, 0, 1, 0, 0, 1], np.float32)
    np.testing.assert_array_equal(compiled.run({"x": x, "z": x})["y"], 2 * np.flatnonzero(x)[None])
    with pytest.raises(stepwell.StepwellError, match=r"expected .* == "):
        compiled.run({"x": x, "z": np.ones(6, np.float32)})


@pytest.mark.parametrize("centred", [0, 1])
def test_boxes_that_are_kept(centred: int) -> None:
    source = model(
        [
            node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["kept"], center_point_box=centred),
            node("Cast", ["kept"], ["y"], to=FLOAT),
        ],
        {"boxes": ["b", "n", 4], "scores": ["b", 3, "n"]}, ["kept", "y"],
        most=np.array([7]), overlap=np.array([0.4], np.float32), least=np.array([0.3], np.float32),
    )  # fmt: skip
    compiled, right = stepwell.compile(source, specialise="never"), OnnxRuntime(source)
    rng = np.random.default_rng(11)
    for batch, count in ((1, 12), (2, 60), (1, 1), (3, 25)):
        boxes = rng.random((batch, count, 4), np.float32)
        scores = rng.random((batch, 3, count), np.float32)  # all different: equal ones may be kept in any order
        given = {"boxes": boxes, "scores": scores}
        close(list(compiled.run(given).values()), right.run(None, given))


def test_a_size_that_is_known_is_what_the_data_ask_for() -> None:
    """An op of the IR may say in numbers how many elements it will find."""
    text = """
      func.func @main(%x: tensor<3x4xf32>) -> tensor<2x5xi64> {
        %0 = "graph.non_zero"(%x) : (tensor<3x4xf32>) -> tensor<2x5xi64> loc("where")
        return %0 : tensor<2x5xi64>
      }"""
    lowered = lowering.descend(lowering.read_ir(text, "graph", WeightTable(), name="known"), "affine", keep=False)
    compiled = assemble(build.make_artifact(lowered, None, None), threads=1, snapshots={}, timings={})
    rng = np.random.default_rng(5)
    for count in (5, 4, 0, 5, 12):
        x = np.zeros(12, np.float32)
        x[rng.permutation(12)[:count]] = 1 + rng.random(count, np.float32)
        x = x.reshape(3, 4)
        if count == 5:
            np.testing.assert_array_equal(compiled(x)[0], np.array(np.nonzero(x)))
        else:
            with pytest.raises(stepwell.IndexRangeError, match=f"where: the data ask for the size {count}, where 5 is expected"):
                compiled(x)
