"""What is chosen for any number of images is a good choice for one as well: the tile of Winograd's method, loops, what is likely."""

from typing import Any

import numpy as np
import onnx
import pytest
from covering import by_day
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import stepwell
from stepwell.analysis.explain import Explanation
from stepwell.dialects.core.mlir import ops_below
from stepwell.dialects.core.sizes import symbol
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.sched.schedule_info import ScheduleInfo
from stepwell.driver.lowering import usual_sizes
from stepwell.passes.linalg.structured import Structured


def convolution(batch: str | int, channels: int, filters: int, image: int) -> onnx.ModelProto:
    """A 3x3 convolution with a Relu."""
    random = np.random.default_rng([channels, filters, image])
    w = (random.standard_normal((filters, channels, 3, 3)) / (3 * channels**0.5)).astype(np.float32)
    shapes = [[batch, count, image, image] for count in (channels, filters)]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in zip("xy", shapes, strict=True))
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c"], ["y"], name="relu")]
    return helper.make_model(helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(w, "w")]), opset_imports=[helper.make_opsetid("", 17)])


def winograd(batch: str | int) -> str:
    """How the pass computes a convolution of 512 channels on 14x14 positions."""
    told, options = Explanation(), dict[str, Any](specialise="never") if batch == "n" else {}
    stepwell.lower(convolution(batch, 512, 512, 14), "graph-opt", target="x86-64-v4", instrumentation=told, **options)
    return next(d.what for d in told.decisions if d.by == "use-winograd")


def test_the_tile_is_the_one_that_costs_least_more_at_worst() -> None:
    """Four images pay for transforming plain filters each time, to read less; one does so by the smaller tile. Both come close without either."""
    assert winograd(1) == "computed by F(2, 3), with filters transformed now"
    assert winograd(4) == "computed by F(4, 3), with filters transformed each time, a block at a time"
    assert winograd("n") == "computed by F(4, 3), with filters transformed now"


@pytest.mark.parametrize(("channels", "filters", "image"), [(128, 32, 56), (128, 32, 28), (128, 32, 14), (64, 64, 32)])
def test_register_tiles_are_of_what_is_known(channels: int, filters: int, image: int) -> None:
    """A tile over images would be full for four of them, and a quarter full for one."""
    assert_tiles_of_known_loops(convolution("n", channels, filters, image), "x86-64-v4")


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_the_search_does_not_tile_over_images_either(target: str) -> None:
    """Four groups of 136 filters on 7x7 positions, shuffled for the depthwise convolution that follows: no known loop has many rounds."""
    random = np.random.default_rng(0)
    weights = {"w": (544, 136, 1, 1), "d": (544, 1, 3, 3), "v": (544, 136, 1, 1)}
    arrays = [numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name) for name, shape in weights.items()]
    arrays += [numpy_helper.from_array(np.array(shape), name) for name, shape in {"split": (0, 4, 136, 7, 7), "whole": (0, 544, 7, 7)}.items()]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], group=4), helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Reshape", ["b", "split"], ["c"]), helper.make_node("Transpose", ["c"], ["e"], perm=[0, 2, 1, 3, 4]),
        helper.make_node("Reshape", ["e", "whole"], ["f"]), helper.make_node("Conv", ["f", "d"], ["g"], group=544, pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["g", "v"], ["y"], group=4),
    ]  # fmt: skip
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 544, 7, 7]) for name in "xy")
    source = helper.make_model(helper.make_graph(nodes, "g", [x], [y], arrays), opset_imports=[helper.make_opsetid("", 17)])
    assert_tiles_of_known_loops(source, target)


def assert_tiles_of_known_loops(source: onnx.ModelProto, target: str) -> None:
    """No register tile of a contraction takes several rounds of a loop that only a run counts."""
    lowered = stepwell.lower(source, "scheduled", target=target, specialise="never")
    tiles = []
    with lowered.module.context:
        for op in ops_below(lowered.module.operation, "linalg.generic"):
            root, nest = Structured(op), ScheduleInfo(op).nest
            if root.kind == "contraction" and nest is not None:
                tiles.append([count for dim, count in enumerate(nest.unroll) if dim in root.free])
    assert tiles
    assert all(count == 1 for tile in tiles for count in tile)


@pytest.mark.parametrize("image", by_day([7, 12, 30], [7, 30]))
def test_results_are_right(image: int) -> None:
    source = convolution("n", 32, 48, image)
    general, right = stepwell.compile(source, specialise="never"), ReferenceEvaluator(source)
    for count in (1, 4, 3, 0, 9):
        x = np.random.default_rng(count).standard_normal((count, 32, image, image)).astype(np.float32)
        [expected], [found] = right.run(None, {"x": x}), general(x)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5 * np.abs(expected).max(initial=1.0))


