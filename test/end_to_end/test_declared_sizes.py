"""Sizes that a model declares and its data decide: right where they agree, an error where they do not, never a result of another shape."""

import guarded
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import stepwell
from stepwell.dialects.support.errors import IndexRangeError

RANDOM = np.random.default_rng(5)


def model(op: str, inputs: dict[str, np.ndarray], declared: list[int]) -> onnx.ModelProto:
    """A node whose operands all come when it runs, and the shape that its result is said to have."""
    sides = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in inputs.items()]
    node = helper.make_node(op, list(inputs), ["y"], name="the_node")
    graph = helper.make_graph([node], "g", sides, [helper.make_tensor_value_info("y", TensorProto.FLOAT, declared)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def run(op: str, inputs: dict[str, np.ndarray], declared: list[int]) -> np.ndarray:
    (got,) = stepwell.compile(model(op, inputs, declared))(*inputs.values())
    return got


def data(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape, np.float32)


@pytest.mark.parametrize(
    ("x", "declared", "shape", "asked"),
    [
        (data(2, 3, 4), [4, 6], [4, 6], None),
        (data(2, 3, 4), [4, 6], [-1, 6], None),
        (data(2, 3, 4), [2, 12], [0, -1], None),
        (data(2, 3, 4), [4, 6], [6, 4], "size 6 along dimension 0, for which the model declares 4"),
        (data(2, 3, 4), [4, 6], [-1, -1], "size -1 along dimension 0"),
        (data(3, 2), [2, 3], [2, 2], "size 2 along dimension 1, for which the model declares 3"),
    ],
)
def test_reshapes(x, declared, shape, asked):
    inputs = {"x": x, "shape": np.array(shape)}
    if asked is None:
        np.testing.assert_array_equal(run("Reshape", inputs, declared), x.reshape(declared))
    else:
        with pytest.raises(IndexRangeError, match=f"the_node.*{asked}"):
            run("Reshape", inputs, declared)


@pytest.mark.parametrize(("shape", "right"), [([2, 3, 5], True), ([2, 1, 5], True), ([3, 3, 5], False), ([2, 3, 4], False), ([2, 4, 5], False)])
def test_expansions(shape, right):
    x = data(3, 1)
    inputs = {"x": x, "shape": np.array(shape)}
    if right:
        np.testing.assert_array_equal(run("Expand", inputs, [2, 3, 5]), np.broadcast_to(x, [2, 3, 5]))
    else:
        with pytest.raises(IndexRangeError, match="the_node"):
            run("Expand", inputs, [2, 3, 5])


SLICES = [
    ([1], [4], [1], [1], True),
    ([-2], [-9], [-2], [-1], False),
    ([4], [0], [1], [-1], False),
    ([3], [0], [1], [-1], True),
    ([0], [9], [1], [2], True),
    ([0], [2], [1], [1], False),
    ([0], [3], [0], [1], False),
    ([0], [3], [3], [1], False),
    ([2, 0], [7, 9], [1, 0], [1, 1], True),
    ([2, 1], [7, 9], [1, 0], [1, 1], False),
    ([1], [4], [1], [0], False),
]


@pytest.mark.parametrize(("starts", "ends", "axes", "steps", "right"), SLICES)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_slices_whose_axes_too_are_known_only_at_run_time(starts, ends, axes, steps, right, dtype):
    x = data(4, 5)
    inputs = {"x": x, **{n: np.array(v, dtype) for n, v in (("starts", starts), ("ends", ends), ("axes", axes), ("steps", steps))}}
    if right:
        want = x
        for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
            want = np.moveaxis(np.moveaxis(want, axis, 0)[start:end:step], 0, axis)
        np.testing.assert_array_equal(run("Slice", inputs, [4, 3]), want)
    else:
        with pytest.raises(IndexRangeError, match="the_node"):
            run("Slice", inputs, [4, 3])


def test_what_is_trusted_reads_nothing_outside():
    """With the checks off a slice that asks for less than declared repeats its last element; what lies beside it is NaN."""
    inputs = {"x": np.array([1, 2, 3, 4], np.float32), **{n: np.array([v]) for n, v in (("starts", 2), ("ends", 3), ("axes", 0), ("steps", 1))}}
    compiled = stepwell.compile(model("Slice", inputs, [3]), disable=["check-indices"])
    np.testing.assert_array_equal(guarded.run(compiled, inputs, shift=0)["y"], [3, 4, 4])
