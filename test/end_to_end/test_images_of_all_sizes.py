"""Convolutional networks with a free batch, height and width: one program gives what ONNX Runtime does for each size, whatever came before."""

from collections.abc import Sequence
from typing import Any

import guarded
import numpy as np
import onnxruntime
import pytest
from covering import by_day
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

import stepwell
from stepwell.driver.dynamic import DynamicModel

SIZES = ((2, 9, 14), (1, 1, 1), (1, 17, 5), (3, 16, 16), (0, 9, 9), (1, 2, 33), (2, 31, 30), (1, 8, 7), (5, 3, 4), (1, 12, 44), (2, 9, 14))
FREE = {"batch": (True, False, False), "image": (False, True, True), "both": (True, True, True)}
FIXED = (2, 13, 18)


class Net:
    """A network under construction on one image; each layer takes and gives the name of a tensor."""

    def __init__(self, channels: int) -> None:
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []
        self.channels, self.taken = channels, channels

    def op(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def weight(self, *shape: int, scale: float = 1.0) -> str:
        name = f"w{len(self.weights)}"
        values = np.random.default_rng([len(self.weights), *shape]).standard_normal(shape, np.float32) * np.float32(scale)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def conv(self, x: str, channels: tuple[int, int], kernel: int = 1, group: int = 1, **attributes: Any) -> str:
        """With a bias, padded to keep the size unless told."""
        w = self.weight(channels[1], channels[0] // group, kernel, kernel, scale=(channels[0] // group * kernel**2) ** -0.5)
        attributes.setdefault("pads", [attributes.get("dilations", [1])[0] * (kernel // 2)] * 4)
        return self.op("Conv", [x, w, self.weight(channels[1])], group=group, **attributes)

    def model(self, result: str, free: tuple[bool, bool, bool]) -> ModelProto:
        names = [name if is_free else size for name, is_free, size in zip("nhw", free, FIXED, strict=True)]
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [names[0], self.channels, *names[1:]])
        y = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
        return helper.make_model(
            helper.make_graph(self.nodes, "image", [x], [y], self.weights), opset_imports=[helper.make_opsetid("", 18)], ir_version=9
        )


def plain() -> tuple[Net, str]:
    """Strides, several blocks of channels, filters that fill blocks in part, and pooling."""
    net = Net(3)
    y = net.op("Relu", [net.conv("x", (3, 24), 3, strides=[2, 2])])
    y = net.op("MaxPool", [y], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    y = net.op("Relu", [net.conv(y, (24, 40))])
    y = net.conv(y, (40, 33), 5, pads=[2, 2, 2, 2], strides=[1, 2])
    return net, y


def winograd() -> tuple[Net, str]:
    """3x3 convolutions of many channels in a row, of which the second reads what the first pads, and a sum."""
    net = Net(64)
    a = net.op("Relu", [net.conv("x", (64, 64), 3)])
    b = net.op("Relu", [net.conv(a, (64, 64), 3)])
    return net, net.op("Relu", [net.op("Add", [b, a])])


def depthwise() -> tuple[Net, str]:
    """An inverted residual, with steps of 1 and 2."""
    net = Net(16)
    y = net.op("Relu", [net.conv("x", (16, 96))])
    y = net.op("Relu", [net.conv(y, (96, 96), 3, group=96)])
    x = net.op("Add", [net.conv(y, (96, 16)), "x"])
    y = net.op("Relu", [net.conv(net.op("Relu", [net.conv(x, (16, 48))]), (48, 48), 3, group=48, strides=[2, 2])])
    return net, net.conv(y, (48, 24))


def shuffled() -> tuple[Net, str]:
    """Grouped convolutions with a permutation of channels between them."""
    net = Net(24)
    net.weights.append(numpy_helper.from_array(np.array([0, 4, 6, -1], np.int64), "apart"))
    net.weights.append(numpy_helper.from_array(np.array([0, 0, 0, -1], np.int64), "same"))
    y = net.op("Relu", [net.conv("x", (24, 48), 1, group=4)])
    y = net.conv(y, (48, 48), 3, group=48)
    y = net.conv(y, (48, 24), 1, group=4)
    return net, net.op("Relu", [net.op("Concat", [y, "x"], axis=1)])


def joined() -> tuple[Net, str]:
    """Branches of several kernels that are joined, some of them poolings, and normalised across channels."""
    net = Net(32)
    x = net.op("Relu", [net.conv("x", (32, 32))])
    parts = [net.op("Relu", [net.conv(x, (32, 16))]), net.op("Relu", [net.conv(x, (32, 48), 3)]), net.op("Relu", [net.conv(x, (32, 10), 5)])]
    parts.append(net.conv(net.op("MaxPool", [x], kernel_shape=[3, 3], pads=[1, 1, 1, 1]), (32, 16)))
    y = net.op("Concat", parts, axis=1)
    y = net.op("LRN", [net.op("Relu", [y])], size=5, alpha=1e-2, beta=0.75, bias=1.0)
    return net, net.conv(y, (90, 20))


def dilated() -> tuple[Net, str]:
    """Windows that reach far beyond small images."""
    net = Net(16)
    y = net.op("Relu", [net.conv("x", (16, 32), 3, dilations=[4, 4])])
    return net, net.conv(y, (32, 16), 3, dilations=[2, 2])


def scored() -> tuple[Net, str]:
    """Squeezed and excited, pooled, and classified."""
    net = Net(8)
    x = net.op("Relu", [net.conv("x", (8, 32), 3)])
    y = net.op("Sigmoid", [net.conv(net.op("Relu", [net.conv(net.op("GlobalAveragePool", [x]), (32, 16))]), (16, 32))])
    y = net.op("Mul", [x, y])
    y = net.op("AveragePool", [y], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1)
    y = net.op("Flatten", [net.op("GlobalAveragePool", [net.op("Relu", [net.conv(y, (32, 48))])])], axis=1)
    y = net.op("Gemm", [y, net.weight(48, 10, scale=0.2), net.weight(10)])
    return net, net.op("Softmax", [y], axis=1)


def pooled() -> tuple[Net, str]:
    """Windows that hang over the end, and means of those elements that lie inside."""
    net = Net(3)
    y = net.op("Relu", [net.conv("x", (3, 24), 3)])
    y = net.op("MaxPool", [y], kernel_shape=[3, 3], strides=[2, 3], pads=[0, 1, 1, 0], ceil_mode=1)
    return net, net.op("AveragePool", [y], kernel_shape=[2, 3], strides=[2, 1], pads=[0, 1, 0, 1], ceil_mode=1)


def pooled_often() -> tuple[Net, str]:
    """Every kind of mean too."""
    net = Net(3)
    y = net.op("Relu", [net.conv("x", (3, 24), 3)])
    y = net.op("AveragePool", [y], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    y = net.op("MaxPool", [y], kernel_shape=[3, 3], strides=[2, 3], pads=[0, 1, 1, 0], ceil_mode=1)
    y = net.op("AveragePool", [y], kernel_shape=[3, 3], strides=[2, 3], pads=[1, 0, 1, 1], ceil_mode=1, count_include_pad=1)
    return net, net.op("AveragePool", [y], kernel_shape=[2, 3], strides=[2, 1], pads=[0, 1, 0, 1], ceil_mode=1)


def enlarged() -> tuple[Net, str]:
    """Transposed convolutions: of whole phases, of phases that are cut, and in groups."""
    net = Net(8)
    y = net.op("Relu", [net.conv("x", (8, 32), 3)])
    y = net.op("ConvTranspose", [y, net.weight(32, 32, 2, 2, scale=0.1)], strides=[2, 2])
    y = net.op("ConvTranspose", [net.op("Relu", [y]), net.weight(32, 16, 3, 3, scale=0.1)], strides=[2, 2], pads=[1] * 4, output_padding=[1, 0])
    y = net.op("ConvTranspose", [net.op("Relu", [y]), net.weight(16, 8, 3, 3, scale=0.1)], dilations=[2, 1], pads=[2, 1, 2, 1], group=2)
    return net, net.conv(y, (16, 8), 3)


NETS = {make.__name__: make for make in (plain, winograd, depthwise, shuffled, joined, dilated, scored, pooled, enlarged, pooled_often)}


WAYS = (("batch", 1), ("image", 2), ("both", 1))
CASES = [(name, free, threads) for name in NETS for free, threads in WAYS]
DAY = [(name, *WAYS[(i + 1) % 3]) for i, name in enumerate(NETS) if name != "pooled_often"]


@pytest.mark.parametrize(("name", "free", "threads"), by_day(CASES, DAY))
def test_images_of_many_sizes_in_turn(name: str, free: str, threads: int) -> None:
    net, result = NETS[name]()
    source = net.model(result, FREE[free])
    levels: list[str] = []
    compiled = stepwell.compile(source, specialise="never", threads=threads, on_level=lambda level, _: levels.append(level))
    assert isinstance(compiled, DynamicModel)
    compiled_levels = len(levels)
    session = onnxruntime.InferenceSession(source.SerializeToString(), providers=["CPUExecutionProvider"])
    for i, size in enumerate(SIZES):
        shape = [n if is_free else fixed for n, is_free, fixed in zip(size, FREE[free], FIXED, strict=True)]
        x = np.random.default_rng(i).standard_normal((shape[0], net.channels, *shape[1:]), np.float32)
        want = session.run(None, {"x": x})[0] if x.size else None  # of nothing ONNX Runtime makes nothing, or an error
        given = compiled.specialise({"x": x.shape})
        for got in (compiled.run({"x": x})[result], *([guarded.run(given, {"x": x}, i % 3)[result]] if threads == 1 else [])):
            if want is None:
                assert got.shape[0] == 0
                continue
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4 * np.abs(want).max(initial=1))
    assert len(levels) == compiled_levels, "something was compiled for one of the sizes"


@pytest.mark.parametrize("by", by_day(["call", "data"], ["data"]))
def test_windows_without_padding_at_the_end(by: str) -> None:
    """Outputs smaller than the input, channels that fill blocks in part: nothing behind them that would hide how types differ."""
    net = Net(13)
    x = "x" if by == "call" else net.op("Compress", ["x", "keep"], axis=2)
    outputs = [
        net.conv(x, (13, 31), 3, pads=[0] * 4), net.conv(x, (13, 32), 3, pads=[0] * 4), net.conv(x, (13, 21), 3, pads=[0] * 4, strides=[2, 2]),
        net.conv(x, (13, 21), 2, pads=[0, 1, 0, 0], dilations=[2, 1]), net.conv(net.op("Relu", [net.conv(x, (13, 16), 3, pads=[0] * 4)]), (16, 21)),
        net.conv(net.op("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2]), (13, 21)), net.op("AveragePool", [x], kernel_shape=[2, 3]),
        net.op("LpPool", [net.conv(x, (13, 12), 1)], kernel_shape=[3, 1], strides=[3, 1]),
        net.op("Transpose", [net.conv(x, (13, 21), 3, pads=[0] * 4)], perm=[0, 2, 3, 1]),
        net.op("ConvTranspose", [x, net.weight(13, 9, 2, 2)], strides=[2, 2], pads=[1, 1, 0, 0]),
    ]  # fmt: skip
    source = net.model(outputs[0], FREE["both"] if by == "call" else (False,) * 3)
    source.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs[1:])
    if by == "data":
        source.graph.input.append(helper.make_tensor_value_info("keep", TensorProto.BOOL, FIXED[1:2]))
    compiled = stepwell.compile(source, specialise="never", threads=1)
    session = onnxruntime.InferenceSession(source.SerializeToString(), providers=["CPUExecutionProvider"])
    for n, h, w in ((1, 9, 14), (2, 13, 18), (1, 3, 5)):
        image = np.random.default_rng(h).standard_normal((n, 13, h, w) if by == "call" else (FIXED[0], 13, *FIXED[1:]), np.float32)
        feeds = {"x": image} | ({"keep": np.arange(FIXED[1]) < h} if by == "data" else {})
        got = compiled.run(feeds)
        for name, want in zip(outputs, session.run(outputs, feeds), strict=True):
            np.testing.assert_allclose(got[name], want, rtol=1e-4, atol=1e-4, err_msg=f"{name} of {h} x {w}")
