"""Windows over images of any size: one program gives what ONNX Runtime does, or code for the size, for sizes in random order."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import importing
import numpy as np
import onnxruntime
import pytest
from covering import by_day, fewest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from op_sweep import pairwise

import stepwell

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
SIZES = ((2, 5, 8), (1, 1, 1), (3, 13, 4), (1, 2, 7), (0, 6, 5), (1, 9, 1), (2, 12, 17), (1, 3, 3), (1, 1, 6), (4, 8, 8), (2, 5, 8))
Feed = dict[str, np.ndarray]
Oracle = Callable[[ModelProto, Feed], Sequence[np.ndarray]]


def node(op: str, inputs: Sequence[str], outputs: Sequence[str] = ("y",), **attributes: Any) -> NodeProto:
    return helper.make_node(op, inputs, outputs, **attributes)


def model(nodes: NodeProto | Sequence[NodeProto], inputs: Mapping[str, Sequence[Any]], opset: int = 19, **weights: np.ndarray) -> ModelProto:
    """Of floats, but for inputs and outputs whose names begin with `i`. What no node takes is an output."""
    made = [nodes] if isinstance(nodes, NodeProto) else list(nodes)
    used = {name for one in made for name in one.input}
    results = {name: None for one in made for name in one.output if name not in used}
    values, outputs = (
        [helper.make_tensor_value_info(name, INT64 if name.startswith("i") else FLOAT, shape) for name, shape in named.items()]
        for named in (inputs, results)
    )
    graph = helper.make_graph(made, "windows", values, outputs, [numpy_helper.from_array(array, name) for name, array in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape, np.float32)


@functools.lru_cache(4)
def session(text: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(text, options, providers=["CPUExecutionProvider"])


def by_onnx_runtime(source: ModelProto, feed: Feed) -> Sequence[np.ndarray]:
    found: Sequence[np.ndarray] = session(source.SerializeToString()).run(None, feed)
    return found


def by_meaning(source: ModelProto, feed: Feed) -> Sequence[np.ndarray]:
    """What the graph means that the model is for these sizes; other tests hold that against ONNX Runtime and ONNX's evaluator."""
    return list(importing.run(source, feed, shapes={name: array.shape for name, array in feed.items()}).values())


def check(source: ModelProto, feeds: Sequence[Feed], oracle: Oracle = by_onnx_runtime, terms: int = 1, others: int = 0) -> Any:
    """One program, which is returned, gives what the oracle does, rounding `terms` sums aside. For `others` of the sizes it gives way to code of
    their own."""
    levels: list[str] = []
    compiled = stepwell.compile(source, specialise="never", threads=1, on_level=lambda level, _: levels.append(level))
    first, apart = len(levels), 0
    for feed in feeds:
        before = len(levels)
        got, want = list(compiled.run(feed).values()), oracle(source, feed)
        apart += len(levels) > before
        for one, other in zip(got, want, strict=True):
            assert one.shape == other.shape, [array.shape for array in feed.values()]
            assert one.dtype == other.dtype
            scale = np.abs(other[np.isfinite(other)]).max(initial=1) if other.dtype.kind == "f" else 0
            np.testing.assert_allclose(one, other, rtol=0, atol=terms * 2**-23 * scale, err_msg=str([array.shape for array in feed.values()]))
    assert first, "nothing was made beforehand"
    assert apart == others, "code was made for one of the sizes, or for fewer than told"
    return compiled


def images(channels: int, sizes: Sequence[tuple[int, ...]] = SIZES) -> list[Feed]:
    return [{"x": floats(n, channels, *places, seed=i)} for i, (n, *places) in enumerate(sizes)]


def filled(feeds: Sequence[Feed]) -> list[Feed]:
    """Those of them that ONNX Runtime takes."""
    return [feed for feed in feeds if all(array.size for array in feed.values())]


