"""Mish, natively: the rational form of tanh(softplus(x)) is right to a few units in the last place, wherever x is."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

import stepwell
from stepwell.dialects.core.types import to_numpy

ONNX_TYPES = {"f16": onnx.TensorProto.FLOAT16, "f32": onnx.TensorProto.FLOAT, "f64": onnx.TensorProto.DOUBLE}


def model(dtype: str, operators: tuple[str, ...], count: int) -> onnx.ModelProto:
    """`x` times what the operators, one after the other, make of it; for none, Mish itself."""
    names = ["x", *(f"v{i}" for i in range(len(operators)))]
    nodes = [helper.make_node(operator, [a], [b]) for operator, a, b in zip(operators, names, names[1:], strict=False)]
    nodes.append(helper.make_node("Mul", ["x", names[-1]], ["y"]) if operators else helper.make_node("Mish", ["x"], ["y"]))
    x, y = (helper.make_tensor_value_info(name, ONNX_TYPES[dtype], [count]) for name in "xy")
    return helper.make_model(helper.make_graph(nodes, "mish", [x], [y]), opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


@pytest.mark.parametrize("operators", [(), ("Softplus", "Tanh")], ids=["mish", "exported"])
@pytest.mark.parametrize("dtype", ONNX_TYPES)
def test_relative_error(dtype: str, operators: tuple[str, ...]) -> None:
    kind = to_numpy(dtype)
    edges = [0.0, -0.0, 1e-30, -1e-30, 19.9, 20.0, 20.1, 44.5, 88.9, -87.4, 3e4, -3e4, np.inf, np.nan]
    x = np.concatenate([edges, np.random.default_rng(5).uniform(-14 if dtype == "f16" else -80, 30, 4001)]).astype(kind)
    (y,) = stepwell.compile(model(dtype, operators, x.size)).run({"x": x}).values()
    # tanh(log(u)) = (u^2 - 1) / (u^2 + 1) in digits to spare, without the cancellation in u^2 - 1
    wide = x.astype(np.longdouble)
    e = np.exp(np.minimum(wide, 100))
    quotient = e * (e + 2) / (e * (e + 2) + 2)
    expected = wide * quotient
    assert np.isnan(y[len(edges) - 1])
    assert y[len(edges) - 2] == np.inf
    least = 4 * float(ml_dtypes.finfo(kind).smallest_normal)
    finite = np.isfinite(expected) & (np.abs(expected) >= least) & (quotient >= least)
    # An exponential of 1.1 and four roundings behind it; f16 rounds the quotient and the product.
    limit = 6 * float(ml_dtypes.finfo(kind).eps) / 2 if dtype != "f16" else 2.1 * float(ml_dtypes.finfo(kind).eps) / 2
    assert np.max(np.abs(y[finite] - expected[finite]) / np.abs(expected[finite])) <= limit
    np.testing.assert_allclose(y[:4].astype(float), expected[:4].astype(float), rtol=1e-2, atol=float(ml_dtypes.finfo(kind).smallest_subnormal))
