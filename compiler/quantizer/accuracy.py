"""Accuracy on labelled samples, and networks that lose no more of it than a budget."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto

from stepwell.dialects.support.errors import InputError
from stepwell.driver.compilation import compile
from stepwell.quantizer.budget import Kept, within_budget
from stepwell.quantizer.network import Calibrated, Quantized
from stepwell.quantizer.quality import compare
from stepwell.quantizer.samples import Samples


def accuracy(model: ModelProto, samples: Samples, *, threads: int | None = None, cache: bool = True) -> float:
    """How many labels a classifier gets right, in percent; it is compiled by Stepwell.

    Its first output has the classes on the last axis, or on axis 1 where the label of each sample is an array, and the greatest number wins; or it
    holds the classes themselves. Raises InputError if there are no labels, or they do not fit the output.
    """
    compiled = compile(model, specialise="always", threads=threads, cache=cache)
    output = model.graph.output[0].name
    right = every = 0
    for batch in samples.batches():
        if batch.labels is None:
            raise InputError(f"{batch.source}: there are no labels, from which accuracy is counted; expected the key of an array of them")
        result, labels = compiled.run(batch.inputs)[output], np.asarray(batch.labels)
        if result.dtype.kind == "f" and result.ndim:
            result = result.argmax(1 if labels.ndim > 1 and result.ndim == labels.ndim + 1 else -1)
        if labels.size != result.size or labels.dtype.kind not in "iu":
            took = f"{labels.dtype.name}{list(labels.shape)}"
            raise InputError(f"{batch.source}: expected labels that are integers, one for each of {result.size} results of '{output}', got {took}")
        right += int((result.reshape(-1) == labels.reshape(-1)).sum())
        every += labels.size
    if not every:
        raise InputError("samples: there are none")
    return 100 * right / every


@dataclass(frozen=True)
class WithinBudget:
    """A network that loses no more than its budget."""

    network: Quantized
    kept: Kept
    """Which layers stay in floats, the loss in points, and what was tried."""
    accuracy: float
    """Of the network of floats, in percent."""


def quantized_within(
    source: Calibrated, budget: float, *, threads: int | None = None, cache: bool = True, on_step: Callable[[str], None] = lambda text: None
) -> WithinBudget:  # fmt: skip
    """Quantise a network, except for the few layers that have to stay in floats for it to lose at most `budget` points of accuracy.

    Accuracy is that on the labels of the samples that `source` was calibrated with; 0.5 means that 97.5 % may become 97 %. Layers are tried in
    the order of what each does to the outputs (`quality.compare`), as `budget.within_budget` has it. Raises InputError where that says so.
    """
    on_step("accuracy in floats")
    before = accuracy(source.floats, source.samples, threads=threads, cache=cache)
    made: dict[frozenset[str], Quantized] = {}
    lost: dict[int, float] = {}  # by the identity of the models that `made` holds

    def quantise(kept: frozenset[str]) -> ModelProto:
        if kept not in made:
            on_step(f"accuracy with {len(kept)} layers in floats")
            made[kept] = source.quantized(kept)
        return made[kept].model

    def loss(model: ModelProto) -> float:
        if id(model) not in lost:
            lost[id(model)] = before - accuracy(model, source.samples, threads=threads, cache=cache)
        return lost[id(model)]

    whole = quantise(frozenset())
    order = []
    if not loss(whole) <= budget:
        quality = compare(source.floats, whole, source.samples, threads=threads, cache=cache, on_step=on_step)
        order = [layer.name for layer in quality.worst_first()]
    kept = within_budget(quantise, order, loss, budget)
    return WithinBudget(made[frozenset(kept.layers)], kept, before)
