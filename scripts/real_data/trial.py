"""One network with the data that calibrates and judges it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import onnx

__all__ = ["Answer", "Feed", "Outputs", "Say", "Score", "Trial", "as_feeds", "equal", "for_samples"]

Feed: TypeAlias = dict[str, np.ndarray]
"""An array for each input; the batch is 1."""
Outputs: TypeAlias = Mapping[str, np.ndarray]
Answer: TypeAlias = int | str
Score: TypeAlias = Callable[[Answer, Answer], float]
"""How right an answer is, beside the true one: from 0 to 1."""
Say: TypeAlias = Callable[[str], None]
"""Receives progress messages."""


def equal(answer: Answer, truth: Answer) -> float:
    """1 if they are the same, else 0."""
    return float(answer == truth)


@dataclass(frozen=True)
class Trial:
    """A network of floats, and its data: no sample of `calibration` is one of `samples`."""

    task: str
    fold: int
    model: onnx.ModelProto
    calibration: Sequence[Feed]
    samples: Sequence[Feed]
    truths: Sequence[Answer | None]
    """The correct answer for each sample; None if it is unknown: that sample then counts only for agreement."""
    answer: Callable[[Outputs], Answer]
    """Reads the outputs for one sample."""
    scores: Mapping[str, Score]
    """Scores of answers, by name; losses are stated in the first one."""

    def __post_init__(self) -> None:
        if len(self.truths) != len(self.samples):
            raise ValueError(f"{self.task}: expected a truth for each of {len(self.samples)} samples, got {len(self.truths)}")

    def answers(self, run: Callable[[Feed], Outputs]) -> list[Answer]:
        """The answers of an engine, sample by sample."""
        return [self.answer(run(sample)) for sample in self.samples]


def as_feeds(items: Iterable[np.ndarray], name: str) -> list[Feed]:
    """Each array as the feed of one input, with a batch of 1 in front."""
    return [{name: item[None]} for item in items]


def for_samples(model: onnx.ModelProto, sample: Feed) -> onnx.ModelProto:
    """Give the model's inputs the shapes of a sample, whatever free sizes they have; returns the same model."""
    for value in model.graph.input:
        if value.name in sample:
            for dim, size in zip(value.type.tensor_type.shape.dim, sample[value.name].shape, strict=True):
                dim.dim_value = size
    return model
