"""Native results against the network in f64: deep chains of normalisations, halves, casts that round, integers, control flow."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from commands import DIGITS
from onnx import TensorProto, helper, numpy_helper

import stepwell
from stepwell.analysis.compare import OutputCheck, compare, ulp
from stepwell.dialects.support.errors import InputError

DEPTH = 105
RANDOM = np.random.default_rng(3)


def model(nodes: list[onnx.NodeProto], inputs: dict[str, tuple[int, list[int]]], kind: int, arrays: dict[str, np.ndarray]) -> onnx.ModelProto:
    sides = [helper.make_tensor_value_info(name, *info) for name, info in inputs.items()], [helper.make_tensor_value_info("y", kind, None)]
    graph = helper.make_graph(nodes, "net", *sides, [numpy_helper.from_array(array, name) for name, array in arrays.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def checks(network: onnx.ModelProto, **inputs: np.ndarray) -> tuple[OutputCheck, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The check of `y`, native outputs, and those in f64."""
    native = stepwell.compile(network, threads=1, target="x86-64-v3").run(inputs)
    lowered = stepwell.lower(network, "graph")
    [found] = stepwell.compare_with_f64(lowered, inputs, native)
    return found, native, stepwell.interpret(lowered, inputs, f64=True)


def normalisations(depth: int, channels: int) -> tuple[onnx.ModelProto, np.ndarray, np.ndarray, np.ndarray]:
    """A chain of batch normalisations, its input, what it gives in numpy's f64, and the sum of magnitudes of all terms that it is made of."""
    x = RANDOM.standard_normal((2, channels, 5, 3)).astype(np.float32)
    nodes, arrays, name = [], {}, "x"
    value, magnitude = x.astype(np.float64), np.abs(x.astype(np.float64))
    for i in range(depth):
        bias, mean = RANDOM.standard_normal((2, channels))
        drawn = RANDOM.uniform(0.6, 1.6, channels), bias, mean, RANDOM.uniform(0.5, 1.5, channels)
        names = [f"{what}{i}" for what in ("scale", "bias", "mean", "var")]
        given = [array.astype(np.float32) for array in drawn]
        arrays |= dict(zip(names, given, strict=True))
        nodes.append(helper.make_node("BatchNormalization", [name, *names], [name := "y" if i == depth - 1 else f"t{i}"], epsilon=0.0))
        scale, bias, mean, var = (array.astype(np.float64)[:, None, None] for array in given)
        value = (value - mean) / np.sqrt(var) * scale + bias
        magnitude = (magnitude + np.abs(mean)) / np.sqrt(var) * scale + np.abs(bias)
    return model(nodes, {"x": (TensorProto.FLOAT, list(x.shape))}, TensorProto.FLOAT, arrays), x, value, magnitude


def test_a_deep_chain_of_normalisations_is_as_close_as_its_terms_allow() -> None:
    """Four roundings for each of the layers, of the magnitudes that go into them; the reference agrees with numpy to f64's own rounding."""
    network, x, want, magnitude = normalisations(DEPTH, 6)
    found, native, exact = checks(network, x=x)
    f64 = np.finfo(np.float64).eps
    assert (np.abs(exact["y"] - want) <= 8 * DEPTH * f64 * magnitude).all()
    error = np.abs(native["y"].astype(np.float64) - exact["y"])
    assert (error <= 4 * DEPTH * np.finfo(np.float32).eps * magnitude).all()
    assert found.scale_rel == pytest.approx(error.max() / np.abs(exact["y"]).max())
    assert found.ulps == pytest.approx((error / np.spacing(np.abs(exact["y"]).astype(np.float32))).max(), rel=1e-3)
    assert found.ulps > 1, "or the chain would tell nothing"
    assert "ULP" in str(found)


@pytest.mark.parametrize(("kind", "dtype"), [(TensorProto.FLOAT16, np.float16), (TensorProto.BFLOAT16, ml_dtypes.bfloat16)])
def test_halves_are_compared_in_their_own_ulp(kind: int, dtype: type) -> None:
    """A softmax of a product: results below 1, whose rounding to halves is half an ULP, and that of the product before it a few."""
    w = RANDOM.standard_normal((16, 8)).astype(dtype)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Softmax", ["p"], ["y"])]
    x = RANDOM.standard_normal((3, 16)).astype(dtype)
    found, native, exact = checks(model(nodes, {"x": (kind, [3, 16])}, kind, {"w": w}), x=x)
    product = x.astype(np.float64) @ w.astype(np.float64)
    powers = np.exp(product - product.max(-1, keepdims=True))
    np.testing.assert_allclose(exact["y"], powers / powers.sum(-1, keepdims=True), rtol=1e-12)
    assert native["y"].dtype == dtype
    assert exact["y"].dtype == np.float64
    assert 0.1 < found.ulps < 1 + 4 * np.abs(product).max()
    assert found.ok


