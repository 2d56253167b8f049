"""Resize of images of any size: one program gives what code for each size does, whose places are tables, and what ONNX Runtime does."""

from collections.abc import Sequence
from typing import Any

import importing
import numpy as np
import onnxruntime
import pytest
from covering import by_day, fewest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from op_sweep import pairwise

import stepwell

FLOAT = TensorProto.FLOAT
SIZES = ((1, 5, 7), (2, 4, 9), (1, 13, 2), (3, 16, 16))
WAYS: dict[str, tuple[Any, ...]] = {
    "mode": ("nearest", "linear", "cubic"),
    "coordinates": ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners", "half_pixel_symmetric"),
    "rounding": ("floor", "round_prefer_floor", "ceil", "round_prefer_ceil"),
    "by": ((2.0, 3.0), (0.5, 1.5), (1.0, 4.0), (0.6, 2.3), "sizes", "like"),
}
MORE: dict[str, tuple[Any, ...]] = {
    "mode": ("linear", "cubic"),
    "coordinates": ("half_pixel", "align_corners", "tf_crop_and_resize"),
    "by": ((0.6, 2.3), (0.25, 0.7), "sizes", "like"),
    "antialias": (0, 1),
    "exclude_outside": (0, 1),
    "keep_aspect_ratio_policy": ("stretch", "not_larger", "not_smaller"),
    "dtype": (np.float32, np.float64, np.uint8, np.float16),
}


ROWS, MORE_ROWS = list(pairwise(WAYS, 0)), list(pairwise(MORE, 1))