IMAGE: dict[str, list[Any]] = {"x": ["n", 3, "h", "w"]}
SAME = [
    ([3, 3], [2, 2], [1, 1]), ([2, 5], [3, 2], [1, 1]), ([1, 4], [2, 3], [1, 1]), ([3, 2], [2, 1], [2, 3]), ([2, 3], [4, 1], [1, 1]),
    ([3, 3], [1, 1], [1, 1]),
]  # fmt: skip


PADDED = [(*window, auto_pad) for window in SAME for auto_pad in ("SAME_UPPER", "SAME_LOWER")]
UPPER, LOWER = PADDED[::2], PADDED[1::2]
WINDOW = ("kernel", "strides", "dilations", "auto_pad")


@pytest.mark.parametrize(WINDOW, by_day(PADDED, [LOWER[3], UPPER[4]]))
def test_convolution_of_same_padding(kernel: list[int], strides: list[int], dilations: list[int], auto_pad: str) -> None:
    """`auto_pad`, with padding that depends on sizes, windows that leave gaps among them: those have no padding before they begin."""
    made = node("Conv", ["x", "w", "b"], strides=strides, dilations=dilations, auto_pad=auto_pad)
    source = model(made, IMAGE, w=floats(5, 3, *kernel), b=floats(5))
    check(source, images(3), by_meaning, terms=64)


POOLED = [*((*LOWER[3], "ade"), (*UPPER[4], "b"), (*LOWER[5], "c")), *((*window, "abcde") for window in PADDED)]


@pytest.mark.parametrize((*WINDOW, "poolings"), by_day(POOLED, POOLED[:3]))
def test_poolings_of_same_padding(kernel: list[int], strides: list[int], dilations: list[int], auto_pad: str, poolings: str) -> None:
    options = {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "auto_pad": auto_pad}
    made = [
        node("MaxPool", ["x"], ["a"], **options), node("MaxPool", ["x"], ["b"], ceil_mode=1, **options),
        node("AveragePool", ["x"], ["c"], **options), node("AveragePool", ["x"], ["d"], count_include_pad=1, **options),
        node("LpPool", ["x"], ["e"], p=3, **options),
    ]  # fmt: skip
    check(model([one for one in made if one.output[0] in poolings], IMAGE), images(3), by_meaning, terms=64)


@pytest.mark.parametrize(("first", "second"), by_day([("SAME_UPPER", "SAME_LOWER"), ("SAME_LOWER", "SAME_UPPER")], [("SAME_UPPER", "SAME_LOWER")]))
def test_same_padding_as_onnx_runtime_has_it(first: str, second: str) -> None:
    """The more padding lies at the end for some of the operators, and at the beginning for others."""
    made = [
        node("Conv", ["x", "w"], ["a"], strides=[2, 2], auto_pad=first),
        node("MaxPool", ["x"], ["b"], kernel_shape=[3, 2], strides=[2, 2], auto_pad=second),
        node("AveragePool", ["x"], ["c"], kernel_shape=[3, 2], strides=[2, 2], auto_pad=first),
        node("ConvTranspose", ["x", "v"], ["d"], strides=[2, 2], auto_pad=second),
    ]
    check(model(made, IMAGE, w=floats(5, 3, 3, 4), v=floats(3, 5, 3, 4)), filled(images(3)), terms=64)


def test_as_many_windows_fit_as_strides_have_begun() -> None:
    """Sizes are said so simply that what is added to such a result has the same, and padding that does not depend on the size is a number."""
    made = [node("MaxPool", ["x"], [f"y{k}{s}"], kernel_shape=[k, k], strides=[s, 1], auto_pad="SAME_LOWER") for k in (1, 2, 3) for s in (2, 3)]
    results = stepwell.lower(model(made, IMAGE), "graph", specialise="never").text(locations=False).rpartition("return")[2]
    assert [results.count(f'tensor<?x3x?x?xf32, "n, {rows}, w">') for rows in ("(h + 1) // 2", "(h + 2) // 3")] == [3, 3]
    [told] = stepwell.compile(model(made[3], IMAGE), specialise="never").outputs
    assert told.shape == ("n", 3, "(h + 2) // 3", "w")
    source = model(node("Conv", ["x", "w"], strides=[2, 1], auto_pad="SAME_UPPER"), {"x": ["n", 3, "4*h", "w"], "z": ["h"]}, w=floats(4, 3, 3, 3))
    assert "graph.pad" not in stepwell.lower(source, "graph", specialise="never").text()


