"""Operators that cut, count, choose and mask along dimensions of any size, bounds that come from sizes: one program for all, as ONNX's evaluator."""

from typing import Any

import guarded
import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import stepwell
from stepwell.driver.dynamic import DynamicModel
from stepwell.frontends.blocks import bounds

FLOAT = TensorProto.FLOAT
SIZES = ((4, 5), (1, 3), (9, 7), (2, 16), (6, 4), (33, 64), (4, 5))
FAR = 1 << 40
BILLION = 10**9


def node(op: str, inputs: str, outputs: str = "y", **attributes: Any) -> NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def model(nodes: list[NodeProto], inputs: dict[str, list[Any]], **weights: Any) -> ModelProto:
    graph = helper.make_graph(
        nodes, "moves", [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", FLOAT, None)], [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape, np.float32)


# Where a sequence begins and ends behind one of another length: `past` and `past + n`.
BEHIND = [node("Shape", "x", "all", end=1), node("Shape", "p", "past"), node("Add", "all past", "end")]
IMAGE: dict[str, list[Any]] = {"x": ["n", "m", 3]}
BOTH: dict[str, list[Any]] = {"x": ["n", 3], "p": ["m"]}
CASES: dict[str, ModelProto] = {
    "without_ends": model([node("Slice", "x s e")], IMAGE, s=[0, -3], e=[-1, FAR]),
    "billions": model([node("Slice", "x s e a")], IMAGE, s=[0, -BILLION], e=[BILLION, -1], a=[0, 1]),
    "billions_reversed": model([node("Slice", "x s e a t")], IMAGE, s=[BILLION], e=[-BILLION], a=[1], t=[-1]),
    "second": model([node("Slice", "x s e a")], IMAGE, s=[1], e=[2], a=[1]),
    "reversed": model([node("Slice", "x s e a t")], IMAGE, s=[-1], e=[-FAR], a=[1], t=[-1]),
    "reversed_steps": model([node("Slice", "x s e a t")], IMAGE, s=[FAR, -1], e=[0, -FAR], a=[0, 1], t=[-2, -3]),
    "steps": model([node("Slice", "x s e a t")], IMAGE, s=[1], e=[-1], a=[1], t=[2]),
    "last": model([node("Slice", "x s e a", "l"), node("Squeeze", "l a")], IMAGE, s=[-1], e=[FAR], a=[1]),
    "part_of_a_table": model([*BEHIND, node("Slice", "w past end", "t"), node("Neg", "t")], BOTH, w=floats(100, 5)),
    "rows_of_a_table": model(
        [*BEHIND, node("Squeeze", "past", "first"), node("Squeeze", "end", "last"), node("Range", "first last one", "r"), node("Gather", "w r")],
        BOTH, w=floats(100, 5), one=1,
    ),
    "counted_down": model(
        [*BEHIND, node("Squeeze", "end", "n"), node("Range", "n three step", "r"), node("Cast", "r", to=FLOAT)], BOTH, three=3, step=-2
    ),
    "band": model([node("Trilu", "x", "t", upper=0), node("Trilu", "t k")], {"x": [2, "n", "m"]}, k=-2),
    "greatest": model([node("TopK", "x k", "v i", axis=1), node("Cast", "i", "j", to=FLOAT), node("Add", "v j")], IMAGE, k=[3]),
    "least_of_all": model([node("TopK", "x k", "y i", axis=0, largest=0)], {"x": ["n", 5]}, k=[1]),
    "parts": model([node("Split", "x", "a b c", axis=1, num_outputs=3), node("Concat", "c a b", axis=1)], {"x": ["n", "m", 2]}),
    "edges": model([node("Pad", "x pads", mode="edge")], IMAGE, pads=[0, 2, 0, 1, 3, 2]),
    "mirrored": model([node("Pad", "x pads", mode="reflect")], {"x": [2, "m"]}, pads=[0, 2, 1, 1]),
    "around": model([node("Pad", "x pads", mode="wrap")], {"x": ["m", "n"]}, pads=[2, 1, 0, 1]),
    "blocks": model([node("DepthToSpace", "x", blocksize=2, mode="CRD")], {"x": ["n", 8, "m", 3]}),
    "diagonal": model([node("EyeLike", "x", "e", k=1), node("Add", "e x")], {"x": ["n", "m"]}),
    "halves": model([node("Split", "x", "a b", axis=0, num_outputs=2), node("Concat", "b a", axis=0)], {"x": ["n", "m"]}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_results_for_many_sizes_in_turn(name: str) -> None:
    source, levels = CASES[name], list[str]()
    compiled = stepwell.compile(source, specialise="never", threads=1, cache=False, on_level=lambda level, seconds: levels.append(level))
    assert isinstance(compiled, DynamicModel)
    right, made = ReferenceEvaluator(source), len(levels)
    for turn, (n, m) in enumerate(SIZES):
        sizes = {"n": n, "m": m}
        shapes = {value.name: [dim.dim_value or sizes[dim.dim_param] for dim in value.type.tensor_type.shape.dim] for value in source.graph.input}
        x = {key: floats(*shape, seed=turn) for key, shape in shapes.items()}
        want = right.run(None, x)[0]
        got = compiled.run(x)["y"]
        assert got.shape == want.shape
        np.testing.assert_array_equal(got, want)
        one = compiled.specialise({key: array.shape for key, array in x.items()})
        np.testing.assert_array_equal(guarded.run(one, x, turn % 3)["y"], want)
    assert len(levels) == made, "nothing was compiled for new sizes"


def test_negative_padding_crops() -> None:
    """ONNX's evaluator does not."""
    compiled = stepwell.compile(model([node("Pad", "x pads")], {"x": ["n", "m"]}, pads=[0, -1, 2, -2]), specialise="never")
    for shape in ((4, 5), (1, 3), (9, 64)):
        x = floats(*shape)
        np.testing.assert_array_equal(compiled(x)[0], np.pad(x[:, 1:-2], ((0, 2), (0, 0))))


def test_channels_that_are_free_are_those_of_the_weights() -> None:
    """The result has the number of channels that the scales say, whatever becomes of the normalisation."""
    weights = {name: floats(3, seed=i) for i, name in enumerate(("s", "b", "a"))} | {"v": np.abs(floats(3, seed=4)) + 1}
    for way in ({}, {"training_mode": 1}):
        nodes = [node("BatchNormalization", "x s b a v", "y" if not way else "y m d", **way)]
        source = model(nodes, {"x": ["n", "c", "h"]}, **weights)
        compiled, right = stepwell.compile(source, specialise="never"), ReferenceEvaluator(source)
        for shape in ((2, 3, 5), (7, 3, 1), (1, 3, 33)):
            np.testing.assert_allclose(compiled(floats(*shape))[0], right.run(None, {"x": floats(*shape)})[0], rtol=1e-4, atol=1e-5)
        with pytest.raises(stepwell.ModelError, match="3 and 4"):
            compiled(floats(2, 4, 5))


def test_a_dimension_that_is_as_long_as_a_bound_that_seemed_beyond_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "LONG", 8)
    source = model([node("Slice", "x s e a")], IMAGE, s=[0, -9], e=[10, -1], a=[0, 1])
    compiled, right = stepwell.compile(source, specialise="never"), ReferenceEvaluator(source)
    for shape in ((4, 5, 3), (10, 9, 3), (11, 5, 3), (5, 10, 3), (30, 40, 3)):
        np.testing.assert_array_equal(compiled(floats(*shape))[0], right.run(None, {"x": floats(*shape)})[0])


def test_sizes_that_a_slice_does_not_assume_get_code_of_their_own() -> None:
    source = CASES["without_ends"]
    compiled, right = stepwell.compile(source, specialise="never"), ReferenceEvaluator(source)
    for shape in ((4, 2, 3), (0, 5, 3), (3, 0, 3), (5, 4, 3)):
        want = right.run(None, {"x": floats(*shape)})[0]
        np.testing.assert_array_equal(compiled(floats(*shape))[0], want)
