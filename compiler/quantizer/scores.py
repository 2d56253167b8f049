"""Accuracy on labelled samples, agreement on others, and networks that lose at most a budget of these."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto

from stepwell.arguments import checked_by
from stepwell.dialects.support.errors import InputError
from stepwell.quantizer import arguments
from stepwell.quantizer.budget import Kept, within_budget
from stepwell.quantizer.insert import Quantized
from stepwell.quantizer.network import Calibrated
from stepwell.quantizer.quality import compare
from stepwell.quantizer.samples import Samples
from stepwell.quantizer.taps import Tapped


@checked_by(model=arguments.proto, samples=arguments.SAMPLES, axis=arguments.axis)
def accuracy(model: ModelProto, samples: Samples, *, axis: int | None = None, threads: int | None = None, cache: bool = True) -> float:
    """The share of labels that a classifier gets right, in percent; it is compiled by Stepwell.

    Its first output has the classes on `axis`, and the largest number wins; or it holds the classes themselves. By default the axis is the last one,
    or axis 1 if the label of each sample is an array that fits the others. Raises InputError if there are no labels, or they do not fit.
    """
    output = model.graph.output[0].name
    compiled = Tapped(model, [output], threads=threads, cache=cache)
    right = every = 0
    for batch in samples.batches():
        if batch.labels is None:
            raise InputError(f"{batch.source}: there are no labels, from which accuracy is counted; expected the key of an array of them")
        result, labels = compiled.run(batch.inputs)[output], np.asarray(batch.labels)
        if result.dtype.kind == "f" and result.ndim:
            fits = labels.ndim > 1 and labels.shape == result.shape[:1] + result.shape[2:]
            result = result.argmax(axis if axis is not None else 1 if fits else -1)
        if labels.size != result.size or labels.dtype.kind not in "iu":
            took = f"{labels.dtype.name}{list(labels.shape)}"
            raise InputError(f"{batch.source}: expected labels that are integers, one for each of {result.size} results of '{output}', got {took}")
        right += int((result.reshape(-1) == labels.reshape(-1)).sum())
        every += labels.size
    if not every:
        raise InputError("samples: there are none")
    return 100 * right / every


def answered(model: ModelProto, samples: Samples, *, threads: int | None = None, cache: bool = True) -> tuple[Samples, int]:
    """The samples labelled with a classifier's answers, and the axis of the classes in its first output.

    That is axis 1 for images (four axes or more), else the last: accuracy on these samples is agreement with the classifier. Raises InputError for an
    output without distinct classes.
    """
    output = model.graph.output[0].name
    compiled = Tapped(model, [output], threads=threads, cache=cache)
    answers, axis = [], -1
    for batch in samples.batches():
        result = compiled.run(batch.inputs)[output]
        axis = 1 if result.ndim > 3 else -1
        if result.dtype.kind == "f":
            if result.ndim == 0 or result.shape[axis] < 2:
                raise InputError(
                    f"{batch.source}: expected classes in the output '{output}', two or more on axis {axis}, whose greatest is the answer, "
                    f"got {result.dtype.name}{list(result.shape)}; give labels"
                )
            result = result.argmax(axis)
        answers.append(result)
    return samples.with_labels(answers), axis


@dataclass(frozen=True)
class WithinBudget:
    """A network that loses at most its budget."""

    network: Quantized
    kept: Kept
    """The layers that stay in floats, the loss in points, and the tried networks."""
    accuracy: float
    """The accuracy of the float network, in percent; 100 if its answers are the labels."""


@checked_by(source=arguments.CALIBRATED, budget=arguments.number, on_step=arguments.function)
def quantized_within(
    source: Calibrated, budget: float, *, threads: int | None = None, cache: bool = True, on_step: Callable[[str], None] = lambda text: None
) -> WithinBudget:  # fmt: skip
    """Quantise a network, except for the few layers that must stay in floats for it to lose at most `budget` points of accuracy.

    Accuracy is measured on the labels of the samples that `source` was calibrated with; 0.5 means that 97.5 % may become 97 %. Without labels it is
    agreement with the float network (`answered`). Layers are tried in the order of their effect on the outputs (`quality.compare`), as in
    `budget.within_budget`. Raises InputError like these functions.
    """
    on_step("accuracy in floats")
    samples, axis, before = source.samples, None, 100.0
    if samples.labelled:
        before = accuracy(source.floats, samples, threads=threads, cache=cache)
    else:
        samples, axis = answered(source.floats, samples, threads=threads, cache=cache)
    made: dict[frozenset[str], Quantized] = {}

    def loss(kept: frozenset[str]) -> float:
        on_step(f"accuracy with {len(kept)} layers in floats")
        made[kept] = source.quantized(kept)
        return before - accuracy(made[kept].model, samples, axis=axis, threads=threads, cache=cache)

    def order() -> list[str]:
        quality = compare(source.floats, made[frozenset()].model, source.samples, threads=threads, cache=cache, on_step=on_step)
        return [layer.name for layer in quality.worst_first()]

    kept = within_budget(loss, order, budget)
    return WithinBudget(made[frozenset(kept.layers)], kept, before)
