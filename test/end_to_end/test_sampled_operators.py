"""Operators that read between elements, look tokens up or eliminate, from DeformConv to Det, in native code."""

from itertools import pairwise, product
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from covering import every_by_day, fewest, pairs
from every import every, running
from importing import check_native, floats, model, node, rng
from native_checks import Arrays, Check, check, natively_together
from onnx.reference import ReferenceEvaluator

import stepwell
from stepwell.dialects import graph
from stepwell.dialects.support.errors import IndexRangeError, ModelError

# --- DeformConv


def deformed(x: np.ndarray, w: np.ndarray, offset: np.ndarray, mask: np.ndarray | None, attributes: dict[str, Any]) -> np.ndarray:
    """The definition, element by element, in f64 and any number of dimensions."""
    spatial, group, groups = x.ndim - 2, attributes.get("group", 1), attributes.get("offset_group", 1)
    strides, dilations = (attributes.get(name, [1] * spatial) for name in ("strides", "dilations"))
    pads, kernel, out = attributes.get("pads", [0] * 2 * spatial), w.shape[2:], offset.shape[2:]
    shifts = offset.reshape(x.shape[0], groups, *kernel, spatial, *out).astype(np.float64)
    weights = np.ones((x.shape[0], groups, *kernel, *out)) if mask is None else mask.reshape(x.shape[0], groups, *kernel, *out)
    y = np.zeros((x.shape[0], w.shape[0], *out))
    for n, o, c in np.ndindex(x.shape[0], *w.shape[:2]):
        channel = o // (w.shape[0] // group) * w.shape[1] + c
        g = channel // (x.shape[1] // groups)
        for k in np.ndindex(*kernel):
            for p in np.ndindex(*out):
                place = [p[i] * strides[i] - pads[i] + k[i] * dilations[i] + shifts[(n, g, *k, i, *p)] for i in range(spatial)]
                low, total = [int(np.floor(v)) for v in place], 0.0
                for corner in np.ndindex(*[2] * spatial):
                    at = [v + d for v, d in zip(low, corner, strict=True)]
                    if all(0 <= v < size for v, size in zip(at, x.shape[2:], strict=True)):
                        total += np.prod([1 - abs(v - a) for v, a in zip(place, at, strict=True)]) * x[(n, channel, *at)]
                y[(n, o, *p)] += w[(o, c, *k)] * total * weights[(n, g, *k, *p)]
    return y


DEFORMED: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any], bool]] = [
    ((1, 1, 3, 3), (1, 1, 2, 2), {}, False),
    ((2, 4, 7, 5), (6, 2, 3, 2), {"group": 2, "offset_group": 4, "pads": [1, 0, 2, 1], "strides": [2, 1]}, True),
    ((1, 4, 6, 8), (3, 4, 2, 3), {"offset_group": 2, "dilations": [2, 3], "pads": [1, 2, 1, 2], "kernel_shape": [2, 3]}, True),
    ((2, 2, 9), (2, 2, 3), {"pads": [1, 1]}, False),
    ((1, 2, 3, 4, 3), (2, 1, 2, 2, 2), {"group": 2}, True),
    ((2, 19, 4, 5), (3, 19, 2, 2), {"pads": [1, 0, 1, 1]}, True),
    ((1, 32, 5), (2, 16, 3), {"group": 2, "offset_group": 2}, False),
]
OF_TYPES = [(*made, dtype) for dtype in (np.float32, np.float64, np.float16) for made in DEFORMED]


