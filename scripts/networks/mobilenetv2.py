"""MobileNet version 2, width 1.0 (Sandler et al., MobileNetV2: Inverted Residuals and Linear Bottlenecks, 2018)."""

import numpy as np
import onnx

from networks.layers import Layers

__all__ = ["mobilenetv2"]

# Expansion, channels, blocks, stride of the first block.
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
BRANCH_SCALE = 0.25  # of the normalisation that ends a branch with a shortcut beside it: keeps the sums in size


def mobilenetv2(seed: int) -> onnx.ModelProto:
    """52 convolutions, 17 of them depthwise."""
    net = Layers("mobilenetv2", seed)
    net.parameter("zero", np.zeros((), np.float32))
    net.parameter("six", np.full((), 6, np.float32))
    x = conv_norm(net, "image", "stem", (3, 32), kernel=3, stride=2)
    channels = 32
    for stage, (expansion, out, blocks, first_stride) in enumerate(STAGES):
        for block in range(blocks):
            x = inverted_residual(net, x, f"stage{stage}.block{block}", channels, out, expansion, first_stride if block == 0 else 1)
            channels = out
    x = conv_norm(net, x, "head", (channels, 1280), kernel=1)
    return net.model(net.classifier(x, 1280, gain=2.5))


def conv_norm(net: Layers, x: str, name: str, channels: tuple[int, int], kernel: int, stride: int = 1, group: int = 1) -> str:
    """Convolution, batch normalisation, ReLU6."""
    y = net.batch_norm(net.conv(x, f"{name}.conv", channels, kernel, stride, group), f"{name}.norm", channels[1])
    return net.op("Clip", [y, "zero", "six"], f"{name}.relu6")


def inverted_residual(net: Layers, x: str, name: str, channels: int, out: int, expansion: int, stride: int) -> str:
    """Expand, filter each channel, project without activation; plus x where the shape stays."""
    hidden = channels * expansion
    residual = stride == 1 and channels == out
    y = conv_norm(net, x, f"{name}.expand", (channels, hidden), kernel=1) if expansion > 1 else x
    y = conv_norm(net, y, f"{name}.depthwise", (hidden, hidden), kernel=3, stride=stride, group=hidden)
    y = net.conv(y, f"{name}.project.conv", (hidden, out), kernel=1, gain=1.0)
    y = net.batch_norm(y, f"{name}.project.norm", out, BRANCH_SCALE if residual else 1.0)
    return net.op("Add", [x, y], f"{name}.add") if residual else y
