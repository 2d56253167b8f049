"""Resize of images of any size: one program gives what code for each size does, whose places are tables, and what ONNX Runtime does."""

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from op_sweep import pairwise

import stepwell

FLOAT = TensorProto.FLOAT
SIZES = ((1, 5, 7), (2, 4, 9), (1, 13, 2), (3, 16, 16))
WAYS: dict[str, tuple[Any, ...]] = {
    "mode": ("nearest", "linear"),
    "coordinates": ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners", "half_pixel_symmetric"),
    "rounding": ("floor", "round_prefer_floor", "ceil", "round_prefer_ceil"),
    "by": ((2.0, 3.0), (0.5, 1.5), (1.0, 4.0), "sizes", "like"),
}


def model(mode: str, coordinates: str, rounding: str, by: Any) -> ModelProto:
    """Resize along the sides of an image: by factors, to sizes, or to the sizes of another image."""
    inputs: dict[str, list[Any]] = {"x": ["n", 2, "h", "w"]}
    nodes, weights, given = [], [], "wanted"
    if by == "like":
        nodes, inputs["like"] = [helper.make_node("Shape", ["like"], ["wanted"])], ["other_h", "other_w"]
    elif by == "sizes":
        weights = [numpy_helper.from_array(np.array([7, 12]), "wanted")]
    else:
        weights, given = [numpy_helper.from_array(np.array(by, np.float32), "factors")], ""
    names = ["x", "", "" if given else "factors", given]
    options = {"coordinate_transformation_mode": coordinates, "nearest_mode": rounding}
    nodes.append(helper.make_node("Resize", names, ["y"], axes=[2, 3], mode=mode, **options))
    values = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs.items()]
    graph = helper.make_graph(nodes, "resized", values, [helper.make_tensor_value_info("y", FLOAT, None)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def given(source: ModelProto, n: int, h: int, w: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng([n, h, w])
    feed = {"x": random.standard_normal((n, 2, h, w), np.float32), "like": random.standard_normal((h + 3, 2 * w), np.float32)}
    return {value.name: feed[value.name] for value in source.graph.input}


@pytest.mark.parametrize("way", list(pairwise(WAYS, 0)), ids=lambda way: "-".join(map(str, way.values())))
def test_results_are_those_of_code_for_the_size(way: dict[str, Any]) -> None:
    source = model(**way)
    compiled = stepwell.compile(source, specialise="never", threads=1)
    for size in SIZES:
        feed = given(source, *size)
        want = stepwell.compile(source, shapes={name: array.shape for name, array in feed.items()}, threads=1).run(feed)["y"]
        got = compiled.run(feed)["y"]
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=0, atol=0 if way["mode"] == "nearest" else 4e-6)


@pytest.mark.parametrize(("mode", "coordinates", "by"), [("nearest", "asymmetric", (2.0, 2.0)), ("linear", "half_pixel", "like")])
def test_results_are_those_of_onnx_runtime(mode: str, coordinates: str, by: Any) -> None:
    source = model(mode, coordinates, "floor", by)
    compiled, session = stepwell.compile(source, specialise="never"), onnxruntime.InferenceSession(source.SerializeToString())
    for size in SIZES:
        feed = given(source, *size)
        np.testing.assert_allclose(compiled.run(feed)["y"], session.run(None, feed)[0], rtol=0, atol=4e-6)


def test_whole_factors_only_repeat_elements() -> None:
    """No places are computed where each element comes a number of times in a row."""
    text = stepwell.lower(model("nearest", "asymmetric", "floor", (2.0, 3.0)), "graph", specialise="never").text()
    assert "graph.gather" not in text
    assert 'tensor<?x2x?x?xf32, "n, 2*h, 3*w">' in text


@pytest.mark.parametrize(
    ("way", "told"),
    [(("cubic", "asymmetric", "floor", (2.0, 2.0)), "mode='cubic'"), (("linear", "asymmetric", "floor", (0.123, 2.0)), "a scale of 0.123")],
)
def test_what_needs_numbers_says_so(way: tuple[Any, ...], told: str) -> None:
    with pytest.raises(stepwell.UnsupportedError, match=told):
        stepwell.compile(model(*way), specialise="never")


def test_dimensions_that_stay_may_be_of_any_size() -> None:
    source = model("linear", "half_pixel", "floor", (1.0, 4.0))
    for dim, size in zip(source.graph.input[0].type.tensor_type.shape.dim, (0, 2, 0, 6), strict=True):
        if size:
            dim.dim_value = size
    text = stepwell.lower(source, "graph", specialise="never").text()
    assert "graph.resize" in text  # with places that are known
    compiled, session = stepwell.compile(source, specialise="never"), onnxruntime.InferenceSession(source.SerializeToString())
    for n, h in ((1, 4), (3, 9)):
        feed = given(source, n, h, 6)
        np.testing.assert_allclose(compiled.run(feed)["y"], session.run(None, feed)[0], rtol=0, atol=4e-6)