POOLS: list[dict[str, Any]] = [
    {"kernel_shape": [3, 2]},
    {"kernel_shape": [2, 3], "strides": [2, 3], "pads": [1, 2, 1, 0]},
    {"kernel_shape": [3, 2], "strides": [2, 2], "dilations": [2, 3], "pads": [4, 0, 2, 3]},
    {"kernel_shape": [3, 2], "dilations": [2, 3], "pads": [3, 1, 0, 2]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1},
    {"kernel_shape": [3, 2], "strides": [3, 2], "auto_pad": "SAME_LOWER"},
    {"kernel_shape": [2, 2], "strides": [1, 2], "auto_pad": "SAME_UPPER"},
]


ORDERED = [(options, order) for order in (0, 1) for options in POOLS]


@pytest.mark.parametrize(("options", "order"), by_day(ORDERED, [(POOLS[2], 1), (POOLS[4], 0)]))
def test_indices_of_maxima(options: dict[str, Any], order: int) -> None:
    """Of few different numbers, so that the first of several maxima counts, padding being no element."""
    least = 1 if "auto_pad" in options or "ceil_mode" in options else 3  # so that each window reaches the image
    feeds = [{"x": np.round(feed["x"])} for feed in images(3) if min(feed["x"].shape[2:]) >= least]
    source = model(node("MaxPool", ["x"], ["y", "i"], storage_order=order, **options), IMAGE)
    check(source, feeds, by_meaning)


def test_indices_of_maxima_in_images_of_one_size() -> None:
    source = model(node("MaxPool", ["x"], ["y", "i"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]), {"x": ["n", 3, 5, 6]})
    check(source, filled(images(3, [(n, 5, 6) for n in (2, 1, 0, 5)])))


def test_maxima_put_back() -> None:
    """By the indices of a pooling, into images of their own size, and of a size that is told."""
    pool = node("MaxPool", ["x"], ["p", "i"], kernel_shape=[2, 3], strides=[2, 3])
    back = node("MaxUnpool", ["p", "i"], ["y"], kernel_shape=[2, 3], strides=[2, 3])
    feeds = images(3, [(2, 4, 6), (1, 2, 3), (0, 6, 3), (3, 6, 9), (1, 8, 3)])
    plain = model([pool, back], IMAGE)
    check(plain, feeds, by_meaning)
    larger = [node("Shape", ["x"], ["shape"]), node("Add", ["shape", "more"], ["s"])]
    back.input.append("s")

    def with_a_row(_: ModelProto, feed: Feed) -> Sequence[np.ndarray]:
        return [np.pad(by_meaning(plain, feed)[0], [(0, 0), (0, 0), (0, 1), (0, 0)])]

    check(model([pool, *larger, back], IMAGE, more=np.array([0, 0, 1, 0])), feeds, with_a_row)


NORMS: list[dict[str, Any]] = [
    {"kernel_shape": [1, 2]},
    {"kernel_shape": [2, 3], "p": 1, "strides": [2, 3], "pads": [1, 1, 2, 1]},
    {"kernel_shape": [3, 1], "p": 3, "strides": [2, 2], "pads": [1, 0, 1, 0], "ceil_mode": 1},
    {"kernel_shape": [1, 2], "p": 3, "strides": [2, 3], "ceil_mode": 1},
]


def test_places_that_are_known_say_the_size() -> None:
    source = model(node("MaxUnpool", ["x", "places"], kernel_shape=[2, 2], strides=[2, 2]), IMAGE, places=np.arange(12).reshape(1, 3, 2, 2) * 3)
    check(source, images(3, [(1, 2, 2)]), by_meaning)
    made = node("MaxUnpool", ["x", "i", "wanted"], kernel_shape=[2, 2], strides=[2, 2])
    source = model(made, {**IMAGE, "i": ["n", 3, "h", "w"]}, wanted=np.array([2, 3, 5, 6]))
    feeds = images(3, [(2, 2, 3), (1, 1, 2), (2, 1, 1)])
    for feed in feeds:
        feed["i"] = np.arange(feed["x"].size).reshape(feed["x"].shape)[..., ::-1] * 4
    check(source, feeds, by_meaning)


