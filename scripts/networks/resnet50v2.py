"""ResNet-50 version 2: normalisation and activation before each convolution (He et al., Identity Mappings in Deep Residual Networks, 2016)."""

import onnx

from networks.layers import Layers

__all__ = ["resnet50v2"]

# Blocks and width of the four stages; a stage gives four times its width.
STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))
BRANCH_GAIN = 0.125  # of the last convolution of a branch: keeps the sum of sixteen branches in size


def resnet50v2(seed: int) -> onnx.ModelProto:
    """53 convolutions: one, 16 blocks of three, and four projections."""
    net = Layers("resnet50v2", seed)
    x = net.batch_norm("image", "data_norm", 3)
    x = net.conv(x, "stem", (3, 64), kernel=7, stride=2)
    x = net.op("Relu", [net.batch_norm(x, "stem_norm", 64)], "stem_relu")
    x = net.op("MaxPool", [x], "stem_pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for stage, (blocks, width) in enumerate(STAGES, start=1):
        for block in range(blocks):
            stride = 2 if block == 0 and stage > 1 else 1
            x = bottleneck(net, x, f"stage{stage}.block{block}", channels, width, stride)
            channels = 4 * width
    x = net.op("Relu", [net.batch_norm(x, "last_norm", channels)], "last_relu")
    return net.model(net.classifier(x, channels, gain=0.18))


def bottleneck(net: Layers, x: str, name: str, channels: int, width: int, stride: int) -> str:
    """x + conv1x1(conv3x3(conv1x1(x))), each convolution after a normalisation and a ReLU; the shortcut is projected where shapes differ."""
    activated = net.op("Relu", [net.batch_norm(x, f"{name}.norm1", channels)], f"{name}.relu1")
    shortcut = x if channels == 4 * width else net.conv(activated, f"{name}.project", (channels, 4 * width), kernel=1, stride=stride)
    y = net.conv(activated, f"{name}.conv1", (channels, width), kernel=1)
    y = net.op("Relu", [net.batch_norm(y, f"{name}.norm2", width)], f"{name}.relu2")
    y = net.conv(y, f"{name}.conv2", (width, width), kernel=3, stride=stride)
    y = net.op("Relu", [net.batch_norm(y, f"{name}.norm3", width)], f"{name}.relu3")
    y = net.conv(y, f"{name}.conv3", (width, 4 * width), kernel=1, gain=BRANCH_GAIN)
    return net.op("Add", [y, shortcut], f"{name}.add")
