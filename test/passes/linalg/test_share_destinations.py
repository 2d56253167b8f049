"""Softmax, whose powers are computed where its result goes: values on one thread and on two, for rows of many lengths and special values."""

import numpy as np
import onnx
from every import every
from native_checks import Arrays, check_model, natively_together
from onnx import TensorProto, helper

import stepwell


def softmax_model(shape: tuple[int, ...], axis: int, dtype: int, op: str = "Softmax") -> onnx.ModelProto:
    """A model of one Softmax, or LogSoftmax."""
    x, y = (helper.make_tensor_value_info(name, dtype, shape) for name in "xy")
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], axis=axis)], "softmax", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9)


@natively_together
@every("dtype", [TensorProto.FLOAT, TensorProto.FLOAT16])
@every(("shape", "axis"), [((8, 5003), -1), ((2, 3, 96, 97), -1), ((1, 7, 33), 1), ((3, 1), 1), ((1, 1000), 1)])
def test_softmax(shape: tuple[int, ...], axis: int, dtype: int) -> None:
    kind = np.float32 if dtype == TensorProto.FLOAT else np.float16
    data = (np.random.default_rng(7).standard_normal(shape) * 4).astype(kind)
    exact = np.exp(data.astype(np.float64) - data.astype(np.float64).max(axis, keepdims=True))
    exact /= exact.sum(axis, keepdims=True)
    # An argument of exp is rounded by a part of 2^-24 of itself, which is a relative error of the result.
    rtol, atol = (2e-6 + 2.0**-24 * np.ptp(data), 0) if kind == np.float32 else (2.0**-10, 2.0**-24)

    def judge(got: Arrays) -> None:
        np.testing.assert_allclose(got["y"].astype(np.float64), exact, rtol=rtol, atol=atol)

    check_model(softmax_model(shape, axis, dtype), {"x": data}, judge, threads=(1, 2))


def test_more_than_a_cache_holds() -> None:
    """Rows are asked for before they are computed, the last of them for what lies behind."""
    data = np.random.default_rng(5).standard_normal((5000, 384)).astype(np.float32)
    exact = np.exp(data.astype(np.float64) - data.astype(np.float64).max(1, keepdims=True))
    exact /= exact.sum(1, keepdims=True)
    compiled = stepwell.compile(softmax_model(data.shape, 1, TensorProto.FLOAT))
    for threads in (1, 2):
        compiled.threads = threads
        np.testing.assert_allclose(compiled.run({"x": data})["y"], exact, rtol=2e-6)


@natively_together
@every("length", [5, 70, 1003])
@every("axis", [0, 1])
@every("op", ["Softmax", "LogSoftmax"])
def test_special_values(op: str, axis: int, length: int) -> None:
    """A row with a NaN or an infinity is NaN where C's arithmetic says so, and the rows beside it are not."""
    data = np.random.default_rng(3).standard_normal((9, length)).astype(np.float32)
    data[0, 1], data[1, 2], data[2, 3], data[3, 4], data[4], data[5] = np.nan, np.inf, -np.inf, -1e30, -np.inf, np.nan
    data[6, 0], data[7, -1], data[7, 0] = np.nan, np.nan, np.inf
    with np.errstate(invalid="ignore", divide="ignore"):
        below = data.astype(np.float64) - data.astype(np.float64).max(1, keepdims=True)
        total = np.exp(below).sum(1, keepdims=True)
        exact = np.exp(below) / total if op == "Softmax" else below - np.log(total)
    given = np.ascontiguousarray(data if axis else data.T)

    def judge(got: Arrays) -> None:
        np.testing.assert_allclose(got["y"] if axis else got["y"].T, exact, rtol=2e-6, atol=0 if op == "Softmax" else 2e-6)

    check_model(softmax_model(given.shape, axis, TensorProto.FLOAT, op), {"x": given}, judge, threads=[1])


def test_no_scratch_for_the_powers() -> None:
    """The kernel needs memory for a number of each row at most."""
    lowered = stepwell.lower(softmax_model((8, 5003), 1, TensorProto.FLOAT), "affine")
    assert lowered.info.workspace_bytes < 4 * 5003