@natively_together
@every_by_day(("shape", "filters", "attributes", "masked", "dtype"), OF_TYPES, [*OF_TYPES[:7], OF_TYPES[8], OF_TYPES[16]])
def test_deformed_convolution(shape: tuple[int, ...], filters: tuple[int, ...], attributes: dict[str, Any], masked: bool, dtype: Any) -> None:
    spatial, groups = len(shape) - 2, attributes.get("offset_group", 1)
    strides, dilations = (attributes.get(name, [1] * spatial) for name in ("strides", "dilations"))
    pads = attributes.get("pads", [0] * 2 * spatial)
    spans = [(k - 1) * d + 1 for k, d in zip(filters[2:], dilations, strict=True)]
    out = [(shape[2 + i] + pads[i] + pads[spatial + i] - spans[i]) // strides[i] + 1 for i in range(spatial)]
    taps = int(np.prod(filters[2:]))
    inputs = {
        "x": floats(*shape, dtype=dtype), "w": floats(*filters, dtype=dtype),
        "offset": (2 * floats(shape[0], groups * taps * spatial, *out)).round(1).astype(dtype), "bias": floats(filters[0], dtype=dtype),
    }  # fmt: skip
    if masked:
        inputs["mask"] = floats(shape[0], groups * taps, *out, dtype=dtype)
    wide = {name: array.astype(np.float64) for name, array in inputs.items()}
    want = deformed(wide["x"], wide["w"], wide["offset"], wide.get("mask"), attributes) + wide["bias"].reshape(-1, *[1] * spatial)
    names = ["x", "w", "offset", "bias", *(["mask"] if masked else [])]
    check_native(node("DeformConv", names, **attributes), inputs, expected=[want.astype(dtype)], opset=22, terms=64)


def test_offsets_that_do_not_fit_are_an_error() -> None:
    inputs = {"x": floats(1, 1, 3, 3), "w": floats(1, 1, 2, 2), "offset": floats(1, 8, 2, 3)}
    with pytest.raises(ModelError, match=r"the offsets must have the shape \[1, 8, 2, 2\]"):
        stepwell.compile(model([node("DeformConv", ["x", "w", "offset"])], inputs, {"y": floats(1, 1, 2, 3)}, opset=22))


# --- RoiAlign

BOXES = np.array([[0, 0, 9, 9], [1.3, 2.6, 4.1, 7.7], [-3, -2, 20, 4], [5, 5, 5, 5], [8, 3, 2, 1]], np.float32)


@natively_together
@pairs({
    "mode": ["avg", "max"],
    "samples": [0, 2],
    ("transformation", "opset"): [("half_pixel", 22), ("output_half_pixel", 16), (None, 10)],
    "channels": [3, 8, 21],
})
def test_regions(mode: str, samples: int, transformation: str | None, opset: int, channels: int) -> None:
    """Many channels are computed in vectors, and what is left of them one by one."""
    attributes = {"output_height": 3, "output_width": 2, "sampling_ratio": samples, "spatial_scale": 0.7, "mode": mode}
    if transformation is not None:
        attributes["coordinate_transformation_mode"] = transformation
    inputs = {"x": floats(2, channels, 8, 9), "rois": BOXES, "batch": np.array([0, 1, 1, 0, 1])}
    single = node("RoiAlign", ["x", "rois", "batch"], **attributes)
    reference = node("RoiAlign", ["x", "rois", "batch"], **{**attributes, "coordinate_transformation_mode": transformation or "output_half_pixel"})
    proto = model([reference], inputs, {"y": floats(1, 1, 1, 1)}, opset=22)
    want = np.asarray(ReferenceEvaluator(proto).run(None, inputs)[0]).astype(np.float32)
    check_native(single, inputs, expected=[want], opset=opset)


def test_an_image_that_is_not_there_is_an_error() -> None:
    inputs = {"x": floats(2, 3, 8, 9), "rois": BOXES, "batch": np.array([0, 1, 1, 0, 1])}
    proto = model([node("RoiAlign", ["x", "rois", "batch"])], inputs, {"y": floats(1, 1, 1, 1)}, opset=16)
    for bad in (2, -1):
        with pytest.raises(IndexRangeError, match="the_roialign"):
            stepwell.compile(proto).run({**inputs, "batch": np.array([0, 1, bad, 0, 1])})


HUGE = [
    *([a, 0.0, b, 3.0] for a, b in ((-np.inf, np.inf), (0, np.inf), (-np.inf, 2), (np.inf, np.inf), (np.nan, 3), (1, np.nan), (np.inf, -np.inf))),
    *([-far, 1.0, far, 4.0] for far in (1e9, 1e30, 3e38)),
    [0.0, 0.0, 1e30, 1e30], [-1e30, -1e30, 0.0, 0.0], [1e30, 1.0, 2e30, 5.0], [-2e9, -2e9, -1e9, -1e9],
]  # fmt: skip
# Of sides that are powers of two, so that samples lie at places that are numbers of either type.
LARGE = [[-64.25, -32.75, 64 - 0.25, 32 - 0.75], [-3.5, 1.25, 61 - 0.5, 2.25], [2.0, -100.0, 4.0, 28.0], [40.0, 1.0, 104.0, 5.0]]


def aligned(image: np.ndarray, box: list[float], parts: int, *, half_pixel: bool, mode: str) -> np.ndarray:
    """The definition for one image and one region: all samples, one by one, those outside too."""

    def samples(low: float, high: float, size: int, part: int) -> list[tuple[int, int, float]]:
        low, high = (bound - 0.5 if half_pixel else bound for bound in (low, high))
        step = (high - low if half_pixel else max(high - low, 1.0)) / parts
        found = []
        for i in range(int(np.ceil(step))):
            where = low + part * step + (i + 0.5) * step / np.ceil(step)
            below = min(int(max(where, 0)), size - 1)
            above = max(where, 0) - below if below < size - 1 else 0.0
            found.append((below, min(below + 1, size - 1), above if -1 <= where <= size else np.nan))
        return found

    out = np.zeros((parts, parts))
    for row, column in np.ndindex(parts, parts):
        ys, xs = samples(box[1], box[3], image.shape[0], row), samples(box[0], box[2], image.shape[1], column)
        terms = [
            (image[j, k] * v * w) if not np.isnan(a + b) else 0.0
            for (y, down, a), (x, right, b) in product(ys, xs) for (j, v), (k, w) in product(((y, 1 - a), (down, a)), ((x, 1 - b), (right, b)))
        ]  # fmt: skip
        out[row, column] = max(terms) if mode == "max" else sum(terms) / (len(ys) * len(xs))
    return out


@every("dtype, transformation, mode", list(product((np.float32, np.float64), ("half_pixel", "output_half_pixel"), ("avg", "max"))))
def test_regions_far_larger_than_the_image(dtype: Any, transformation: str, mode: str) -> None:
    """It takes no longer than the image has pixels: what is infinite gives 0, what is finite the mean of all samples, those outside too."""
    attributes = {"output_height": 2, "output_width": 2, "mode": mode, "coordinate_transformation_mode": transformation}
    image = -1 - floats(1, 1, 5, 7).astype(dtype) ** 2  # the greatest term is 0 as soon as a sample is outside
    boxes = np.array([*HUGE, *LARGE], dtype)
    inputs = {"x": image, "rois": boxes, "batch": np.zeros(len(boxes), np.int64)}
    outputs = {"y": floats(1, 1, 1, 1).astype(dtype)}
    made = stepwell.compile(model([node("RoiAlign", ["x", "rois", "batch"], **attributes)], inputs, outputs, opset=16))
    half_pixel = transformation == "half_pixel"
    with np.errstate(invalid="ignore", over="ignore"):
        folded = graph.RoiAlignOp.reference(
            image, boxes, inputs["batch"], sizes=[2, 2], samples=0, scale=1.0, half_pixel=half_pixel, mode=mode
        )  # fmt: skip
    for got in (made.run(inputs)["y"], folded):
        assert np.all(np.abs(got[: len(HUGE)]) < 1e-7)
        for box, found in zip(LARGE, got[len(HUGE) :], strict=True):
            want = aligned(image[0, 0].astype(np.float64), box, 2, half_pixel=half_pixel, mode=mode)
            np.testing.assert_allclose(found[0], want, rtol=1e-5, atol=1e-7)


# --- MaxRoiPool

# The number of an image before corners; of a region that begins after its end, beyond the image, and on halves of pixels.
REGIONS = np.column_stack([[0, 1, 1, 0, 1, 0, 1, 0], [*BOXES, [30, 30, 40, 40], [2.5, 1.5, 4.5, 3.5], [-9, -9, -2, -2]]]).astype(np.float32)


@natively_together
@pairs({"channels": [3, 8, 21], "scale": [None, 0.7], "shape": [[1, 1], [3, 2], [2, 9]]})
def test_greatest_of_regions(channels: int, scale: float | None, shape: list[int]) -> None:
    """As ONNX Runtime has it, up to this opset: ONNX has neither an evaluation nor cases."""
    made = node("MaxRoiPool", ["x", "rois"], pooled_shape=shape, **({} if scale is None else {"spatial_scale": scale}))
    inputs = {"x": floats(2, channels, 8, 9) - 3, "rois": REGIONS}
    want = run_of(made, inputs)
    assert (want == 0).any()
    check_native(made, inputs, expected=[want], opset=21, terms=0)


@natively_together
@every_by_day(("channels", "shape"), product([3, 8, 21], [[1, 1], [3, 2], [2, 9]]), lambda case: case[1] == [3, 2])
@every("dtype", [np.float16, np.float64])
def test_greatest_of_regions_in_other_types(channels: int, shape: list[int], dtype: type) -> None:
    """Not scaled: times 0.7, what is half a pixel in one type is less in another."""
    made = node("MaxRoiPool", ["x", "rois"], pooled_shape=shape)
    inputs = {name: array.astype(dtype) for name, array in {"x": floats(2, channels, 8, 9) - 3, "rois": REGIONS}.items()}
    exact = run_of(made, {name: array.astype(np.float32) for name, array in inputs.items()})
    check_native(made, inputs, expected=[exact.astype(dtype)], opset=21, terms=0)


def run_of(made: onnx.NodeProto, inputs: dict[str, np.ndarray]) -> np.ndarray:
    proto = model([made], inputs, {"y": floats(1, 1, 1, 1)}, opset=21)
    return np.asarray(onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, inputs)[0])


