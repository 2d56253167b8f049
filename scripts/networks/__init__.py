"""The networks that Stepwell is compared on, made from nothing but the `onnx` package and a seed."""

from collections.abc import Callable
from functools import partial

import numpy as np
import onnx

from networks.bert_layer import bert_layer
from networks.light import LIGHT_NAMES, randomised_light_model
from networks.mobilenetv2 import mobilenetv2
from networks.resnet50v2 import resnet50v2

__all__ = ["EXTRAS", "NETWORKS", "build", "image"]

# Every network takes one image, float32[1, 3, 224, 224], and gives 1000 scores.
NETWORKS: dict[str, Callable[[int], onnx.ModelProto]] = {
    **{name: partial(randomised_light_model, name) for name in LIGHT_NAMES},
    "resnet50v2": resnet50v2,
    "mobilenetv2": mobilenetv2,
}

# Others that are compared, which take and give something else.
EXTRAS: dict[str, Callable[[int], onnx.ModelProto]] = {"bert_layer": bert_layer}


def build(name: str, seed: int = 0) -> onnx.ModelProto:
    """The network of that name with seeded random weights; the same bytes for the same seed. Raises KeyError for an unknown name."""
    return (NETWORKS | EXTRAS)[name](seed)


def image(seed: int) -> np.ndarray:
    """A random float32[1, 3, 224, 224] with structure at every scale, as photographs have; white noise looks all the same to a deep network."""
    random = np.random.default_rng(seed)
    pixels = np.zeros((1, 3, 224, 224), np.float32)
    for size in (1, 4, 14, 56, 224):
        coarse = random.standard_normal((1, 3, size, size), dtype=np.float32)
        pixels += coarse.repeat(224 // size, axis=2).repeat(224 // size, axis=3)
    return pixels / np.float32(np.sqrt(5))
