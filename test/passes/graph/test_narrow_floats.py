"""Networks whose weights and activations are stored in bf16, natively: products of rounded numbers, summed in f32, on machines with and without."""

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from covering import pairs, split_by_day
from native_checks import Arrays, check_model, natively_together
from onnx import TensorProto, helper, numpy_helper
from quantized_networks import HALF_TILES, pretending

import stepwell
from stepwell.dialects.support.errors import InputError, PipelineError
from stepwell.dialects.target.description import Target

RNG = np.random.default_rng(53)
ALWAYS = "narrow-floats{to=bf16 always=true}"


def rounded(array: np.ndarray) -> np.ndarray:
    return array.astype(ml_dtypes.bfloat16).astype(np.float32)


def model(nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray], shape: tuple[Any, ...]) -> onnx.ModelProto:
    sides = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", *sides, [numpy_helper.from_array(a, n) for n, a in weights.items()])
    return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10))


def floats(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (RNG.normal(size=shape) * scale + 0.1 * scale).astype(np.float32)


PLAIN = "x86-64-v3"  # which has no instruction for bf16
CONVOLUTIONS = {
    "3x3": ((40, 8, 3, 3), (1, 8, 11, 10), {"pads": [1, 1, 1, 1]}),
    "first layer": ((24, 3, 7, 7), (1, 3, 25, 26), {"pads": [3, 3, 3, 3], "strides": [2, 2]}),
    "pointwise": ((17, 48, 1, 1), (2, 48, 9, 7), {}),
    "odd channels": ((16, 37, 3, 2), (1, 37, 8, 9), {"dilations": [2, 1], "pads": [2, 0, 1, 1]}),
    "groups": ((64, 32, 3, 3), (1, 64, 8, 8), {"group": 2, "pads": [1, 1, 1, 1]}),
    "by channel": ((48, 1, 3, 3), (1, 48, 9, 8), {"group": 48, "pads": [1, 1, 1, 1]}),
    "one dimension": ((32, 16, 5), (1, 16, 40), {"pads": [2, 2]}),
}


@pytest.fixture
def targets() -> Iterator[dict[str, Target]]:
    with pretending() as found:
        yield found


def options(where: str, targets: dict[str, Target]) -> dict[str, Any]:
    """How to compile for a machine that has instructions for bf16, or, everything in it, for one that has none."""
    return {"target": targets[where], "precision": "bf16"} if where in targets else {"target": where, "pipeline": always(where)}


ELSEWHERE = [(HALF_TILES, "3x3"), (HALF_TILES, "odd channels"), (HALF_TILES, "groups"), (PLAIN, "first layer"), (PLAIN, "by channel"), (PLAIN, "3x3")]
LEFT = [(where, name) for where in (HALF_TILES, PLAIN) for name in CONVOLUTIONS if (where, name) not in ELSEWHERE]


@natively_together
@split_by_day(("where", "name"), [*(("bf16", name) for name in CONVOLUTIONS), *ELSEWHERE], LEFT)
def test_a_convolution(name: str, where: str, targets: dict[str, Target]) -> None:
    """Exactly that of the rounded numbers, but for the order of the sums; a convolution by channel keeps its weights."""
    filters, shape, attributes = CONVOLUTIONS[name]
    w, bias, x = floats(*filters, scale=0.2), floats(filters[0]), floats(*shape)
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv", **attributes), helper.make_node("Relu", ["c"], ["y"])]
    used = w if name == "by channel" else rounded(w)
    want = reference(model(nodes, {"w": used, "b": bias}, shape), rounded(x))
    size = reference(model(nodes, {"w": np.abs(used), "b": np.abs(bias)}, shape), np.abs(rounded(x)))
    allowed = 2 * np.finfo(np.float32).eps * (int(np.prod(filters[1:])) + 2) * size

    def judge(got: Arrays) -> None:
        assert (np.abs(got["y"] - want) <= allowed).all()

    check_model(model(nodes, {"w": w, "b": bias}, shape), {"x": x}, judge, threads=[2], **options(where, targets))
    assert np.abs(want - reference(model(nodes, {"w": w, "b": bias}, shape), x)).max() > allowed.max()  # it does round


@natively_together
@pairs({"where": ["bf16", HALF_TILES, PLAIN, "x86-64-v2"], ("rows", "depth", "columns"): [(1, 64, 40), (5, 96, 17), (70, 130, 96), (3, 33, 20)]})
def test_a_product(rows: int, depth: int, columns: int, where: str, targets: dict[str, Target]) -> None:
    w, bias, x = floats(depth, columns, scale=0.2), floats(columns), floats(2, rows, depth)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["a"]), helper.make_node("Tanh", ["a"], ["y"])]
    made = model(nodes, {"w": w, "b": bias}, (2, rows, depth))
    sums = rounded(x).astype(np.float64) @ rounded(w) + bias
    size = np.abs(rounded(x)).astype(np.float64) @ np.abs(rounded(w)) + np.abs(bias)

    def judge(got: Arrays) -> None:
        assert (np.abs(got["y"] - np.tanh(sums)) <= np.finfo(np.float32).eps * (2 * (depth + 2) * size + 8)).all()

    check_model(made, {"x": x}, judge, threads=[2], **options(where, targets))


