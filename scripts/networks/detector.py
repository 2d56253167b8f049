"""Objects in images of any size, as YOLO finds them (Redmon et al., 2016): two scales, boxes from cells, the best of those that overlap."""

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from networks.layers import Layers, Typed
from networks.transformer import axis_size, constant

__all__ = ["detector"]


def detector(
    seed: int, *, channels: Sequence[int] = (16, 32, 64, 128), classes: int = 80, most: int = 100, name: str = "detector"
) -> onnx.ModelProto:
    """`image` [batch, 3, height, width], sides multiples of 16, to one box for each cell of 8 and of 16 pixels, and the best of the boxes.

    `boxes` [batch, cells, 4] has corners, `scores` [batch, classes, cells] probabilities; `selected` [count, 3] names image, class and box.
    """
    net = Layers(name, seed)
    x, before, stages = "image", 3, []
    for number, count in enumerate(channels):
        x = net.conv(x, f"conv{number}", (before, count), kernel=3, stride=2)
        x, before = silu(net, net.batch_norm(x, f"norm{number}", count), f"act{number}"), count
        stages.append(x)
    factors = net.parameter("factors", np.array([1, 1, 2, 2], np.float32))
    wide = net.op("Resize", [stages[-1], "", factors], "up", mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    fine = net.op("Concat", [wide, stages[-2]], "joined", axis=1)
    scales = [head(net, fine, "fine", 8, channels[-1] + channels[-2], classes), head(net, stages[-1], "coarse", 16, channels[-1], classes)]
    boxes, scores = (net.op("Concat", [scale[i] for scale in scales], f"{part}.both", axis=-1) for i, part in enumerate(("boxes", "scores")))
    corners = net.op("Transpose", [boxes], "corners", perm=[0, 2, 1])
    limits = [constant(net, "most", [most]), constant(net, "overlap", [0.5], np.float32), constant(net, "least", [0.3], np.float32)]
    net.named(net.op("NonMaxSuppression", [corners, scores, *limits], "suppression"), "selected")
    net.named(corners, "boxes")
    net.named(scores, "scores")
    outputs: dict[str, Typed] = {
        "selected": (TensorProto.INT64, ["count", 3]), "boxes": (TensorProto.FLOAT, ["batch", "cells", 4]),
        "scores": (TensorProto.FLOAT, ["batch", classes, "cells"]),
    }  # fmt: skip
    return net.finished({"image": (TensorProto.FLOAT, ["batch", 3, "height", "width"])}, outputs)


def silu(net: Layers, x: str, name: str) -> str:
    """x sigmoid(x)."""
    return net.op("Mul", [x, net.op("Sigmoid", [x], f"{name}.sigmoid")], name)


def head(net: Layers, x: str, name: str, stride: int, channels: int, classes: int) -> tuple[str, str]:
    """The box and the classes of each cell of an image, [batch, 4, cells] and [batch, classes, cells]."""
    made = net.conv(x, f"{name}.conv", (channels, 4 + classes), kernel=1)
    flat = net.op("Reshape", [made, constant(net, f"cells_{4 + classes}", [0, 4 + classes, -1])], f"{name}.flat")
    parts = [f"{name}.{part}" for part in ("centres", "sides", "classes")]
    net.nodes.append(helper.make_node("Split", [flat, constant(net, "parts", [2, 2, classes])], parts, name=f"{name}.parts", axis=1))
    inside = net.op("Add", [net.op("Sigmoid", parts[:1], f"{name}.inside"), grid(net, made, name)], f"{name}.placed")
    size = constant(net, f"stride_{stride}", stride, np.float32)
    centres = net.op("Mul", [inside, size], f"{name}.centre")
    half = net.op("Mul", [net.op("Exp", parts[1:2], f"{name}.exp"), size], f"{name}.half")
    corners = [net.op(op, [centres, half], f"{name}.{op.lower()}") for op in ("Sub", "Add")]
    return net.op("Concat", corners, f"{name}.box", axis=1), net.op("Sigmoid", parts[2:], f"{name}.probability")


def grid(net: Layers, x: str, name: str) -> str:
    """The column and the row of each cell of an image, [1, 2, cells]."""
    zero, one = constant(net, "zero", 0), constant(net, "one", 1)
    counts = {axis: net.op("Range", [zero, axis_size(net, x, axis, f"{name}.size{axis}"), one], f"{name}.range{axis}") for axis in (2, 3)}
    rows = net.op("Unsqueeze", [counts[2], constant(net, "at_1", [1])], f"{name}.rows")
    shape = net.op("Shape", [x], f"{name}.image", start=2)
    spread = [net.op("Expand", [value, shape], f"{name}.spread{i}") for i, value in enumerate((counts[3], rows))]
    flat = [net.op("Reshape", [value, constant(net, "one_row", [1, 1, -1])], f"{name}.flat{i}") for i, value in enumerate(spread)]
    return net.op("Cast", [net.op("Concat", flat, f"{name}.cells", axis=1)], f"{name}.grid", to=TensorProto.FLOAT)
