"""Convolutions of bytes as matrix products, natively: exact for every window and zero point, with weights that are known and that are not."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import stepwell
from stepwell.dialects.target.host import host

RNG = np.random.default_rng(37)
HAS_INTRINSICS = "avx2" in host().features


def draw(dtype: Any, *shape: int) -> np.ndarray:
    """Random integers with the extremes among them."""
    limits = np.iinfo(dtype)
    values = np.asarray(RNG.integers(limits.min, limits.max + 1, shape)).astype(dtype)
    values.flat[:: max(1, values.size // 7)] = RNG.choice([limits.min, limits.max])
    return values


def model(inputs: dict[str, np.ndarray], weights: dict[str, np.ndarray], names: list[str], attributes: dict[str, Any]) -> onnx.ModelProto:
    single = helper.make_node("ConvInteger", names, ["y"], **attributes)
    sides = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in inputs.items()]
    out = [helper.make_tensor_value_info("y", TensorProto.INT32, None)]
    graph = helper.make_graph([single], "g", sides, out, [numpy_helper.from_array(a, n) for n, a in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def convolved(x: np.ndarray, w: np.ndarray, attributes: dict[str, Any]) -> np.ndarray:
    """Through ONNX's evaluator in f64, in which sums of products of nine bits are exact."""
    single = helper.make_node("Conv", ["x", "w"], ["y"], **attributes)
    sides = [helper.make_tensor_value_info(n, TensorProto.DOUBLE, None) for n in ("x", "w")]
    graph = helper.make_graph([single], "g", sides, [helper.make_tensor_value_info("y", TensorProto.DOUBLE, None)])
    [y] = ReferenceEvaluator(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])).run(None, {"x": x, "w": w})
    return np.asarray(y).astype(np.int64).astype(np.int32)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("kinds", [(np.uint8, np.int8), (np.int8, np.uint8)])
@pytest.mark.parametrize(
    ("shape", "filters", "attributes"),
    [
        ((2, 17, 7, 6), (5, 17, 1, 1), {}),
        ((1, 16, 7, 6), (33, 16, 3, 2), {"pads": [1, 0, 2, 1]}),
        ((2, 20, 9, 8), (7, 20, 3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 3], "dilations": [2, 1]}),
        ((1, 19, 11), (4, 19, 3), {"strides": [2]}),
        ((1, 16, 4, 5, 3), (6, 16, 2, 2, 2), {"pads": [0, 1, 0, 1, 0, 0]}),
    ],
)
def test_convolutions(shape: tuple[int, ...], filters: tuple[int, ...], attributes: dict[str, Any], kinds: tuple[Any, Any], known: bool) -> None:
    x, w, zeros = draw(kinds[0], *shape), draw(kinds[1], *filters), {"a": draw(kinds[0]), "b": draw(kinds[1])}
    want = convolved(x.astype(np.float64) - zeros["a"], w.astype(np.float64) - zeros["b"], attributes)
    inputs, weights = ({"x": x}, {"w": w, **zeros}) if known else ({"x": x, "w": w}, zeros)
    made = model(inputs, weights, ["x", "w", "a", "b"], attributes)
    np.testing.assert_array_equal(stepwell.compile(made, threads=2).run(inputs)["y"], want)
    kernels = stepwell.lower(made, "graph-opt").text()
    assert ('matmul"' in kernels, '"graph.conv"' in kernels) == ((True, False) if HAS_INTRINSICS else (False, True))


@pytest.mark.parametrize("case", ["few channels", "groups", "zero point of an input", "no intrinsic", "zero points of filters"])
def test_what_stays_a_convolution(case: str) -> None:
    channels = 12 if case == "few channels" else 32
    x, w = draw(np.uint8, 1, channels, 6, 7), draw(np.int8, 8, channels // 2 if case == "groups" else channels, 3, 3)
    b = np.arange(-3, 5, dtype=np.int8) if case == "zero points of filters" else draw(np.int8)
    attributes = {"pads": [1, 1, 1, 1], **({"group": 2} if case == "groups" else {})}
    inputs = {"x": x, **({"w": w} if case == "zero points of filters" else {})}
    weights = {"w": w, "a": np.uint8(113), "b": b}
    weights = {name: np.asarray(array) for name, array in weights.items() if name not in inputs}
    if case == "zero point of an input":
        inputs["a"] = weights.pop("a")
    want = convolved(x.astype(np.float64) - 113, w.astype(np.float64) - b.reshape(-1, 1, 1, 1), attributes)
    made, target = model(inputs, weights, ["x", "w", "a", "b"], attributes), "x86-64-v2" if case == "no intrinsic" else "host"
    np.testing.assert_array_equal(stepwell.compile(made, target=target).run(inputs)["y"], want)
    assert '"graph.matmul"' not in stepwell.lower(made, "graph-opt", target=target).text()


@pytest.mark.parametrize("scales", ["one", "by channel", "by column"])
def test_element_wise_ops_that_follow(scales: str) -> None:
    """They are computed in the product's kernel as far as bytes, before these are transposed; but not where an operand differs along a row."""
    x, w = draw(np.uint8, 1, 16, 5, 6), draw(np.int8, 9, 16, 3, 3)
    scale = RNG.uniform(1e-4, 3e-4, {"one": (1, 1, 1), "by channel": (9, 1, 1), "by column": (6,)}[scales]).astype(np.float32)
    nodes = [
        helper.make_node("ConvInteger", ["x", "w", "zero"], ["a"], pads=[1, 1, 1, 1]), helper.make_node("Cast", ["a"], ["b"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["b", "scale"], ["c"]), helper.make_node("QuantizeLinear", ["c", "unit", "zero"], ["d"]),
        helper.make_node("Cast", ["d"], ["e"], to=TensorProto.INT32), helper.make_node("Add", ["e", "one"], ["y"]),
    ]  # fmt: skip
    weights = {"w": w, "zero": np.uint8(120), "scale": scale, "unit": np.float32(0.5), "one": np.int32(1)}
    sides = [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)], [helper.make_tensor_value_info("y", TensorProto.INT32, None)]
    graph = helper.make_graph(nodes, "g", *sides, [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    sums = convolved(x.astype(np.float64) - 120, w.astype(np.float64), {"pads": [1, 1, 1, 1]})
    steps = sums.astype(np.float32) * scale / np.float32(0.5)
    got = stepwell.compile(made, threads=2).run({"x": x})["y"]
    np.testing.assert_array_less(np.abs(got - 1 - np.clip(120 + steps, 0, 255)), 0.5 + 1e-4)
    transposed = [line for line in stepwell.lower(made, "graph-opt").text().splitlines() if '"graph.transpose"' in line]
    if HAS_INTRINSICS:
        assert transposed[-1].partition(": (")[2].startswith("tensor<1x5x6x9xf32>" if scales == "by column" else "tensor<1x5x6x9xui8>")
