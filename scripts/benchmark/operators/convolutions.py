"""Convolutions in one and three dimensions, and transposed ones; those in two dimensions are what the networks are made of."""

from collections.abc import Iterator
from typing import Any

from benchmark.operators.case import Case, given, op, weight


def cases() -> Iterator[Case]:
    """Signals, videos and volumes, decoders and generators."""
    yield from signals()
    yield from volumes()
    yield from transposed()
    yield conv("ConvNeXt, depthwise 7x7", (1, 96, 56, 56), 96, (7, 7), group=96, pads=3)
    yield conv("ResNeXt-50, 32 groups", (1, 128, 56, 56), 128, (3, 3), group=32, pads=1)
    yield conv("DeepLab, dilated", (1, 256, 33, 33), 64, (3, 3), dilations=[12, 12], pads=12)
    yield conv("ViT patches", (1, 3, 224, 224), 192, (16, 16), strides=[16, 16])
    yield conv("ResNet-50, half precision", (1, 64, 28, 28), 64, (3, 3), pads=1, dtype="float16")


def conv(
    origin: str, shape: tuple[int, ...], filters: int, kernel: tuple[int, ...], group: int = 1, pads: int = 0, dtype: str = "float32", **how: Any
) -> Case:
    """A convolution with a bias."""
    weights = weight(filters, shape[1] // group, *kernel, dtype=dtype)
    more: dict[str, Any] = {"group": group} if group > 1 else {}
    inputs = [given(*shape, dtype=dtype), weights, weight(filters, dtype=dtype)]
    return op("Conv", origin, *inputs, opset=11, kernel_shape=list(kernel), pads=[pads] * (2 * len(kernel)), **more, **how)


def signals() -> Iterator[Case]:
    """In one dimension: short kernels and long ones, dilated, depthwise."""
    yield conv("wav2vec 2, first layer, one second", (1, 1, 16000), 512, (10,), strides=[5])
    yield conv("wav2vec 2, second layer", (1, 512, 1599), 512, (3,), strides=[2])
    yield conv("wav2vec 2, positions", (1, 768, 49), 768, (128,), group=16, pads=64)
    yield conv("Whisper base, first layer, shortened", (1, 80, 1000), 512, (3,), pads=1)
    yield conv("WaveNet, dilation 64", (1, 64, 4000), 128, (2,), dilations=[64])
    yield conv("TCN, dilation 8", (8, 64, 256), 64, (3,), dilations=[8], pads=8)
    yield conv("Conformer, depthwise", (1, 256, 400), 256, (31,), group=256, pads=15)
    yield conv("QuartzNet, depthwise", (1, 256, 500), 256, (63,), group=256, pads=31)
    yield conv("M5, first layer", (1, 1, 32000), 128, (80,), strides=[4])
    yield conv("HiFi-GAN residual block", (1, 128, 2000), 128, (11,), pads=5)
    yield conv("text CNN", (8, 300, 64), 100, (5,))


def volumes() -> Iterator[Case]:
    """In three dimensions."""
    yield conv("C3D, first layer", (1, 3, 16, 56, 56), 64, (3, 3, 3), pads=1)
    yield conv("R3D-18", (1, 64, 8, 28, 28), 64, (3, 3, 3), pads=1)
    yield conv("3-D U-Net", (1, 32, 32, 32, 32), 32, (3, 3, 3), pads=1)
    yield op(
        "Conv",
        "R(2+1)D, over time",
        given(1, 64, 8, 28, 28),
        weight(64, 64, 3, 1, 1),
        opset=11,
        kernel_shape=[3, 1, 1],
        pads=[1, 0, 0, 1, 0, 0],
    )
    yield conv("X3D, depthwise", (1, 54, 8, 40, 40), 54, (3, 3, 3), group=54, pads=1)
    yield conv("I3D, pointwise", (1, 192, 8, 14, 14), 64, (1, 1, 1))


def transposed() -> Iterator[Case]:
    """Transposed convolutions."""

    def up(origin: str, shape: tuple[int, ...], filters: int, kernel: int, stride: int, pads: int = 0, group: int = 1) -> Case:
        rank = len(shape) - 2
        inputs = [given(*shape), weight(shape[1], filters // group, *[kernel] * rank), weight(filters)]
        more: dict[str, Any] = {"group": group} if group > 1 else {}
        return op("ConvTranspose", origin, *inputs, opset=11, kernel_shape=[kernel] * rank, strides=[stride] * rank, pads=[pads] * (2 * rank), **more)

    yield up("U-Net decoder", (1, 128, 28, 28), 64, 2, 2)
    yield up("DCGAN generator", (1, 256, 16, 16), 128, 4, 2, 1)
    yield up("FSRCNN output", (1, 56, 64, 64), 1, 9, 3, 4)
    yield up("FCN, depthwise upsampling", (1, 21, 33, 33), 21, 4, 2, 1, group=21)
    yield up("HiFi-GAN, times 8", (1, 256, 100), 128, 16, 8, 4)
    yield up("WaveGAN, times 4", (1, 128, 256), 64, 25, 4, 11)
    yield up("3-D U-Net decoder", (1, 64, 8, 16, 16), 32, 2, 2)
    yield up("V-Net generator", (1, 32, 8, 8, 8), 16, 4, 2, 1)