def test_wrong_regions_are_an_error() -> None:
    image, outputs = floats(2, 3, 8, 9), {"y": floats(1, 1, 1, 1)}
    for made, regions, message in (
        (node("MaxRoiPool", ["x", "rois"], pooled_shape=[2, 2]), REGIONS[:, 1:], "the number of an image and 4 corners, got 4 numbers"),
        (node("MaxRoiPool", ["x", "rois"], pooled_shape=[2]), REGIONS, "pooled_shape has incorrect length"),
    ):
        with pytest.raises(ModelError, match=message):
            stepwell.compile(model([made], {"x": image, "rois": regions}, outputs, opset=21))
    proto = model([node("MaxRoiPool", ["x", "rois"], pooled_shape=[2, 2])], {"x": image, "rois": REGIONS}, outputs, opset=21)
    for bad in (2, -1):
        with pytest.raises(IndexRangeError, match="the_maxroipool"):
            stepwell.compile(proto).run({"x": image, "rois": np.where(np.arange(5) == 0, bad, REGIONS).astype(np.float32)})


# --- n-grams

# Four single tokens, two pairs, two triples, counted in any order of columns.
POOL = {"ngram_counts": [0, 4, 8], "ngram_indexes": [2, 0, 5, 3, 1, 4, 6, 7], "pool_int64s": [2, 3, 5, 4, 7, 8, 5, 6, 5, 5, 2, 6, 5, 6]}


