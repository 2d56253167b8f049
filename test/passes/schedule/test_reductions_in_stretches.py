"""Reductions over the rows of matrices that fill the caches, compiled: rows are read a few at a time, and what is folded so far waits in memory."""

import numpy as np
import onnx
from every import every
from native_checks import Arrays, check_model, natively_together
from onnx import helper

import stepwell

RNG = np.random.default_rng(17)


def model_of(op: str, data: np.ndarray, axis: int) -> onnx.ModelProto:
    """A model of one reduction along `axis`, which disappears."""
    kind = helper.np_dtype_to_tensor_dtype(data.dtype)
    shape = [size for i, size in enumerate(data.shape) if i != axis]
    x, y = helper.make_tensor_value_info("x", kind, data.shape), helper.make_tensor_value_info("y", kind, shape)
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], axes=[axis], keepdims=0)], "reduction", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=9)


@natively_together
@every(("shape", "axis"), [((64, 16384), 0), ((67, 9001), 0), ((5, 97, 1003), 1)])
@every("op", ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2"])
def test_reductions(op: str, shape: tuple[int, ...], axis: int) -> None:
    data = RNG.standard_normal(shape).astype(np.float32)
    if op in ("ReduceMax", "ReduceMin"):
        data[..., 3, 7], data[..., -1, -1], data[..., 0, 5] = np.nan, np.nan, np.inf
    wide = data.astype(np.float64)
    exact = {
        "ReduceSum": lambda: wide.sum(axis), "ReduceMean": lambda: wide.mean(axis), "ReduceMax": lambda: wide.max(axis),
        "ReduceMin": lambda: wide.min(axis), "ReduceL2": lambda: np.sqrt((wide**2).sum(axis)),
    }[op]()  # fmt: skip
    roundings = 0 if op in ("ReduceMax", "ReduceMin") else shape[axis] * np.finfo(np.float32).eps

    def judge(got: Arrays) -> None:
        np.testing.assert_allclose(got["y"], exact, rtol=roundings, atol=roundings * 4)

    check_model(model_of(op, data, axis), {"x": data}, judge, threads=(1, 2))


def test_integers() -> None:
    data = RNG.integers(-(1 << 40), 1 << 40, (70, 9001))
    np.testing.assert_array_equal(stepwell.compile(model_of("ReduceSum", data, 0))(data)[0], data.sum(0))


def test_large_matrices_are_read_in_stretches() -> None:
    """Eight rows at a time, if they do not fit a core's own cache."""
    large, small = (
        str(stepwell.lower(model_of("ReduceSum", np.zeros((64, n), np.float32), 0), "scheduled", target="x86-64-v3").module) for n in (16384, 256)
    )
    assert "block = array<i64: " in large
    assert "block = array<i64: " not in small
