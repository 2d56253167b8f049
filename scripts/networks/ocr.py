"""Text in images of any size (CRNN: Shi et al., 2015): convolutions, a bidirectional LSTM along the width, scores for CTC (Graves et al., 2006)."""

from collections.abc import Sequence

import onnx
from onnx import TensorProto

from networks.layers import Layers, Typed
from networks.recurrent import recurrent
from networks.transformer import linear

__all__ = ["ocr"]


def ocr(seed: int, *, channels: Sequence[int] = (64, 128, 256, 256), units: int = 256, symbols: int = 97, name: str = "ocr") -> onnx.ModelProto:
    """`image` [batch, 1, height, width] to `scores` [width / 4 rounded down, batch, symbols], logarithms of probabilities.

    The image is halved twice along both sides and then along the height alone; what is left of the height is averaged.
    """
    net = Layers(name, seed)
    x, before = "image", 1
    for number, count in enumerate(channels):
        x = net.batch_norm(net.conv(x, f"conv{number}", (before, count), kernel=3), f"norm{number}", count)
        x, before = net.op("Relu", [x], f"relu{number}"), count
        sides = [2, 2] if number < 2 else [2, 1]
        if number < 3:
            x = net.op("MaxPool", [x], f"pool{number}", kernel_shape=sides, strides=sides)
    row = net.op("ReduceMean", [x], "row", axes=[2], keepdims=0)
    steps = net.op("Transpose", [row], "steps", perm=[2, 0, 1])
    read = recurrent(net, "LSTM", steps, "lstm", (before, units), both=True)
    net.named(net.op("LogSoftmax", [linear(net, read, "head", (2 * units, symbols))], "log_softmax", axis=-1), "scores")
    image: Typed = (TensorProto.FLOAT, ["batch", 1, "height", "width"])
    return net.finished({"image": image}, {"scores": (TensorProto.FLOAT, ["steps", "batch", symbols])})