def test_casts_that_are_nodes_round_and_integers_are_exact() -> None:
    x = RANDOM.standard_normal((64,)).astype(np.float32)
    cast = [helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16), helper.make_node("Cast", ["h"], ["y"], to=TensorProto.FLOAT)]
    found, _, exact = checks(model(cast, {"x": (TensorProto.FLOAT, [64])}, TensorProto.FLOAT, {}), x=x)
    np.testing.assert_array_equal(exact["y"], x.astype(np.float16).astype(np.float64))
    assert (found.scale_rel, found.ulps) == (0, 0)
    a, b = (RANDOM.integers(-128, 128, shape).astype(np.int8) for shape in ((5, 40), (40, 7)))
    product = [helper.make_node("MatMulInteger", ["a", "b"], ["y"])]
    found, native, exact = checks(model(product, {"a": (TensorProto.INT8, [5, 40])}, TensorProto.INT32, {"b": b}), a=a)
    assert exact["y"].dtype == native["y"].dtype == np.int32
    assert (found.max_abs, found.tolerance, found.ulps, found.ok) == (0, 0, None, True)


def test_quantised_layers_loops_and_random_numbers_have_a_meaning_in_f64() -> None:
    scale, zero = np.array(0.05, np.float32), np.array(3, np.uint8)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]), helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("RandomUniformLike", ["x"], ["r"], seed=3.0), helper.make_node("Add", ["d", "r"], ["y"]),
    ]  # fmt: skip
    x = RANDOM.uniform(-1, 5, (40,)).astype(np.float32)
    found, _, _ = checks(model(nodes, {"x": (TensorProto.FLOAT, [40])}, TensorProto.FLOAT, {"s": scale, "z": zero}), x=x)
    assert found.ulps <= 4
    body = helper.make_graph(
        [helper.make_node("Mul", ["c", "c"], ["m"]), helper.make_node("Add", ["m", "x"], ["n"]), helper.make_node("Identity", ["go"], ["on"])],
        "body", [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("go", TensorProto.BOOL, []),
                 helper.make_tensor_value_info("c", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []), helper.make_tensor_value_info("n", TensorProto.FLOAT, [4])],
    )  # fmt: skip
    looped = model(
        [helper.make_node("Loop", ["count", "", "x"], ["y"], body=body)],
        {"x": (TensorProto.FLOAT, [4]), "count": (TensorProto.INT64, [])}, TensorProto.FLOAT, {},
    )  # fmt: skip
    x = RANDOM.uniform(-0.4, 0.2, (4,)).astype(np.float32)
    found, _, exact = checks(looped, x=x, count=np.array(5))
    value = x.astype(np.float64)
    for _ in range(5):
        value = value * value + x
    np.testing.assert_allclose(exact["y"], value, rtol=1e-12)
    assert found.ulps < 40


def test_overflow_of_the_type_of_an_output_is_no_error_and_other_infinities_are() -> None:
    [over] = compare({"y": np.array([np.inf, 2], np.float16)}, {"y": np.array([7e4, 2.0])}, f64=True)
    assert (over.max_abs, over.ulps) == (0, 0)
    [wrong] = compare({"y": np.array([np.inf, 2], np.float16)}, {"y": np.array([6e4, 2.0])}, f64=True)
    assert not wrong.ok
    [other] = compare({"y": np.array([1], np.float32)}, {"y": np.array([1.0])})
    assert other.problem == "expected float64[1], got float32[1]"
    for dtype in (np.float16, ml_dtypes.bfloat16, np.float32):
        numbers = np.array([1.0, 1.5, 3.0, 2.0**-13])
        following = np.nextafter(numbers.astype(dtype), np.array(np.inf, dtype)).astype(np.float64)
        np.testing.assert_array_equal(ulp(numbers, np.dtype(dtype)), following - numbers)


def test_levels_below_graph_have_no_f64() -> None:
    lowered = stepwell.lower(str(DIGITS), "linalg", shapes={"image": (1, 1, 8, 8)})
    with pytest.raises(InputError, match="IR at level linalg cannot be evaluated in f64; the levels that can are: graph, graph-opt"):
        stepwell.interpret(lowered, {"image": np.zeros((1, 1, 8, 8), np.float32)}, f64=True)