@natively_together
@pairs({
    ("shape", "dtype"): [((12,), np.int32), ((3, 12), np.int64), ((2, 1), np.int32)],
    "mode": ["TF", "IDF", "TFIDF"],
    ("least", "most", "skips"): [(1, 1, 0), (1, 2, 3), (2, 2, 5), (1, 3, 1), (2, 3, 0)],
})
def test_ngrams(shape: tuple[int, ...], mode: str, least: int, most: int, skips: int, dtype: Any) -> None:
    x = rng(sum(shape)).integers(2, 9, shape).astype(dtype)
    weights = [float(w) for w in floats(8)] if mode != "TF" else []
    attributes = {**POOL, "mode": mode, "min_gram_length": least, "max_gram_length": most, "max_skip_count": skips}
    single = node("TfIdfVectorizer", ["x"], **attributes, **({"weights": weights} if weights else {}))
    check_native(single, {"x": x}, opset=9)


def test_a_large_pool() -> None:
    """As a vocabulary is: tens of thousands of pairs, in no order."""
    pairs = np.unique(rng().integers(0, 400, (30000, 2)), axis=0)
    pairs = pairs[rng(1).permutation(len(pairs))]
    x = rng(2).integers(0, 400, (4, 300))
    place = {tuple(pair): column for column, pair in enumerate(pairs.tolist())}
    want = np.zeros((4, len(pairs)), np.float32)
    for row, tokens in enumerate(x.tolist()):
        for pair in pairwise(tokens):
            if pair in place:
                want[row, place[pair]] += 1
    assert want.sum() > 100
    single = node(
        "TfIdfVectorizer", ["x"], mode="TF", min_gram_length=2, max_gram_length=2, max_skip_count=0, ngram_counts=[0, 0],
        ngram_indexes=list(range(len(pairs))), pool_int64s=pairs.ravel().tolist(),
    )  # fmt: skip
    check_native(single, {"x": x}, opset=9, expected=[want])


