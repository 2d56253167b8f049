"""Models in which something has no elements, or no size yet: valid ONNX, to be compiled as any other."""

from typing import Any

import numpy as np
import onnx
import pytest
from every import every
from importing import check_native, floats, model, node
from native_checks import natively_together
from onnx import helper

import stepwell
from stepwell.dialects.core.weights import WeightTable
from stepwell.runtime.buffers import pack_arena

NETWORK = [
    node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1], name="first"),
    node("BatchNormalization", ["a", "scale", "shift", "mean", "var"], ["b"], name="norm"),
    node("Relu", ["b"], ["c"], name="relu"),
    node("MaxPool", ["c"], ["d"], kernel_shape=[2, 2], strides=[2, 2], name="pool"),
    node("Conv", ["d", "w2"], ["e"], name="second"),
    node("GlobalAveragePool", ["e"], ["f"], name="mean"),
    node("Flatten", ["f"], ["g"], name="flat"),
    node("Gemm", ["g", "m"], ["h"], name="dense"),
    node("Softmax", ["h"], ["y"], name="softmax"),
]
WEIGHTS = {
    "w": floats(32, 16, 3, 3), "scale": floats(32), "shift": floats(32, seed=1), "mean": floats(32, seed=2), "var": abs(floats(32, seed=3)),
    "w2": floats(16, 32, 1, 1), "m": floats(16, 7),
}  # fmt: skip


def test_a_network_on_no_images() -> None:
    check_native(NETWORK, {"x": floats(0, 16, 6, 6)}, WEIGHTS, expected=[np.empty((0, 7), np.float32)])


def test_any_number_of_images_none_too() -> None:
    proto = model(NETWORK, {"x": floats(2, 16, 6, 6)}, {"y": floats(2, 7)}, WEIGHTS)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "images"
    compiled = stepwell.compile(proto)
    some = compiled.run({"x": floats(2, 16, 6, 6)})["y"]
    assert compiled.run({"x": floats(0, 16, 6, 6)})["y"].shape == (0, 7)
    np.testing.assert_array_equal(compiled.run({"x": floats(2, 16, 6, 6)})["y"], some)


@natively_together
@every("op", ["Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool"])
@every("images", ["constant", "computed"])
def test_windows_over_no_images(op: str, images: str) -> None:
    made = node(op, ["c", "w"] if "Conv" in op else ["c"], **({"kernel_shape": [3, 3]} if op in ("MaxPool", "AveragePool", "LpPool") else {}))
    sizes = {"Conv": (3, 3), "ConvTranspose": (7, 7)}.get(op, (1, 1) if op.startswith("Global") else (3, 3))
    want = np.empty((0, 4, *sizes), np.float32)
    check_native([node("Neg", ["x"], ["c"]), made], {"x": floats(0, 4, 5, 5)}, {"w": floats(4, 4, 3, 3)}, expected=[want])


LARGE: list[tuple[str, dict[str, Any], tuple[int, ...]]] = [
    ("MaxPool", {"kernel_shape": [3, 3]}, (1, 2, 0, 3)),
    ("MaxPool", {"kernel_shape": [4, 3], "strides": [2, 1]}, (1, 2, 0, 3)),
    ("AveragePool", {"kernel_shape": [3, 3]}, (1, 2, 0, 3)),
    ("LpPool", {"kernel_shape": [3, 3]}, (1, 2, 0, 3)),
    ("Conv", {}, (1, 3, 0, 3)),
]


@natively_together
@every(("op", "attributes", "shape"), LARGE, ids=str)
def test_a_window_larger_than_its_dimension(op: str, attributes: dict[str, Any], shape: tuple[int, ...]) -> None:
    made = node(op, ["x", "w"] if op == "Conv" else ["x"], **attributes)
    check_native(made, {"x": floats(1, 2, 2, 5)}, {"w": floats(3, 2, 3, 3)}, expected=[np.empty(shape, np.float32)])


def test_places_of_maxima_of_no_windows() -> None:
    want = [np.empty((1, 2, 0, 3), np.float32), np.empty((1, 2, 0, 3), np.int64)]
    check_native(node("MaxPool", ["x"], ["y", "i"], kernel_shape=[3, 3]), {"x": floats(1, 2, 2, 5)}, outputs=("y", "i"), expected=want)


def test_a_window_that_hangs_over_the_end_of_a_smaller_dimension() -> None:
    check_native(node("MaxPool", ["x"], kernel_shape=[3, 3], ceil_mode=1, strides=[2, 2]), {"x": floats(1, 2, 2, 5)})


def test_what_is_summed_up_of_nothing() -> None:
    nodes = [node("Conv", ["x", "w"], ["c"]), node("ReduceSum", ["c"], ["s"], keepdims=0), node("Add", ["s", "b"])]
    check_native(nodes, {"x": floats(0, 2, 5, 5), "b": floats(3)}, {"w": floats(3, 2, 3, 3)}, expected=[floats(3)])


# --- weights without elements


@natively_together
@every("names", [("a", "z"), ("z", "a")])
def test_an_empty_weight_beside_another(names: tuple[str, str]) -> None:
    """Both at one offset of the arena: the module keeps the offsets by name."""
    empty, full = names
    nodes = [node("Concat", ["x", empty], ["c"], axis=0), node("Add", ["c", full])]
    check_native(nodes, {"x": floats(300)}, {empty: floats(0), full: floats(300, seed=1)})
    table = WeightTable({empty: floats(0), full: floats(300, seed=1)})
    for offsets in ({empty: 64, full: 64}, {full: 64, empty: 64}):
        arena = pack_arena(table, offsets, 64 + 1200)
        np.testing.assert_array_equal(arena[64:].view(np.float32), floats(300, seed=1))


# --- sizes that are not known yet


@pytest.mark.parametrize("size", [-1, -7])
def test_a_negative_size_is_a_free_one(size: int) -> None:
    graph = helper.make_graph(
        [node("Relu", ["x"])],
        "test",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [size, 3])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [size, 3])],
    )
    compiled = stepwell.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))
    assert compiled.inputs[0].shape == ("x_0", 3)
    for rows in (2, 5, 0):
        x = floats(rows, 3)
        np.testing.assert_array_equal(compiled.run({"x": x})["y"], np.maximum(x, 0))


@pytest.mark.parametrize("specialise", ["never", "auto", "always"])
def test_an_absurd_size_beside_none(specialise: str) -> None:
    """An array without elements may have any size, and loops over it would go on for days."""
    proto = model([node("Softmax", ["x"], name="soft")], {"x": floats(2, 3)}, {"y": floats(2, 3)})
    for name, dim in zip("nm", proto.graph.input[0].type.tensor_type.shape.dim, strict=True):
        dim.dim_param = name
    compiled = stepwell.compile(proto, cache=False, specialise=specialise)
    assert compiled.run({"x": np.empty((1000, 0), np.float32)})["y"].shape == (1000, 0)
    with pytest.raises(stepwell.LimitError, match="value_bytes"):
        compiled.run({"x": np.empty((10**15, 0), np.float32)})