def model(mode: str, coordinates: str, rounding: str, by: Any, dtype: Any = np.float32, **more: Any) -> ModelProto:
    """Resize along the sides of an image: by factors, to sizes, to the sizes of another image, or by factors that are computed."""
    inputs: dict[str, list[Any]] = {"x": ["n", 2, "h", "w"]}
    nodes, weights, given = [], [], "wanted"
    if by == "like":
        nodes, inputs["like"] = [helper.make_node("Shape", ["like"], ["wanted"])], ["other_h", "other_w"]
    elif by == "sizes":
        weights = [numpy_helper.from_array(np.array([7, 12]), "wanted")]
    elif by == "computed":
        nodes, inputs["many"], given = [helper.make_node("ReduceMax", ["many", "first"], ["factors"], keepdims=0)], ["m", 2], ""
        weights = [numpy_helper.from_array(np.array([0]), "first")]
    else:
        weights, given = [numpy_helper.from_array(np.array(by, np.float32), "factors")], ""
    weights.append(numpy_helper.from_array(np.array([0.1, -0.2, 0.75, 1.1], np.float32), "roi"))
    names = ["x", "roi" if coordinates == "tf_crop_and_resize" else "", "" if given else "factors", given]
    options = {"coordinate_transformation_mode": coordinates, "nearest_mode": rounding, **more}
    nodes.append(helper.make_node("Resize", names, ["y"], axes=[2, 3], mode=mode, **options))
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    values = [helper.make_tensor_value_info(name, kind if name == "x" else FLOAT, shape) for name, shape in inputs.items()]
    graph = helper.make_graph(nodes, "resized", values, [helper.make_tensor_value_info("y", kind, None)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def given(source: ModelProto, n: int, h: int, w: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng([n, h, w])
    feed = {"x": random.standard_normal((n, 2, h, w), np.float32), "like": random.standard_normal((h + 3, 2 * w), np.float32)}
    feed["many"] = random.uniform(0.3, 2.5, (3, 2)).astype(np.float32)
    kind = helper.tensor_dtype_to_np_dtype(source.graph.input[0].type.tensor_type.elem_type)
    feed["x"] = (random.integers(0, 255, feed["x"].shape) if kind == np.uint8 else feed["x"]).astype(kind)
    return {value.name: feed[value.name] for value in source.graph.input}


def check(source: ModelProto, sizes: Sequence[tuple[int, int, int]], tolerance: float) -> None:
    """One program gives what the graph means that the model is for each size."""
    levels: list[str] = []
    compiled = stepwell.compile(source, specialise="never", threads=1, on_level=lambda level, _: levels.append(level))
    before = len(levels)
    for size in sizes:
        feed = given(source, *size)
        known = {name: array for name, array in feed.items() if name == "many"}
        taken = {name: array for name, array in feed.items() if name not in known}
        shapes = {name: array.shape for name, array in taken.items()}
        want, got = importing.run(source, taken, shapes=shapes, constants=known)["y"], compiled.run(feed)["y"]
        assert got.shape == want.shape
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=0, atol=tolerance, err_msg=str(size))
    assert before == len(levels), "code was made for one of the sizes"


# Cubic weights, whose code is dear, are of places that are computed as those of linear ones are: a row of them is enough beside those below.
DAY = [
    *fewest([row for row in ROWS if row["mode"] != "cubic"], ("mode", "coordinates"), "rounding", "by"),
    *(row for row in ROWS if (row["mode"], row["coordinates"], row["by"]) == ("cubic", "align_corners", "sizes")),
]


@pytest.mark.parametrize("way", by_day(ROWS, DAY), ids=lambda way: "-".join(map(str, way.values())))
def test_results_are_those_of_code_for_the_size(way: dict[str, Any]) -> None:
    check(model(**way), SIZES, 0 if way["mode"] == "nearest" else 4e-6)


@pytest.mark.parametrize(
    "way", by_day(MORE_ROWS, fewest(MORE_ROWS, ("mode", "antialias"), *MORE)),
    ids=lambda way: "-".join(getattr(v, "__name__", str(v)) for v in way.values()),
)  # fmt: skip
def test_results_of_weights_that_are_computed(way: dict[str, Any]) -> None:
    """Rounded to the type, an integer by a half that lies on the other side."""
    if way["dtype"] == np.float16:
        tolerance = 4e-3
    else:
        tolerance = {np.float32: 1e-5, np.float64: 2e-5, np.uint8: 1}[way["dtype"]]
    policy = {} if isinstance(way["by"], tuple) else {"keep_aspect_ratio_policy": way["keep_aspect_ratio_policy"]}
    check(model(rounding="floor", **{**way, "keep_aspect_ratio_policy": "stretch", **policy}), SIZES, tolerance)


COMPUTED = [(mode, coordinates) for mode in ("nearest", "cubic") for coordinates in ("align_corners", "tf_crop_and_resize", "half_pixel_symmetric")]


@pytest.mark.parametrize(("mode", "coordinates"), by_day(COMPUTED, [COMPUTED[0], COMPUTED[2], COMPUTED[5]]))
def test_scales_that_are_computed(mode: str, coordinates: str) -> None:
    check(model(mode, coordinates, "round_prefer_floor", "computed"), SIZES, 1e-5)


def test_the_last_element_is_the_last_one() -> None:
    """Although 5 and 10 times the scale of f32 are a little more than 3 and 7."""
    check(model("nearest", "align_corners", "floor", (0.6, 0.7)), [(1, 5, 10), (1, 10, 20), (1, 25, 30)], 0)


def test_parts_of_images_of_any_size() -> None:
    """Where the size stays, too; outside of the image there is a number of its own."""
    check(model("nearest", "tf_crop_and_resize", "floor", (1.0, 1.0), extrapolation_value=7.5), SIZES, 0)
    check(model("linear", "tf_crop_and_resize", "floor", "sizes", np.uint8, extrapolation_value=7.0), SIZES, 1)


@pytest.mark.parametrize(
    ("mode", "coordinates", "by"),
    [
        ("nearest", "asymmetric", (2.0, 2.0)), ("linear", "half_pixel", "like"), ("cubic", "half_pixel", (2.0, 0.5)),
        ("cubic", "align_corners", "sizes"),
    ],
)  # fmt: skip
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
    [(("linear", "asymmetric", "floor", (1e-12, 2.0)), "a scale of 9.9")],
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