def test_a_pool_beyond_the_type_of_the_tokens() -> None:
    x, far = np.array([5, 0, 5], np.int32), 5 + (1 << 32)
    pool = {"ngram_counts": [0], "ngram_indexes": [0, 1], "pool_int64s": [far, 5]}
    single = node("TfIdfVectorizer", ["x"], mode="TF", min_gram_length=1, max_gram_length=1, max_skip_count=0, **pool)
    check_native(single, {"x": x}, opset=9, expected=[np.array([0, 2], np.float32)])


# --- determinants


@natively_together
@every("dtype", [np.float16, np.float32, np.float64])
@every("shape", [(1, 1), (2, 2), (3, 4, 4), (2, 3, 7, 7), (40, 40), (0, 3, 3), (2, 0, 0)])
def test_determinant(shape: tuple[int, ...], dtype: Any) -> None:
    x = (floats(*shape) / np.sqrt(shape[-1] or 1)).astype(dtype)
    want = np.asarray(np.linalg.det(x.astype(np.float64)))

    def judge(found: Arrays) -> None:
        got = found["y"]
        assert got.dtype == dtype
        eps = np.finfo(np.float32 if dtype == np.float16 else dtype).eps
        lengths = np.prod(np.sqrt(np.sum(np.square(x.astype(np.float64)), -1)), -1)
        rounding = np.finfo(dtype).eps * np.abs(want) + float(np.finfo(dtype).smallest_subnormal)
        assert (np.abs(got - want) <= rounding + eps * shape[-1] ** 2 * lengths).all()

    check(Check("-".join(running), model([node("Det", ["x"])], {"x": x}, {"y": want.astype(dtype)}, opset=22), {"x": x}, judge))


def test_determinant_that_is_zero() -> None:
    x = np.array([[[1, 2, 3], [2, 4, 6], [1, 0, 1]], [[0, 0, 0], [1, 2, 3], [4, 5, 6]], [[0, 0, 1], [0, 1, 0], [1, 0, 0]]], np.float32)
    check_native(node("Det", ["x"]), {"x": x}, opset=11, expected=[np.array([0, 0, -1], np.float32)])


# --- GridSample


GRIDS: dict[str, tuple[Any, ...]] = {
    "way": (("zeros", 1), ("zeros", 0), ("border", 0), ("reflection", 0), ("reflection", 1)),
    "channels": (1, 2, 3, 5, 8, 11),
    "sizes": (((9,), (21,)), ((5, 7), (6, 9)), ((6, 6), (3, 35)), ((3, 4, 5), (2, 3, 4))),
}
GRID_ROWS = [dict(zip(GRIDS, row, strict=True)) for row in product(*GRIDS.values())]


@natively_together
@every_by_day("row", GRID_ROWS, fewest(GRID_ROWS, ("way", "sizes"), "channels"), ids=str)
def test_grid_sample(row: dict[str, Any]) -> None:
    """Few channels and many; sizes that differ and do not; places outside of the image, far away, and none."""
    channels, (sizes, places), (padding, aligned) = row["channels"], row["sizes"], row["way"]
    grid = rng(channels).uniform(-1.4, 1.4, (2, *places, len(sizes))).astype(np.float32)
    made = node("GridSample", ["x", "g"], mode="linear", padding_mode=padding, align_corners=aligned)
    check_native(made, {"x": floats(2, channels, *sizes), "g": grid}, opset=20, terms=256)


def test_places_of_no_pixel_are_zero() -> None:
    x = floats(1, 3, 4, 4)
    grid = np.array([[[[np.nan, 0], [1e30, 0], [0, -np.inf], [0.1, 0.2]]]], np.float32)
    made = model([node("GridSample", ["x", "g"], mode="linear")], {"x": x, "g": grid}, {"y": np.zeros((1, 3, 1, 4), np.float32)}, opset=20)
    result = stepwell.compile(made).run({"x": x, "g": grid})["y"]
    assert (result[..., :3] == 0).all()
    assert (result[..., 3] != 0).all()
