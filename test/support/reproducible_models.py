"""Networks, small enough for emulated machines, whose results must be the same everywhere, and digests of results."""

import hashlib
from collections.abc import Callable, Iterable

import numpy as np
import onnx
from bundle_models import Case

import networks

IMAGE = 64
"""Rows and columns of an image: few, and still several positions in the last convolutions."""
IMAGES = ("densenet121", "mobilenetv2", "resnet50v1", "resnet50v2", "squeezenet")
"""The networks whose images may have another size: they have no weights for positions."""
SEQUENCES = ("detector", "encoder", "gpt", "llama", "ocr", "translator")
RUNS = 2
"""Runs of a network with free sizes, each of other sizes."""
GOLDEN = ("detector", "encoder", "gpt", "llama", "mobilenetv2", "ocr", "squeezenet", "translator")
"""The networks whose digests are kept."""


def small_image_network(name: str) -> Case:
    """A network of the zoo for a small image, and one such image."""
    model = networks.build(name)
    [image] = model.graph.input
    for dim in image.type.tensor_type.shape.dim[2:]:
        dim.dim_value = IMAGE
    for values in (model.graph.value_info, model.graph.output):
        for value in values:
            value.type.tensor_type.ClearField("shape")
    return Case(name, model, [{image.name: networks.image(seed=1)[:, :, :IMAGE, :IMAGE]}])


def free_network(name: str) -> Case:
    """A network with free sizes, with few layers, and data of several sizes."""
    network = networks.FREE[name]
    model: onnx.ModelProto = network.build(0, **network.small)
    feeds = []
    for run in range(RUNS):
        feed = network.inputs(model, {symbol: numbers[run] for symbol, numbers in network.sizes.items()}, run)
        if "lengths" in feed:  # of sequences: none is longer than there are steps
            feed["lengths"] = np.minimum(feed["lengths"] + 1, feed["source"].shape[1]).astype(feed["lengths"].dtype)
        feeds.append(feed)
    return Case(name, model, feeds)


MODELS: dict[str, Callable[[str], Case]] = {**dict.fromkeys(IMAGES, small_image_network), **dict.fromkeys(SEQUENCES, free_network)}
"""What makes each network, by its name."""


def model_of(name: str) -> Case:
    """The network of that name. Raises KeyError for an unknown one."""
    return MODELS[name](name)


def digest(arrays: Iterable[np.ndarray]) -> str:
    """A digest of types, shapes and bits of arrays; every NaN counts as the same one, since instructions differ in its sign and payload."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.dtype.name}{array.shape}".encode())
        found.update(without_payloads(array).tobytes())
    return found.hexdigest()[:16]


def without_payloads(array: np.ndarray) -> np.ndarray:
    """The array with each NaN replaced by the same one."""
    if array.dtype.kind in "biu":
        return array
    return np.where(array == array, array, np.array(np.nan, array.dtype))
