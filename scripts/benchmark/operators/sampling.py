"""Sampling of images: resizing, grids, regions, deformable convolution; and Fourier transforms."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmark.operators.case import Case, Fill, constant, given, op, uniform, weight


def cases() -> Iterator[Case]:
    """Resizing, sampling, regions, spectra."""
    yield from resizes()
    grid = uniform(-1.1, 1.1)
    yield op("GridSample", "spatial transformer", given(1, 32, 64, 64), given(1, 64, 64, 2, fill=grid), opset=16, mode="bilinear")
    yield op("GridSample", "optical flow, RAFT", given(1, 3, 128, 128), given(1, 128, 128, 2, fill=grid), opset=16, mode="bilinear", align_corners=1)
    yield op("GridSample", "spatial transformer", given(1, 32, 64, 64), given(1, 64, 64, 2, fill=grid), opset=16, mode="nearest")
    yield op(
        "GridSample", "registration, bicubic", given(1, 8, 64, 64), given(1, 64, 64, 2, fill=grid), opset=16, mode="bicubic", padding_mode="border"
    )
    yield op("GridSample", "volume registration", given(1, 4, 24, 24, 24), given(1, 24, 24, 24, 3, fill=grid), opset=20, mode="linear")
    rois = given(64, 4, fill=boxes(800))
    of_first = constant([0] * 64)
    yield op(
        "RoiAlign",
        "Faster R-CNN",
        given(1, 256, 50, 50),
        rois,
        of_first,
        opset=16,
        output_height=7,
        output_width=7,
        sampling_ratio=2,
        spatial_scale=1 / 16,
    )
    yield op(
        "RoiAlign",
        "Mask R-CNN",
        given(1, 64, 50, 50),
        rois,
        of_first,
        opset=16,
        output_height=14,
        output_width=14,
        sampling_ratio=0,
        spatial_scale=1 / 16,
    )
    numbered = given(64, 5, fill=boxes(800))
    yield op("MaxRoiPool", "Fast R-CNN, VGG-16", given(1, 512, 38, 50), numbered, opset=16, pooled_shape=[7, 7], spatial_scale=1 / 16)
    offsets = given(1, 18, 28, 28)
    yield op(
        "DeformConv", "DCN of ResNet-50", given(1, 128, 28, 28), weight(128, 128, 3, 3), offsets, opset=19, kernel_shape=[3, 3], pads=[1, 1, 1, 1]
    )
    modulation = given(1, 9, 28, 28, fill=uniform(0, 1))
    yield op(
        "DeformConv",
        "DCNv2, with a mask",
        given(1, 64, 28, 28),
        weight(64, 64, 3, 3),
        offsets,
        weight(64),
        modulation,
        opset=19,
        kernel_shape=[3, 3],
        pads=[1, 1, 1, 1],
    )
    yield op("DFT", "rows of 512", given(8, 512, 1), None, constant(1), opset=20, note="axis 1")
    yield op("DFT", "rows of 1000, half the spectrum", given(16, 1000, 1), None, constant(1), opset=20, note="axis 1 onesided", onesided=1)
    window = np.hanning(400)
    yield op(
        "STFT",
        "Whisper's frames, one second",
        given(1, 16000, 1),
        constant(160),
        constant(window, "float32"),
        constant(400),
        opset=17,
        note="400 by 160",
    )


def resizes() -> Iterator[Case]:
    """Nearest, linear and cubic, up and down."""

    def resize(origin: str, shape: Sequence[int], scale: float, mode: str, **how: Any) -> Case:
        scales = constant([1.0] * (len(shape) - 2) + [scale] * 2, "float32")
        note = " ".join([mode, f"times {scale:g}", *(f"{name}={value}" for name, value in how.items())])
        return op("Resize", origin, given(*shape), None, scales, opset=18, note=note, mode=mode, **how)

    yield resize("FPN, YOLOv5 neck", (1, 128, 40, 40), 2.0, "nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    yield resize("U-Net decoder", (1, 64, 56, 56), 2.0, "linear", coordinate_transformation_mode="half_pixel")
    yield resize("DeepLab output", (1, 21, 65, 65), 4.0, "linear", coordinate_transformation_mode="align_corners")
    yield resize("super-resolution baseline", (1, 3, 128, 128), 3.0, "cubic", coordinate_transformation_mode="half_pixel", cubic_coeff_a=-0.75)
    yield resize("image pyramid", (1, 3, 512, 512), 0.5, "linear", coordinate_transformation_mode="half_pixel")
    yield resize("mask, nearest", (1, 16, 256, 256), 0.5, "nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    yield resize("thumbnail", (1, 3, 512, 512), 0.4375, "cubic", coordinate_transformation_mode="half_pixel")
    yield resize("thumbnail, antialiased", (1, 3, 512, 512), 0.4375, "linear", coordinate_transformation_mode="half_pixel", antialias=1)
    size = constant([1, 64, 16, 56, 56])
    yield op("Resize", "3-D U-Net decoder", given(1, 64, 8, 28, 28), None, None, size, opset=18, mode="linear", note="linear to 16x56x56")


def boxes(size: int) -> Fill:
    """Boxes (x1, y1, x2, y2) in an image of this size; in rows of five after the number of the image, 0."""

    def fill(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        corner, extent = random.uniform(0, size * 0.6, (shape[0], 2)), random.uniform(size * 0.05, size * 0.4, (shape[0], 2))
        return np.concatenate([np.zeros((shape[0], shape[1] - 4)), corner, corner + extent], axis=1)

    return fill
