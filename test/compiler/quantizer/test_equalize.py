"""Cross-layer equalisation: networks compute the same, and the weights of neighbours have the same range in each channel."""

import numpy as np
import onnx
import pytest
from float_networks import FloatNet as Net
from onnx import numpy_helper

from stepwell.analysis.compare import run_onnxruntime
from stepwell.quantizer.equalize import equalized
from stepwell.quantizer.graphs import Links


def arrays(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def check_same(model: onnx.ModelProto, changed: onnx.ModelProto, *shape: int) -> None:
    """The two compute the same, up to rounding: each layer's sums have well below 1000 terms."""
    onnx.checker.check_model(changed, full_check=True)
    x = np.random.default_rng(7).normal(0.2, 1, shape).astype(np.float32)
    want, got = (run_onnxruntime(m, {"x": x})[model.graph.output[0].name] for m in (model, changed))
    assert np.abs(got - want).max() <= 1000 * np.finfo(np.float32).eps * np.abs(want).max()
    assert np.abs(want).max() > 0.1


def largest(array: np.ndarray, axis: int) -> np.ndarray:
    return np.abs(array).max(axis=tuple(i for i in range(array.ndim) if i != axis))


def test_a_pair_of_convolutions():
    net = Net(0)
    h = net.op("Relu", net.op("Conv", "x", net.weight(6, 3, 3, 3), net.weight(6), pads=[1] * 4))
    model = net.model(net.op("Conv", h, net.weight(5, 6, 1, 1), net.weight(5)), 2, 3, 8, 8)
    before = arrays(model)
    changed, notes = equalized(model)
    after = arrays(changed)
    check_same(model, changed, 2, 3, 8, 8)
    assert notes[0] == "conv0, conv2: equalised over 6 channels"
    assert notes[1] == "conv2: left: 'conv2.y' is an output or has several readers"
    np.testing.assert_allclose(largest(after["w0"], 0), largest(after["w2"], 1), rtol=1e-5)
    np.testing.assert_allclose(largest(after["w0"], 0), np.sqrt(largest(before["w0"], 0) * largest(before["w2"], 1)), rtol=1e-5)
    np.testing.assert_allclose(after["w1"] / before["w1"], largest(after["w0"], 0) / largest(before["w0"], 0), rtol=1e-5)
    np.testing.assert_array_equal(after["w3"], before["w3"])
    assert all(np.array_equal(before[name], array) for name, array in arrays(model).items()), "the caller's model is as it was"


def test_through_a_depthwise_convolution():
    """All three layers of a block as MobileNet has it end with the geometric mean of their ranges."""
    net = Net(1)
    h = net.op("Relu", net.op("Conv", "x", net.weight(8, 3, 1, 1)))
    h = net.op("LeakyRelu", net.op("Conv", h, net.weight(8, 1, 3, 3), group=8), alpha=0.1)
    model = net.model(net.op("Conv", h, net.weight(4, 8, 1, 1)), 1, 3, 9, 9)
    before = arrays(model)
    changed, notes = equalized(model)
    after = arrays(changed)
    check_same(model, changed, 1, 3, 9, 9)
    assert [note.split(":")[1] for note in notes[:2]] == [" equalised over 8 channels"] * 2
    ranges = [largest(after[name], axis) for name, axis in (("w0", 0), ("w1", 0), ("w2", 1))]
    mean = np.cbrt(np.prod([largest(before[name], axis) for name, axis in (("w0", 0), ("w1", 0), ("w2", 1))], axis=0))
    for found in ranges:
        np.testing.assert_allclose(found, mean, rtol=1e-2)


def test_groups():
    """Filters of groups read the channels of their group alone: 2 groups make 6 channels, 3 groups read them."""
    net = Net(2)
    h = net.op("Relu", net.op("Conv", "x", net.weight(6, 2, 3, 3), group=2))
    model = net.model(net.op("Conv", h, net.weight(9, 2, 1, 1), group=3), 1, 4, 6, 6)
    changed, notes = equalized(model)
    check_same(model, changed, 1, 4, 6, 6)
    assert notes[0].endswith("equalised over 6 channels")
    after = arrays(changed)
    read = largest(after["w1"].reshape(3, 3, 2).transpose(0, 2, 1).reshape(6, 3), 0)
    np.testing.assert_allclose(largest(after["w0"], 0), read, rtol=1e-5)


def test_transposed_convolutions_with_groups():
    net = Net(3)
    h = net.op("PRelu", net.op("ConvTranspose", "x", net.weight(4, 3, 2, 2), group=2, strides=[2, 2]), net.weight(6, 1, 1))
    model = net.model(net.op("ConvTranspose", h, net.weight(6, 2, 2, 2), group=3), 1, 4, 3, 3)
    changed, notes = equalized(model)
    check_same(model, changed, 1, 4, 3, 3)
    assert notes[0].endswith("equalised over 6 channels")
    after = arrays(changed)
    made = np.abs(after["w0"].reshape(2, 2, 3, 4)).max(axis=(1, 3)).reshape(6)
    np.testing.assert_allclose(made, largest(after["w2"], 0), rtol=1e-5)


@pytest.mark.parametrize("transposed", [False, True])
def test_a_product_reads_a_flattened_image(transposed):
    net = Net(4)
    h = net.op("MaxPool", net.op("Relu", net.op("Conv", "x", net.weight(5, 2, 3, 3))), kernel_shape=[2, 2], strides=[2, 2])
    h = net.op("Flatten", h)
    h = net.op("Relu", net.op("Gemm", h, net.weight(*((7, 45) if transposed else (45, 7))), net.weight(1, 7), transB=int(transposed)))
    model = net.model(net.op("Gemm", h, net.weight(7, 3)), 2, 2, 8, 8)
    changed, notes = equalized(model)
    check_same(model, changed, 2, 2, 8, 8)
    assert [note.split(": ")[1] for note in notes[:2]] == ["equalised over 5 channels", "equalised over 7 channels"]
    after = arrays(changed)
    read = after["w1"] if transposed else after["w1"].T
    np.testing.assert_allclose(np.abs(read.reshape(7, 5, 9)).max(axis=(0, 2)), largest(after["w0"], 0), rtol=1e-2)


def test_a_dead_channel_is_left_alone():
    net = Net(5)
    h = net.op("Relu", net.op("Conv", "x", net.weight(4, 3, 1, 1), net.weight(4)))
    net.weights["w0"][2] *= 1e-6
    net.weights["w0"][3] = 0
    model = net.model(net.op("Conv", h, net.weight(4, 4, 1, 1)), 1, 3, 4, 4)
    changed, _ = equalized(model)
    check_same(model, changed, 1, 3, 4, 4)
    before, after = arrays(model), arrays(changed)
    np.testing.assert_array_equal(after["w1"][2:], before["w1"][2:])
    assert not np.any(after["w1"][:2] == before["w1"][:2])


def bounded(net: Net, kind: str) -> str:
    """The value behind a convolution, of which something keeps another one from being equalised with it; made by `kind`."""
    y = net.op("Conv", "x", net.weight(4, 3, 1, 1))
    if kind == "Relu6":
        net.weights["low"], net.weights["high"] = np.float32(0), np.float32(6)
        return net.op("Clip", y, "low", "high")
    if kind == "Sigmoid":
        return net.op("Sigmoid", y)
    return net.op("Add", net.op("Relu", y), y)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("Relu6", "clip1 (Clip) has bounds, which would have to differ by channel"),
        ("Sigmoid", "sigmoid1 (Sigmoid) follows"),
        ("two readers", "'conv0.y' is an output or has several readers"),
    ],
)
def test_what_is_left(kind, reason):
    net = Net(6)
    model = net.model(net.op("Conv", bounded(net, kind), net.weight(5, 4, 1, 1)), 1, 3, 4, 4)
    changed, notes = equalized(model)
    assert notes[0] == f"conv0: left: {reason}"
    assert {name: a.tobytes() for name, a in arrays(changed).items()} == {name: a.tobytes() for name, a in arrays(model).items()}


def test_relu_as_a_clip_without_upper_bound():
    net = Net(7)
    net.weights["low"] = np.float32(0)
    h = net.op("Clip", net.op("Conv", "x", net.weight(4, 3, 1, 1)), "low")
    model = net.model(net.op("Conv", h, net.weight(5, 4, 1, 1)), 1, 3, 4, 4)
    changed, notes = equalized(model)
    check_same(model, changed, 1, 3, 4, 4)
    assert notes[0].endswith("equalised over 4 channels")


def test_shared_weights_are_left():
    net = Net(8)
    w = net.weight(4, 4, 1, 1)
    h = net.op("Relu", net.op("Conv", "x", w))
    model = net.model(net.op("Conv", h, w), 1, 4, 4, 4)
    changed, notes = equalized(model)
    assert all("another node reads its weights" in note for note in notes)
    assert len(notes) == len([node for node in Links(changed.graph).makers.values() if node.op_type == "Conv"]) == 2
