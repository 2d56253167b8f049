"""Networks of f16 and bf16 that are computed in f32 from their first convolution on, natively: rounded at their ends, and nowhere between."""

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import stepwell

RNG = np.random.default_rng(59)
TYPES = {"f16": (np.dtype(np.float16), TensorProto.FLOAT16), "bf16": (np.dtype(ml_dtypes.bfloat16), TensorProto.BFLOAT16)}


def model(
    nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray], inputs: dict[str, tuple[Any, ...]], outputs: list[str], kind: int
) -> onnx.ModelProto:
    sides = [helper.make_tensor_value_info(n, kind, s) for n, s in inputs.items()], [helper.make_tensor_value_info(n, kind, None) for n in outputs]
    graph = helper.make_graph(nodes, "g", *sides, [numpy_helper.from_array(a, n) for n, a in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


def values(dtype: np.dtype, *shape: int, scale: float = 1.0) -> np.ndarray:
    """Numbers of a narrow type, in f32."""
    return np.asarray(RNG.normal(size=shape) * scale + 0.1 * scale).astype(dtype).astype(np.float32)


def network(dtype: np.dtype, kind: int) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """Convolutions, a normalisation, activations, a shortcut, a concatenation, poolings and a product of many rows, in a narrow type and in f32."""
    nodes, weights = [], {}

    def op(name: str, *inputs: str, out: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(name, list(inputs), [out], **attributes))
        return out

    def conv(x: str, out: str, *shape: int, **attributes: Any) -> str:
        weights[f"{out}.w"], weights[f"{out}.b"] = values(dtype, *shape, scale=float(np.prod(shape[1:])) ** -0.5), values(dtype, shape[0], scale=0.1)
        return op("Conv", x, f"{out}.w", f"{out}.b", out=out, **attributes)

    stem = conv("x", "stem", 24, 3, 3, 3, strides=[2, 2], pads=[1, 1, 1, 1])
    weights |= {name: np.abs(values(dtype, 24)) for name in ("scale", "mean", "variance")}
    x = op("Relu", op("BatchNormalization", stem, "scale", "stem.b", "mean", "variance", out="n"), out="s")
    x = op("MaxPool", x, out="pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    y = op("Relu", conv(op("Relu", conv(x, "wide", 40, 24, 1, 1), out="w"), "depth", 40, 1, 3, 3, group=40, pads=[1, 1, 1, 1]), out="d")
    x = op("Add", conv(y, "narrow", 24, 40, 1, 1), x, out="sum")
    x = op("Concat", x, op("Sigmoid", conv(x, "side", 16, 24, 3, 3, pads=[1, 1, 1, 1]), out="g"), out="cat", axis=1)
    weights["rows"], weights["m"] = np.array([0, 40, 64], np.int64), values(dtype, 40, 12, scale=0.2)
    x = op("Transpose", op("Reshape", x, "rows", out="r"), out="t", perm=[0, 2, 1])
    op("MatMul", x, "m", out="y")
    narrow = {n: a if a.dtype == np.int64 else a.astype(dtype) for n, a in weights.items()}
    inputs = {"x": (1, 3, 32, 32)}
    return model(nodes, narrow, inputs, ["y"], kind), model(nodes, weights, inputs, ["y"], TensorProto.FLOAT)


@pytest.mark.parametrize("name", TYPES)
def test_a_network_is_rounded_at_its_ends(name: str) -> None:
    dtype, kind = TYPES[name]
    made, same = network(dtype, kind)
    x = values(dtype, 1, 3, 32, 32)
    got = stepwell.compile(made, threads=2).run({"x": x.astype(dtype)})["y"]
    want = stepwell.compile(same).run({"x": x})["y"]
    np.testing.assert_allclose(want, onnxruntime.InferenceSession(same.SerializeToString()).run(None, {"x": x})[0], rtol=1e-4, atol=1e-5)
    assert got.dtype == dtype
    eps = float(ml_dtypes.finfo(dtype).eps)
    assert (np.abs(got.astype(np.float32) - want) <= eps / 2 * np.abs(want) + 1e-5 * np.abs(want).max()).all()
    if name == "f16":  # what tells rounding at the ends from rounding after each op is the same for both types
        apart = stepwell.compile(made, disable=["widen-halves"]).run({"x": x.astype(dtype)})["y"].astype(np.float32)
        assert np.abs(apart - want).max() > eps / 2 * np.abs(want).max()  # rounded after each op, it is further off
    text = stepwell.lower(made, "graph-opt").text()
    calls = [line.rsplit("->", 1)[1] for line in text[: text.index("func.func private")].splitlines() if " call @" in line]
    assert len(calls) > 5
    assert [kind for kind in calls[:-2] if f"x{name}" in kind.split(" loc")[0]] == []


def test_what_stays_in_half() -> None:
    """Weights of products that wait for memory; what only moves elements, unless it moves what is computed in f32."""
    dtype, kind = TYPES["f16"]
    nodes = [helper.make_node("MatMul", ["x", "m"], ["n"]), helper.make_node("Concat", ["past", "n"], ["present"], axis=1)]
    nodes += [helper.make_node("Transpose", ["present"], ["t"], perm=[0, 2, 1]), helper.make_node("MatMul", ["n", "t"], ["y"])]
    weights = {"m": values(dtype, 64, 48, scale=0.2).astype(dtype)}
    for rows in (1, 20):
        made = model(nodes, weights, {"x": (1, rows, 64), "past": (1, 30, 48)}, ["present", "y"], kind)
        text = stepwell.lower(made, "graph-opt").text()
        cache = [line for line in text.splitlines() if "1x30x48" in line or f"1x{30 + rows}x48" in line]
        assert cache
        assert not any(f"{size}x48xf32" in line for line in cache for size in (30, 30 + rows))
        compiled = stepwell.compile(made)
        assert (compiled.memory.weights_bytes < 1.5 * 64 * 48 * 2) == (rows == 1)
        x, past = values(dtype, 1, rows, 64).astype(dtype), values(dtype, 1, 30, 48).astype(dtype)
        got = compiled.run({"x": x, "past": past})
        new = x.astype(np.float64) @ weights["m"].astype(np.float64)
        np.testing.assert_allclose(got["present"], np.concatenate([past.astype(np.float64), new], axis=1), rtol=2e-3, atol=2e-2)
        assert got["present"].dtype == got["y"].dtype == dtype
    limited = stepwell.Pipeline.default().replace("widen-halves", "widen-halves{max-bytes=1000}")
    assert stepwell.compile(made, pipeline=limited).memory.weights_bytes < 1.5 * 64 * 48 * 2


def test_a_cast_of_the_model_rounds() -> None:
    """What it casts to half is rounded, though a convolution in f32 reads it; what it casts from half is the number itself."""
    dtype, kind = TYPES["f16"]
    w = values(dtype, 16, 8, 1, 1)
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=kind), helper.make_node("Conv", ["h", "w"], ["c"]), helper.make_node("Cast", ["c"], ["y"], to=1)
    ]  # fmt: skip
    made = model(nodes, {"w": w.astype(dtype)}, {"x": (1, 8, 5, 6)}, ["y"], TensorProto.FLOAT)
    x = RNG.normal(size=(1, 8, 5, 6)).astype(np.float32)
    got = stepwell.compile(made).run({"x": x})["y"]
    exact = np.einsum("nchw,mc->nmhw", x.astype(dtype).astype(np.float64), w[:, :, 0, 0].astype(np.float64))
    np.testing.assert_allclose(got, exact, rtol=1e-5, atol=1e-5)
    assert np.abs(np.einsum("nchw,mc->nmhw", x, w[:, :, 0, 0]) - exact).max() > 1e-4
