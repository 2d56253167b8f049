"""Pooling and its inverse."""

from collections.abc import Iterator

import numpy as np

from benchmark.operators.case import Case, given, op


def cases() -> Iterator[Case]:
    """Windows in one, two and three dimensions, and whole images."""
    yield op("MaxPool", "ResNet-50 stem", given(1, 64, 112, 112), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    yield op("MaxPool", "VGG", given(1, 128, 112, 112), kernel_shape=[2, 2], strides=[2, 2])
    yield op("MaxPool", "YOLOv5 SPPF", given(1, 256, 20, 20), kernel_shape=[5, 5], strides=[1, 1], pads=[2, 2, 2, 2])
    yield op("MaxPool", "M5, audio", given(1, 128, 8000), kernel_shape=[4], strides=[4])
    yield op("MaxPool", "C3D, video", given(1, 64, 16, 56, 56), kernel_shape=[2, 2, 2], strides=[2, 2, 2])
    yield op(
        "MaxPool",
        "SegNet, with indices",
        given(1, 64, 112, 112),
        outputs=["float32", "int64"],
        note="2x2 with indices",
        kernel_shape=[2, 2],
        strides=[2, 2],
    )
    yield op("AveragePool", "Inception branch", given(1, 192, 28, 28), kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])
    yield op("AveragePool", "DenseNet transition", given(1, 128, 56, 56), kernel_shape=[2, 2], strides=[2, 2])
    yield op("AveragePool", "padding counted", given(1, 64, 56, 56), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1)
    yield op("GlobalAveragePool", "ResNet-50", given(8, 2048, 7, 7))
    yield op("GlobalAveragePool", "squeeze and excitation, EfficientNet", given(1, 96, 112, 112))
    yield op("GlobalMaxPool", "text CNN", given(8, 256, 512))
    yield op("LpPool", "root mean square windows", given(1, 64, 56, 56), kernel_shape=[2, 2], strides=[2, 2], p=2)
    yield op(
        "MaxUnpool", "SegNet decoder", given(1, 64, 56, 56), given(1, 64, 56, 56, dtype="int64", fill=windows), kernel_shape=[2, 2], strides=[2, 2]
    )


def windows(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """For each window of 2x2 the flat index of one of its elements in the whole tensor of twice the size."""
    n, c, h, w = (np.arange(size).reshape([-1 if i == j else 1 for j in range(4)]) for i, size in enumerate(shape))
    rows, columns = 2 * h + random.integers(0, 2, shape), 2 * w + random.integers(0, 2, shape)
    return ((n * shape[1] + c) * 2 * shape[2] + rows) * 2 * shape[3] + columns
