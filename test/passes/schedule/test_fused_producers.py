"""Convolutions that compute what they read, by results: as computed apart, whatever the sizes and the threads."""

import re
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
from covering import split_by_day
from native_checks import check_model, natively_together
from onnx import TensorProto, helper, numpy_helper

import stepwell
from stepwell.passes.schedule import fuse_loops
from stepwell.passes.schedule.fuse_loops import FuseLoops
from stepwell.passes.schedule.loop_plans import Room

EPSILON = np.finfo(np.float32).eps


class Net:
    """Builds a network of convolutions with random filters."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(self.rng.uniform(-1, 1, shape).astype(np.float32), name))
        return name

    def add(self, kind: str, *inputs: str, **attributes: object) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def model(self, shape: list[int], outputs: list[str]) -> onnx.ModelProto:
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
        results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "g", inputs, results, self.weights)
        return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))


def before_activated(seed: int, channels: int, filters: int, size: tuple[int, int], images: int, *, residual: bool) -> onnx.ModelProto:
    """A convolution whose result is scaled, moved, and cut off at zero before a pointwise one reads it, and is a result too."""
    net = Net(seed)
    data = net.add("Conv", "x", net.weight(channels, 3, 1, 1))
    moved = net.add("Add", net.add("Mul", data, net.weight(channels, 1, 1)), net.weight(channels, 1, 1))
    y = net.add("Conv", net.add("Relu", moved), net.weight(filters, channels, 1, 1), net.weight(filters))
    if residual:
        y = net.add("Add", y, net.add("Conv", "x", net.weight(filters, 3, 1, 1)))
    return net.model([images, 3, *size], [y, data])


def separable(seed: int, channels: int, filters: int, size: tuple[int, int], images: int, *, residual: bool, stride: int) -> onnx.ModelProto:
    """A pointwise convolution, a depthwise one, and a pointwise one that reads it."""
    net = Net(seed)
    data = net.add("Conv", "x", net.weight(channels, 3, 1, 1))
    deep = net.add("Conv", data, net.weight(channels, 1, 3, 3), net.weight(channels), group=channels, pads=[1, 1, 1, 1], strides=[stride, stride])
    y = net.add("Conv", net.add("Relu", deep), net.weight(filters, channels, 1, 1))
    if residual:
        y = net.add("Add", y, net.add("Conv", "x", net.weight(filters, 3, 1, 1), strides=[stride, stride]))
    return net.model([images, 3, *size], [y])


def pooled(seed: int, channels: int, filters: int, windows: tuple[int, int], images: int, kind: str) -> onnx.ModelProto:
    """A convolution of what is activated, whose own result is activated and pooled: so many windows of 2 to 4 rows and 1 to 3 columns."""
    net = Net(seed)
    kernel, strides, window = ([1 + seed % 2, 1 + seed % 3], [1 + seed % 2, 1], [2 + seed % 3, 1 + seed % 3])
    data = net.add("Sigmoid", net.add("Conv", "x", net.weight(channels, 3, 1, 1)))
    y = net.add("Conv", data, net.weight(filters, channels, *kernel), net.weight(filters), strides=strides)
    y = net.add(kind, net.add("LeakyRelu", y), kernel_shape=window, strides=window)
    size = [(n * w - 1) * s + k for n, w, s, k in zip(windows, window, strides, kernel, strict=True)]
    return net.model([images, 3, *size], [net.add("Conv", y, net.weight(5, filters, 1, 1))])


SIZES = [(1, 1), (1, 15), (7, 7), (9, 4), (15, 13)]
CHANNELS = [(3, 24), (58, 7), (24, 58), (16, 33), (40, 3)]
CASES = [
    *(before_activated(n, *CHANNELS[n], size, 1 + n % 2, residual=n % 3 == 0) for n, size in enumerate(SIZES)),
    *(separable(n, *CHANNELS[n], size, 1 + n % 2, residual=n % 3 == 1, stride=1 + n % 2) for n, size in enumerate(SIZES)),
    *(pooled(n, *CHANNELS[n], size, 1 + n % 2, ("MaxPool", "AveragePool")[n % 2]) for n, size in enumerate(SIZES)),
]


def magnitudes(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the sizes of its weights: of what is positive it computes the sum of the sizes of all that the model sums."""
    other = onnx.ModelProto()
    other.CopyFrom(model)
    for weight in other.graph.initializer:
        weight.CopyFrom(numpy_helper.from_array(np.abs(numpy_helper.to_array(weight)), weight.name))
    return other


@pytest.fixture(params=[0, 2], ids=["by_size", "two_chunks_of_rows"])
def chunks(request, monkeypatch):
    """In how many pieces rows are computed; these images are too small for slices of their own accord."""
    if request.param:
        monkeypatch.setattr(FuseLoops, "_chunks", lambda *_: request.param)
        monkeypatch.setattr(fuse_loops, "Room", lambda *limits, costs: Room(*limits, replace(costs, streamed_share=0.0)))


BY_NIGHT = (1, 2, 5, 8, 10, 14)  # what they have, others have too: a residual, a stride, a kind of pooling, several images, one place
ORDERED = [[pytest.param(case, id=f"case{i}") for i, case in enumerate(CASES) if (i in BY_NIGHT) == night] for night in (False, True)]


@natively_together
@split_by_day("model", *ORDERED)
def test_it_gives_what_another_runtime_gives(model, chunks):
    x = np.random.default_rng(1).uniform(-1, 1, [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]).astype(np.float32)
    want = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    sizes = onnxruntime.InferenceSession(magnitudes(model).SerializeToString()).run(None, {"x": np.abs(x)})
    terms = sum(int(np.prod(w.dims[1:])) + 2 for w in model.graph.initializer)
    first = {}

    def judge(got):
        for output, expected, size in zip(model.graph.output, want, sizes, strict=True):
            assert (np.abs(got[output.name] - expected) <= EPSILON * terms * size).all()
            np.testing.assert_array_equal(got[output.name], first.setdefault(output.name, got[output.name]))

    check_model(model, {"x": x}, judge, threads=(1, 2))
    check_model(model, {"x": x}, judge, threads=[1], disable=("fuse-producers",))


def test_a_pooling_keeps_rows_of_what_is_pooled():
    model = pooled(1, 16, 64, (12, 40), 1, "MaxPool")  # 3 x 2 windows in 36 x 80 positions
    whole = 64 * 36 * 80 * 4
    slices = [int(n) for n in re.findall(r"stepwell.scratch_bytes = (\d+)", lowered(model, "affine", target="x86-64-v3"))]
    assert len(slices) == 1
    assert 0 < slices[0] <= whole * 2 / 3
    plain = lowered(model, "affine", target="x86-64-v3", disable=["fuse-loops"])
    assert str(whole) in re.findall(r"stepwell.scratch_bytes = (\d+)", plain)


def lowered(model: onnx.ModelProto, level: str, **options: object) -> str:
    return stepwell.lower(model, level, **options).text()


def test_a_kernel_keeps_a_slice_of_what_it_hands_on():
    model = separable(0, 64, 24, (56, 56), 1, residual=False, stride=1)
    text = lowered(model, "affine", target="x86-64-v3")
    slices = [int(n) for n in re.findall(r"stepwell.scratch_bytes = (\d+)", text)]
    assert len(slices) == 1
    assert 0 < slices[0] <= 2 * 64 * 56 * 56  # half of it; and no call for it alone
    assert lowered(model, "graph-opt").count("call @packed_") == lowered(model, "graph-opt", disable=["fuse-producers"]).count("call @packed_") - 1
