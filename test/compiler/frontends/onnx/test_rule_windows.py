"""Convolutions and poolings: padding asked for by name, dilation, groups, ceilings, indices; against ONNX Runtime or ONNX's own evaluator."""

from typing import Any

import numpy as np
import pytest
from every import every
from importing import check, floats, ints, node

LINE, IMAGE, VOLUME = floats(2, 4, 11), floats(2, 4, 9, 10), floats(1, 2, 5, 6, 7)


@pytest.mark.parametrize("attributes", [
    {},
    {"pads": [1, 0, 2, 3], "strides": [2, 1]},
    {"auto_pad": "SAME_UPPER", "strides": [2, 3]},
    {"auto_pad": "SAME_LOWER", "strides": [2, 3]},
    {"auto_pad": "VALID", "dilations": [2, 1], "kernel_shape": [3, 2]},
    {"group": 2, "dilations": [1, 3], "pads": [0, 2, 1, 0]},
])  # fmt: skip
def test_conv(attributes: dict[str, Any]) -> None:
    weights = {"w": floats(6, 4 // attributes.get("group", 1), 3, 2), "b": floats(6)}
    check(node("Conv", ["x", "w", "b"], **attributes), {"x": IMAGE}, weights, opset=11, terms=64)


def test_conv_of_lines_and_volumes() -> None:
    check(node("Conv", ["x", "w"], strides=[2], pads=[2, 1]), {"x": LINE}, {"w": floats(3, 4, 3)}, opset=7, terms=64)
    check(node("Conv", ["x", "w"], strides=[1, 2, 1], auto_pad="SAME_UPPER"), {"x": VOLUME}, {"w": floats(3, 2, 2, 3, 2)}, opset=22, terms=64)
    check(node("Conv", ["x", "w"], group=4), {"x": LINE}, {"w": floats(8, 1, 2)}, terms=64)


def test_conv_with_weights_known_at_run_time() -> None:
    check(node("Conv", ["x", "w"], pads=[1, 1, 1, 1]), {"x": IMAGE, "w": floats(5, 4, 3, 3)}, terms=64)


@pytest.mark.parametrize("attributes", [
    {},
    {"strides": [2, 3], "pads": [1, 0, 2, 1]},
    {"strides": [2, 3], "output_padding": [1, 2]},
    {"strides": [2, 3], "output_shape": [19, 31]},
    {"strides": [2, 3], "output_shape": [20, 30], "auto_pad": "SAME_UPPER"},
    {"strides": [2, 3], "auto_pad": "SAME_UPPER"},
    {"strides": [3, 2], "auto_pad": "SAME_LOWER", "kernel_shape": [3, 2]},
    {"group": 2, "dilations": [2, 1]},
])  # fmt: skip
def test_conv_transpose(attributes: dict[str, Any]) -> None:
    weights = {"w": floats(4, 3, 3, 2), "b": floats(3 * attributes.get("group", 1))}
    check(node("ConvTranspose", ["x", "w", "b"], **attributes), {"x": IMAGE}, weights, opset=11, terms=64)


POOLS = [
    {"kernel_shape": [3, 2]},
    {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 2, 1]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1},
    {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    {"kernel_shape": [2, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"},
    {"kernel_shape": [2, 2], "dilations": [3, 2]},
]


@pytest.mark.parametrize("attributes", POOLS)
def test_max_pool(attributes: dict[str, Any]) -> None:
    check(node("MaxPool", ["x"], **attributes), {"x": IMAGE}, opset=12)


@every("attributes", POOLS)
@every("order", [0, 1])
def test_max_pool_with_indices(attributes: dict[str, Any], order: int) -> None:
    check(node("MaxPool", ["x"], ["y", "i"], storage_order=order, **attributes), {"x": IMAGE}, outputs=("y", "i"), opset=12)


def test_max_pool_with_indices_of_lines_and_volumes() -> None:
    check(node("MaxPool", ["x"], ["y", "i"], kernel_shape=[3], strides=[2], pads=[1, 1]), {"x": LINE}, outputs=("y", "i"), opset=8)
    check(node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 3, 2], pads=[1, 1, 0, 0, 1, 1]), {"x": VOLUME}, outputs=("y", "i"), opset=8)


@every("attributes", POOLS)
@every("include", [0, 1])
def test_average_pool(attributes: dict[str, Any], include: int) -> None:
    check(node("AveragePool", ["x"], count_include_pad=include, **attributes), {"x": IMAGE}, opset=19)


@every("attributes", POOLS)
@every("p", [1, 2, 3])
def test_lp_pool(attributes: dict[str, Any], p: int) -> None:
    """Computed from its definition: what others give for ceil_mode differs."""
    spatial = 2
    kernel, strides, dilations = attributes["kernel_shape"], attributes.get("strides", [1, 1]), attributes.get("dilations", [1, 1])
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = list(attributes.get("pads", [0] * 4))
    sizes = IMAGE.shape[2:]
    if "auto_pad" in attributes:
        totals = [max((-(-size // s) - 1) * s + span - size, 0) for size, s, span in zip(sizes, strides, spans, strict=True)]
        small, large = [t // 2 for t in totals], [t - t // 2 for t in totals]
        pads = small + large if attributes["auto_pad"] == "SAME_UPPER" else large + small
    counts = []
    for i in range(spatial):
        room = sizes[i] + pads[i] + pads[spatial + i] - spans[i]
        counts.append((-(-room // strides[i]) if attributes.get("ceil_mode") else room // strides[i]) + 1)
    padded = np.pad(np.abs(IMAGE.astype(np.float64)) ** p, [(0, 0), (0, 0), (pads[0], pads[2] + 9), (pads[1], pads[3] + 9)])
    want = np.zeros((*IMAGE.shape[:2], *counts))
    for row in range(counts[0]):
        for column in range(counts[1]):
            part = padded[:, :, row * strides[0] :: dilations[0], column * strides[1] :: dilations[1]][:, :, : kernel[0], : kernel[1]]
            want[:, :, row, column] = part.sum((2, 3)) ** (1 / p)
    check(node("LpPool", ["x"], p=p, **attributes), {"x": IMAGE}, opset=18, expected=[want.astype(np.float32)], terms=64)


def test_global_pools() -> None:
    for op, attributes in (("GlobalMaxPool", {}), ("GlobalAveragePool", {}), ("GlobalLpPool", {"p": 3}), ("GlobalLpPool", {})):
        for data in (LINE, IMAGE, VOLUME):
            check(node(op, ["x"], **attributes), {"x": data}, terms=256)


def test_max_unpool() -> None:
    places = np.array([[[[5, 7], [13, 15]]]])
    data = floats(1, 1, 2, 2)
    check(node("MaxUnpool", ["x", "i"], kernel_shape=[2, 2], strides=[2, 2]), {"x": data, "i": places}, opset=11)
    want = np.zeros((1, 1, 5, 5), np.float32)
    want[0, 0, :4, :4].flat[places.reshape(-1)] = data.reshape(-1)
    check(node("MaxUnpool", ["x", "i", "s"], kernel_shape=[2, 2], strides=[2, 2]), {"x": data, "i": places}, {"s": ints(1, 1, 5, 5)}, expected=[want])