@pytest.mark.parametrize("options", NORMS)
def test_norms_of_windows(options: dict[str, Any]) -> None:
    feeds = [feed for feed in images(3) if feed["x"].shape[3] > 1 or "pads" in options]
    check(model(node("LpPool", ["x"], **options), {"x": ["n", "c", "h", "w"]}), feeds, by_meaning, terms=64)


SAMPLES = {"mode": ("linear", "nearest", "cubic"), "padding_mode": ("zeros", "border", "reflection"), "align_corners": (0, 1)}


def grids(channels: int, sizes: Sequence[tuple[int, ...]] = SIZES) -> list[Feed]:
    """Images, and places in and around them, of which there are not as many as pixels."""
    feeds = images(channels, sizes)
    for i, feed in enumerate(feeds):
        n, _, *places = feed["x"].shape
        feed["grid"] = np.random.default_rng(i).uniform(-1.7, 1.7, (n, *(1 + p // 2 for p in reversed(places)), len(places))).astype(np.float32)
    return feeds


AS_ONNX_RUNTIME = [("linear", "zeros", 0), ("cubic", "zeros", 1), ("linear", "reflection", 1), ("nearest", "border", 0)]
ROWS = list(pairwise(SAMPLES, 0))
DAY = fewest([row for row in ROWS if tuple(row.values()) not in AS_ONNX_RUNTIME], *SAMPLES)


@pytest.mark.parametrize("way", by_day(ROWS, DAY), ids=lambda way: "-".join(map(str, way.values())))
def test_samples_of_images(way: dict[str, Any]) -> None:
    source = model(node("GridSample", ["x", "grid"], **way), {**IMAGE, "grid": ["n", "rows", "columns", 2]}, opset=20)
    check(source, grids(3), by_meaning, terms=64)


def test_samples_of_volumes_and_of_any_number_of_channels() -> None:
    inputs: dict[str, list[Any]] = {"x": ["n", "k", "d", "h", "w"], "grid": ["n", "a", "b", "c", 3]}
    source = model(node("GridSample", ["x", "grid"], padding_mode="reflection", align_corners=1), inputs, opset=20)
    check(source, grids(2, [(2, 3, 4, 5), (1, 1, 1, 1), (3, 2, 5, 1), (0, 2, 2, 2), (1, 6, 1, 9)]), by_meaning, terms=64)


def test_samples_as_onnx_runtime_takes_them() -> None:
    inputs: dict[str, list[Any]] = {**IMAGE, "grid": ["n", "rows", "columns", 2]}
    made = [
        node("GridSample", ["x", "grid"], [f"y{i}"], mode=mode, padding_mode=padding, align_corners=aligned)
        for i, (mode, padding, aligned) in enumerate(AS_ONNX_RUNTIME)
    ]
    check(model(made, inputs, opset=20), filled(grids(3)), terms=64)


def regions(sizes: Sequence[tuple[int, ...]], columns: int) -> list[Feed]:
    feeds = filled(images(3, sizes))
    for i, feed in enumerate(feeds):
        random, (n, _, h, w), count = np.random.default_rng(i), feed["x"].shape, (4, 0, 1, 7)[i % 4]
        corners = random.uniform(-2, 1.3, (count, 4)) * [w, h, w, h]
        numbers = random.integers(0, n, count)
        feed["rois"] = np.concatenate([numbers[:, np.newaxis], corners][columns == 4 :], axis=1).astype(np.float32)
        feed["i"] = numbers
    return feeds


@pytest.mark.parametrize(("mode", "samples", "coordinates"), [("avg", 0, "half_pixel"), ("max", 2, "output_half_pixel"), ("avg", 3, "half_pixel")])
def test_regions_of_images(mode: str, samples: int, coordinates: str) -> None:
    options = {"output_height": 2, "output_width": 3, "spatial_scale": 0.5, "coordinate_transformation_mode": coordinates}
    made = node("RoiAlign", ["x", "rois", "i"], mode=mode, sampling_ratio=samples, **options)
    source = model(made, {**IMAGE, "rois": ["r", 4], "i": ["r"]})
    compiled = check(source, regions(SIZES, 4), by_onnx_runtime if samples == 3 else by_meaning, terms=64)
    with pytest.raises(stepwell.IndexRangeError, match="-4 is out of range"):
        compiled.run({"x": floats(3, 3, 4, 4), "rois": floats(1, 4), "i": np.array([-1])})


def test_greatest_pixels_of_regions() -> None:
    source = model(node("MaxRoiPool", ["x", "rois"], pooled_shape=[2, 3], spatial_scale=0.5), {**IMAGE, "rois": ["r", 5]})
    feeds = [{name: feed[name] for name in ("x", "rois")} for feed in regions(SIZES, 5)]
    check(source, feeds)


def test_images_without_pixels_have_code_of_their_own() -> None:
    source = model(node("GridSample", ["x", "grid"]), {**IMAGE, "grid": ["n", "rows", "columns", 2]}, opset=20)
    check(source, grids(3, [(2, 3, 4), (1, 0, 3), (2, 1, 1)]), by_meaning, terms=64, others=1)


DEFORMED: list[dict[str, Any]] = [
    {"pads": [1, 2, 1, 0], "strides": [2, 1]},
    {"dilations": [1, 2], "offset_group": 3, "group": 3, "pads": [1, 3, 1, 2]},
]


@pytest.mark.parametrize("options", DEFORMED)
def test_deformed_convolutions(options: dict[str, Any]) -> None:
    groups, (strides, pads) = options.get("offset_group", 1), (options.get("strides", [1, 1]), options["pads"])
    spans = [2, 2 * (options.get("dilations", [1, 1])[1]) + 1]
    feeds = images(3, [(2, 5, 4), (1, 1, 1), (0, 3, 3), (3, 2, 6), (1, 4, 3)])
    for i, feed in enumerate(feeds):
        n, _, *places = feed["x"].shape
        out = [(size + pads[d] + pads[2 + d] - spans[d]) // strides[d] + 1 for d, size in enumerate(places)]
        feed["offset"], feed["mask"] = floats(n, groups * 12, *out, seed=i), floats(n, groups * 6, *out, seed=i + 9)
    inputs: dict[str, list[Any]] = {**IMAGE, "offset": ["n", groups * 12, "oh", "ow"], "mask": ["n", groups * 6, "oh", "ow"]}
    made = node("DeformConv", ["x", "w", "offset", "b", "mask"], **options)
    source = model(made, inputs, w=floats(6, 3 // options.get("group", 1), 2, 3), b=floats(6))
    compiled = check(source, feeds, by_meaning, terms=64)
    for feed in filled(feeds):
        if min(feed["x"].shape[2:]) > 1:  # ONNX's evaluator divides by the size less 1
            [want], got = ReferenceEvaluator(source).run(None, feed), compiled.run(feed)["y"]
            np.testing.assert_allclose(got, want, rtol=0, atol=64 * 2**-23 * np.abs(want).max(initial=1))


@pytest.mark.parametrize("options", [{"strides": [2, 3], "output_padding": [1, 0]}, {"pads": [1, 0, 0, 1], "dilations": [2, 1]}, {"group": 3}])
def test_transposed_convolutions_with_filters_that_are_computed(options: dict[str, Any]) -> None:
    source = model(node("ConvTranspose", ["x", "w"], **options), {**IMAGE, "w": [3, 2, 3, 2]})
    feeds = [{**feed, "w": floats(3, 2, 3, 2, seed=i)} for i, feed in enumerate(filled(images(3)))]
    check(source, feeds, terms=64)