def network() -> onnx.ModelProto:
    """Convolutions of every kind, a shortcut, a concatenation, poolings, a product."""
    nodes, weights = [], {}

    def op(kind: str, *inputs: str, out: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, list(inputs), [out], name=f"/block/{out}", **attributes))
        return out

    def conv(x: str, out: str, *shape: int, **attributes: Any) -> str:
        weights[f"{out}.w"], weights[f"{out}.b"] = floats(*shape, scale=float(np.prod(shape[1:])) ** -0.5), floats(shape[0], scale=0.1)
        return op("Conv", x, f"{out}.w", f"{out}.b", out=out, **attributes)

    x = op("Relu", conv("x", "stem", 32, 3, 3, 3, strides=[2, 2], pads=[1, 1, 1, 1]), out="s")
    x = op("MaxPool", x, out="pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    y = op("Relu", conv(x, "wide", 64, 32, 1, 1), out="w")
    y = op("Relu", conv(y, "depth", 64, 1, 3, 3, group=64, pads=[1, 1, 1, 1]), out="d")
    x = op("Add", conv(y, "narrow", 32, 64, 1, 1), x, out="sum")
    x = op("Concat", x, op("Sigmoid", conv(x, "side", 16, 32, 3, 3, pads=[1, 1, 1, 1]), out="g"), out="cat", axis=1)
    x = op("Flatten", op("GlobalAveragePool", conv(x, "last", 48, 48, 3, 3, pads=[1, 1, 1, 1]), out="mean"), out="flat")
    weights["fc"] = floats(48, 10, scale=0.2)
    op("MatMul", x, "fc", out="y")
    return model(nodes, weights, (1, 3, 33, 34))


@pytest.fixture(scope="module")
def in_f32() -> tuple[onnx.ModelProto, stepwell.CompiledModel]:
    """A network, and the same compiled with all numbers as they are."""
    made = network()
    return made, stepwell.compile(made)


def test_a_network(in_f32: tuple[onnx.ModelProto, stepwell.CompiledModel]) -> None:
    """Within the error of bf16, and about the same wherever it runs; what lies between kernels, and the weights, have half of the bytes."""
    (made, plain), x = in_f32, floats(1, 3, 33, 34)
    want = plain.run({"x": x})["y"]
    here = stepwell.compile(made, target="x86-64-v3", pipeline=always("x86-64-v3")).run({"x": x})["y"]
    with pretending() as targets:
        narrow = stepwell.compile(made, target=targets["bf16"], precision="bf16", threads=2)
        text = stepwell.lower(made, "graph-opt", target=targets["bf16"], precision="bf16").text()
    there = narrow.run({"x": x})["y"]
    scale = np.abs(want).max()
    assert there.dtype == want.dtype == np.float32
    assert 1e-5 * scale < np.abs(there - want).max() <= 2e-2 * scale
    assert np.abs(there - here).max() <= 4e-3 * scale  # a sum that is off by a rounding may be rounded to the neighbour
    assert narrow.memory.weights_bytes < 0.55 * plain.memory.weights_bytes
    main = text[: text.index("func.func private")]
    calls = [line for line in main.splitlines() if " call @" in line]
    between = [line.rsplit("->", 1)[1] for line in calls if "x4x" in line.rsplit("->", 1)[1] or "x9x" in line.rsplit("->", 1)[1]]
    assert len(between) >= 5
    assert all("bf16" in kind for kind in between[:-1]), between


def test_nodes_that_are_kept(in_f32: tuple[onnx.ModelProto, stepwell.CompiledModel]) -> None:
    """They read and multiply f32, whatever their neighbours do; `--explain` says so."""
    (made, plain), x = in_f32, floats(1, 3, 33, 34)
    with pretending() as targets:
        all_of_it = stepwell.lower(made, "graph-opt", target=targets["bf16"], precision="bf16").text()
        kept = stepwell.lower(made, "graph-opt", target=targets["bf16"], precision="bf16", keep_f32=["/block/side", "*last"]).text()
        none = stepwell.lower(made, "graph-opt", target=targets["bf16"], precision="bf16", keep_f32=["*"]).text()
        assert none == stepwell.lower(made, "graph-opt", target=targets["bf16"]).text()
        y = stepwell.compile(made, target=targets["bf16"], precision="bf16", keep_f32=["*"]).run({"x": x})["y"]
    for text, narrow in ((all_of_it, 5), (kept, 3)):
        filters = [line for line in text.splitlines() if '"graph.parameter"' in line and "bf16>" in line]
        assert len(filters) == narrow + 1, text  # and the product's
    np.testing.assert_allclose(y, plain.run({"x": x})["y"], rtol=1e-4, atol=1e-5)


def test_where_it_does_not_pay() -> None:
    """Without an instruction for bf16 only weights that few rows meet are narrow; nothing else changes."""
    made = network()
    plain, narrow = (stepwell.lower(made, "graph-opt", target="x86-64-v3", precision=p).text() for p in ("f32", "bf16"))
    assert narrow.count("bf16") - plain.count("bf16") > 0
    assert [line for line in narrow.splitlines() if "packed.conv" in line and "bf16" in line] == []


def test_options_that_the_pass_was_given_stay_where_the_precision_is_asked_for() -> None:
    made = network()
    pipeline = stepwell.Pipeline.default().replace("narrow-floats", "narrow-floats{always=true keep=stem}")
    for keep, left in (((), "keep=stem"), (("side",), 'keep="side"')):
        told = pipeline.with_precision("bf16", keep).text
        assert "always=true" in told
        assert "to=bf16" in told
        assert left in told
    rounded = stepwell.lower(made, "graph-opt", target="x86-64-v3", precision="bf16", pipeline=pipeline).text()
    assert rounded != stepwell.lower(made, "graph-opt", target="x86-64-v3", precision="bf16").text()
    assert "xbf16>" in rounded


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"precision": "int3"}, InputError, "one of f32, bf16, got 'int3'"),
        ({"precision": "bf16", "keep_f32": "conv"}, InputError, "sequence of names"),
        ({"precision": "bf16", "pipeline": "graph-opt(fold-constants)"}, PipelineError, "narrow-floats"),
    ],
)
def test_what_is_refused(given: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        stepwell.compile(network(), **given)


def always(target: str) -> stepwell.Pipeline:
    return stepwell.Pipeline.default(target).replace("narrow-floats", ALWAYS)


def reference(made: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


def test_what_networks_round_themselves_keeps_subnormal_numbers() -> None:
    """The instruction that rounds gives zero for these: only what `precision` rounds may be rounded by it, on whatever machine this runs."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["r"]),
        helper.make_node("Cast", ["r"], ["c"], to=TensorProto.BFLOAT16), helper.make_node("Cast", ["c"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["f", "w"], ["y"]),
    ]  # fmt: skip
    made = model(nodes, {"w": floats(64, 64)}, (20, 64))
    for precision, there in (("f32", False), ("bf16", True)):
        text = stepwell.lower(made, "llvm", target="x86-64-v4-bf16", precision=precision).text()
        assert ("cvtneps2bf16" in text) == there