def test_few_images_have_filters_of_their_own() -> None:
    """One image of 7x7 positions reads filters of F(2, 3), which are less than half as many as those of F(4, 3); more images read these."""
    source = convolution("n", 128, 192, 7)
    text = stepwell.lower(source, "graph-opt", target="x86-64-v3", specialise="never").text()
    assert 'stepwell.version = {most = 1 : i64, of = "packed_winograd_conv_' in text
    assert "tile = 2 : i64" in text
    assert "tile = 4 : i64" in text
    general = stepwell.compile(source, target="x86-64-v3", specialise="never")
    usual = stepwell.compile(source, target="x86-64-v3", specialise="never", disable=["version-winograd"])
    right = ReferenceEvaluator(source)
    x = np.random.default_rng(7).standard_normal((5, 128, 7, 7)).astype(np.float32)
    [expected] = right.run(None, {"x": x})
    for count in (1, 5, 2, 0, 1, 4):
        for program in (general, usual):
            [found] = program(x[:count])
            np.testing.assert_allclose(found, expected[:count], rtol=0, atol=2e-5 * np.abs(expected).max())
        assert np.array_equal(*(program(x[:count])[0] for program in (general, usual))) == (count != 1)  # F(2, 3) rounds in another way


def test_few_images_have_a_version_of_their_own() -> None:
    """5 MB of filters are transformed all at once for many images, and a few at a time for one or two: a kernel has both, and takes the one or the
    other. Whichever it is, memory is enough, also where it was made for the other one."""
    source = convolution("n", 256, 512, 28)
    lowered = stepwell.lower(source, "affine", target="x86-64-v3", specialise="never")
    assert 'stepwell.version = {most = 2 : i64, of = "packed_winograd_conv_' in str(lowered.snapshots["scheduled"])
    assert ".few" not in lowered.text()
    general = stepwell.compile(source, target="x86-64-v3", specialise="never")
    right = ReferenceEvaluator(source)
    x = np.random.default_rng(7).standard_normal((4, 256, 28, 28)).astype(np.float32)
    [expected] = right.run(None, {"x": x})
    for count in (1, 4, 2, 3, 0, 1):
        [found] = general(x[:count])
        np.testing.assert_allclose(found, expected[:count], rtol=0, atol=2e-5 * np.abs(expected).max())


@pytest.mark.parametrize(("operator", "inside"), by_day([("MaxPool", 14), ("AveragePool", 14), (None, 28)], [("MaxPool", 14), (None, 28)]))
def test_what_is_fused_for_four_images_is_fused_for_any_number(operator: str | None, inside: int) -> None:
    """A convolution whose result, or what is pooled of it, goes into a border of zeros is one loop over slices, for each kernel of either program."""
    counts = [nests(convolutions(batch, operator, inside)) for batch in (4, "n")]
    assert counts[0] == counts[1] == [1] * len(counts[0])


def convolutions(batch: str | int, operator: str | None, inside: int) -> onnx.ModelProto:
    """Two 3x3 convolutions of 64 channels with a pooling between them."""
    random = np.random.default_rng(inside)
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["a"], ["b"])]
    if operator is not None:
        nodes.append(helper.make_node(operator, ["b"], ["p"], kernel_shape=[2, 2], strides=[2, 2]))
    nodes.append(helper.make_node("Conv", ["p" if operator else "b", "v"], ["y"], pads=[1, 1, 1, 1]))
    weights = [numpy_helper.from_array((random.standard_normal((64, 64, 3, 3)) / 24).astype(np.float32), name) for name in "wv"]
    shapes = {"x": [batch, 64, 28, 28], "y": [batch, 64, inside, inside]}
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items())
    return helper.make_model(helper.make_graph(nodes, "g", [x], [y], weights), opset_imports=[helper.make_opsetid("", 17)])


def nests(source: onnx.ModelProto) -> list[int]:
    """How many parallel loops each kernel has that has some."""
    lowered = stepwell.lower(source, "affine", target="x86-64-v3", specialise="never", disable=["version-kernels"])
    with lowered.module.context:
        kernels = [len(ops_below(kernel, "affine.parallel")) for kernel in ops_below(lowered.module.operation, "func.func")]
    return [count for count in kernels if count]


def test_what_is_likely() -> None:
    def usual(*shapes: tuple[int | str, ...]) -> dict[str, int]:
        types = [TensorType("f32", tuple(symbol(size) if isinstance(size, str) else size for size in shape)) for shape in shapes]
        return usual_sizes([(f"x{i}", kind) for i, kind in enumerate(types)])

    assert usual(("n", 3, "h", "w")) == {"n": 4, "h": 224, "w": 224}  # an image
    assert usual(("n", 64, "h", "w")) == {"n": 4}  # what another network made of one
    assert usual(("batch_size", "tokens"), ("batch_size", 12, "past", 64)) == {"batch_size": 4}
    assert usual(("length", "batch", 8)) == {"batch": 4}
    assert usual(("rows", 20), ("length", 1, 8)) == {}
    assert usual(("n", "n", 5, 5)) == {"n": 4}
