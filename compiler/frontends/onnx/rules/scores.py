"""Helpers shared by the classifiers and regressors of ai.onnx.ml: scores, their transforms, and labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.blocks.scores import probit, softmax_zero
from stepwell.frontends.builder import Value
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.frames import Unavailable

ML = "ai.onnx.ml"
Transform: TypeAlias = Literal["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]


@dataclass(frozen=True)
class Labels:
    """The classes of a classifier: their number, and their labels if these are numbers."""

    count: int
    numbers: tuple[int, ...] | None

    def pick(self, b: ImportBuilder, classes: Value) -> Value | Unavailable:
        """The label of each class index; strings are unavailable, which is reported if something uses them."""
        if self.numbers is None:
            return Unavailable(problem="an output of string labels is not supported; supported: integer labels, or leaving that output unused")
        if self.numbers == tuple(range(self.count)):
            return classes
        return b.gather(b.literal(np.array(self.numbers, np.int64)), classes, axis=0)


def labels_of(numbers: Sequence[int], strings: Sequence[str]) -> Labels:
    """The classes that a node names. Raises ModelError for integers and strings at once, or none."""
    if bool(numbers) == bool(strings):
        raise ModelError(f"its class labels must be either integers or strings, got {len(numbers)} integers and {len(strings)} strings")
    return Labels(len(numbers) or len(strings), tuple(numbers) if numbers else None)


def transformed(b: ImportBuilder, scores: Value, transform: Transform) -> Value:
    """Scores (samples, classes) after a `post_transform`."""
    if transform == "LOGISTIC":
        return b.sigmoid(scores)
    if transform == "SOFTMAX":
        return b.softmax(scores, axis=1)
    if transform == "SOFTMAX_ZERO":
        return softmax_zero(b, scores)
    return probit(b, scores) if transform == "PROBIT" else scores
