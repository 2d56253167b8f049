"""Random operators in native code: their statistics, and that a seed says which numbers come."""

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from importing import floats, model, node
from onnx import TensorProto

import stepwell

COUNT = (61, 53, 31)  # a hundred thousand numbers: means are right to about 1/300 of a standard deviation
DTYPES = [
    (TensorProto.FLOAT, np.float32), (TensorProto.DOUBLE, np.float64), (TensorProto.FLOAT16, np.float16), (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
]  # fmt: skip


def drawn(op: str, kind: Any, /, inputs: dict[str, np.ndarray] | None = None, opset: int = 22, **attributes: Any) -> np.ndarray:
    inputs = inputs or {}
    proto = model([node(op, list(inputs), **attributes)], inputs, {"y": np.zeros((1,) * (2 if op == "Multinomial" else 3), kind)}, opset=opset)
    computed = stepwell.Pipeline.default().remove("graph-opt/fold-constants#1")  # by code, not as data of the model
    first, again = (stepwell.compile(proto, pipeline=p).run(inputs)["y"] for p in (None, computed))
    eps = float(ml_dtypes.finfo(kind).eps) if first.dtype.kind in "fV" else 0.0
    np.testing.assert_allclose(first.astype(np.float64), again.astype(np.float64), rtol=8 * eps, atol=8 * eps)
    assert first.dtype == kind
    return np.asarray(first)


def check_moments(values: np.ndarray, mean: float, deviation: float, rounding: float) -> None:
    wide = values.astype(np.float64)
    error = 5 * deviation / math.sqrt(wide.size) + rounding
    assert abs(wide.mean() - mean) < error
    assert abs(wide.std() - deviation) < error
    for axis in range(wide.ndim):  # neighbours know nothing of each other
        ahead, behind = (np.take(wide - mean, range(i, wide.shape[axis] - 1 + i), axis=axis).ravel() for i in range(2))
        assert abs(np.mean(ahead * behind)) < 6 * deviation**2 / math.sqrt(ahead.size) + rounding


@pytest.mark.parametrize(("number", "dtype"), DTYPES)
def test_uniform(number: int, dtype: Any) -> None:
    y = drawn("RandomUniform", dtype, shape=COUNT, dtype=number, low=-1.0, high=3.0, seed=7.0)
    assert y.shape == COUNT
    assert y.min() >= -1
    assert y.max() <= 3
    eps = float(ml_dtypes.finfo(dtype).eps)
    check_moments(y, 1, 4 / math.sqrt(12), 2 * eps)
    parts = np.histogram(y.astype(np.float64), bins=8, range=(-1, 3))[0] / y.size
    assert np.abs(parts - 1 / 8).max() < 0.006


@pytest.mark.parametrize(("number", "dtype"), DTYPES)
def test_normal(number: int, dtype: Any) -> None:
    y = drawn("RandomNormal", dtype, shape=COUNT, dtype=number, mean=-2.0, scale=0.5, seed=7.0)
    check_moments(y, -2, 0.5, 2 * float(ml_dtypes.finfo(dtype).eps))
    far = np.abs(y.astype(np.float64) + 2) / 0.5
    for sigmas in (1, 2, 3):
        assert abs(np.mean(far < sigmas) - math.erf(sigmas / math.sqrt(2))) < 0.01
    assert 3.5 < far.max() < 7


@pytest.mark.parametrize("op", ["RandomUniformLike", "RandomNormalLike"])
def test_like_an_operand(op: str) -> None:
    y = drawn(op, np.float64, {"x": np.zeros((2, 3, 4), np.int32)}, dtype=TensorProto.DOUBLE)
    assert y.shape == (2, 3, 4)
    assert len(np.unique(y)) == y.size
    assert drawn(op, np.float16, {"x": np.zeros((2, 3, 4), np.float16)}).dtype == np.float16


def test_seeds_and_nodes_have_numbers_of_their_own() -> None:
    seeds: list[dict[str, Any]] = [{}, {}, {"seed": 1.0}, {"seed": 2.0}, {"seed": 1.0}]
    nodes = [node("RandomUniform", [], [f"y{i}"], name=f"n{i}", shape=(8,), **seed) for i, seed in enumerate(seeds)]
    got = list(stepwell.compile(model(nodes, {}, {f"y{i}": floats(8) for i in range(5)})).run({}).values())
    assert len({tuple(y) for y in got}) == 4
    np.testing.assert_array_equal(got[2], got[4])


@pytest.mark.parametrize("number", [TensorProto.FLOAT, TensorProto.BOOL, TensorProto.UINT8, TensorProto.INT64])
def test_bernoulli(number: int) -> None:
    kind = {TensorProto.FLOAT: np.float32, TensorProto.BOOL: np.bool_, TensorProto.UINT8: np.uint8, TensorProto.INT64: np.int64}[number]
    p = np.broadcast_to(np.array([0.0, 0.1, 0.5, 0.9, 1.0], np.float32), (100, 100, 5)).copy()
    y = drawn("Bernoulli", kind, {"x": p}, dtype=number, seed=1.0)
    assert set(np.unique(y)) <= {0, 1}
    assert np.abs(y.mean(axis=(0, 1)) - p[0, 0]).max() < 0.02
    assert (y.mean(axis=(0, 1))[[0, 4]] == [0, 1]).all()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_multinomial(dtype: Any) -> None:
    p = np.array([[0.1, 0.2, 0.0, 0.7], [0.25, 0.25, 0.25, 0.25]])
    with np.errstate(divide="ignore"):
        logs = np.log(p * 3).astype(np.float32)  # any multiple of the probabilities
    number = TensorProto.INT32 if dtype == np.int32 else TensorProto.INT64
    y = drawn("Multinomial", dtype, {"x": logs}, sample_size=20000, dtype=number, seed=5.0)
    assert y.shape == (2, 20000)
    parts = np.stack([np.bincount(row, minlength=4) for row in y]) / 20000
    assert np.abs(parts - p).max() < 0.02
    assert parts[0, 2] == 0
