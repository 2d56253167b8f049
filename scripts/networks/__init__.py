"""The networks that Stepwell is compared on, made from nothing but the `onnx` package and a seed."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import onnx

from networks.bert_layer import bert_layer, sentence_encoder
from networks.detector import detector
from networks.encoder import encoder
from networks.gemv import gemv
from networks.gpt import gpt
from networks.light import LIGHT_NAMES, randomised_light_model
from networks.llama import llama
from networks.mobilenetv2 import mobilenetv2
from networks.ocr import ocr
from networks.resnet50v2 import resnet50v2
from networks.translator import translator

__all__ = ["EXTRAS", "FREE", "NETWORKS", "FreeNetwork", "build", "image"]

# Every network takes one image, float32[1, 3, 224, 224], and gives 1000 scores.
NETWORKS: dict[str, Callable[[int], onnx.ModelProto]] = {
    **{name: partial(randomised_light_model, name) for name in LIGHT_NAMES},
    "resnet50v2": resnet50v2,
    "mobilenetv2": mobilenetv2,
}

# Others that are compared, which take and give something else.
EXTRAS: dict[str, Callable[[int], onnx.ModelProto]] = {
    "bert_layer": bert_layer,
    "sentence_encoder": sentence_encoder,
    "gemv": gemv,  # with weights of few bits these may stay in a cache
    "gemv_x8": partial(gemv, matrices=8),  # and of these too many remain
}


@dataclass(frozen=True)
class FreeNetwork:
    """A network whose inputs have free sizes."""

    build: Callable[..., onnx.ModelProto]
    """Makes it of a seed, as large as it is used; and of keyword arguments, smaller."""
    small: Mapping[str, object]
    """The arguments for one that is compiled in seconds."""
    sizes: Mapping[str, Sequence[int]]
    """For each free size some that are usual, one for each run."""
    below: Mapping[str, int] = field(default_factory=dict)
    """What the numbers of integer inputs are less than, in the small network."""
    ones: Collection[str] = ()
    """Inputs of ones."""

    def inputs(self, model: onnx.ModelProto, sizes: Mapping[str, int], seed: int) -> dict[str, np.ndarray]:
        """Random inputs of these sizes for the small network."""
        random, made = np.random.default_rng(seed), {}
        for value in model.graph.input:
            kind = value.type.tensor_type
            shape = [dim.dim_value or sizes[dim.dim_param] for dim in kind.shape.dim]
            dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
            whole = dtype.kind in "iu"
            if value.name in self.ones:
                made[value.name] = np.ones(shape, dtype)
                continue
            made[value.name] = (random.integers(0, self.below[value.name], shape) if whole else random.standard_normal(shape)).astype(dtype)
        return made


BATCHES = (1, 2, 1, 3, 1, 1, 4, 2, 1, 5, 2, 1)
LENGTHS = (7, 1, 33, 16, 5, 64, 3, 12, 20, 2, 9, 48)
TINY_DECODER = {"layers": 2, "width": 48, "heads": 6}
AFTER = {"batch": BATCHES, "sequence": (7, 1, 33, 1, 1, 16, 1, 5, 1, 1, 9, 1), "past": (0, 7, 0, 33, 34, 0, 16, 3, 8, 1, 0, 64)}
# Networks of any size.
FREE: dict[str, FreeNetwork] = {
    "ocr": FreeNetwork(
        ocr, {"channels": (8, 16, 24, 24), "units": 20, "symbols": 11},
        {"batch": BATCHES, "height": (32, 32, 48, 40, 8, 33, 64, 32, 21, 32, 37, 9), "width": (100, 32, 160, 4, 64, 127, 33, 80, 99, 5, 48, 200)},
    ),
    "encoder": FreeNetwork(
        encoder, {"layers": 2, "width": 48, "heads": 3, "vocabulary": 101, "places": 128}, {"batch": BATCHES, "sequence": LENGTHS},
        {"input_ids": 101, "attention_mask": 2},
    ),
    "translator": FreeNetwork(
        translator, {"width": 12, "units": 20, "vocabulary": 31}, {"batch": BATCHES, "source_length": LENGTHS, "target_length": LENGTHS[::-1]},
        {"source": 31, "target": 31, "lengths": 8},
    ),
    "gpt": FreeNetwork(gpt, {**TINY_DECODER, "vocabulary": 101, "places": 128}, AFTER, {"input_ids": 101}),
    "llama": FreeNetwork(llama, {**TINY_DECODER, "groups": 2, "inner": 100}, AFTER),
    "llama_fused": FreeNetwork(
        partial(llama, fused=True), {"layers": 2, "width": 64, "heads": 4, "groups": 2, "inner": 100},
        {
            **AFTER, "total": tuple(map(sum, zip(AFTER["sequence"], AFTER["past"], strict=True))),
            "batch": (*BATCHES[:7], 1, *BATCHES[8:]),  # ONNX Runtime takes several tokens behind others of one sequence alone
        }, ones=("attention_mask",),
    ),
    "detector": FreeNetwork(
        detector, {"channels": (8, 8, 16, 24), "classes": 5},
        {"batch": BATCHES, "height": tuple(16 * n for n in (2, 5, 3, 1, 7, 4, 2, 6, 3, 1, 2, 5)), "width": tuple(16 * n for n in LENGTHS[::-1])},
    ),
}  # fmt: skip


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
