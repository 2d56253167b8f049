"""Checks of the arguments of the quantiser's public functions."""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import onnx

from stepwell.arguments import check_argument
from stepwell.checks import wrong

Check = Callable[[str, Any], object]


def like(parameter: str) -> Check:
    """What `stepwell.compile` and the like take for a parameter of that name."""

    def check(name: str, value: Any) -> None:
        check_argument(parameter, value, of=name)

    return check


def proto(name: str, value: Any) -> None:
    """A model that was read."""
    if not isinstance(value, onnx.ModelProto):
        raise wrong(name, "an onnx.ModelProto", value)


def whole(first: int) -> Check:
    """A whole number from `first`."""

    def check(name: str, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < first:
            raise wrong(name, f"a whole number from {first}", value)

    return check


def axis(name: str, value: Any) -> None:
    """The number of a dimension, from the front or the back."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong(name, "the number of a dimension", value)


def number(name: str, value: Any) -> None:
    """A number from 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        raise wrong(name, "a number from 0", value)


def function(name: str, value: Any) -> None:
    """What is told of progress."""
    if not callable(value):
        raise wrong(name, "a function that is told of progress", value)


def data(name: str, value: Any) -> None:
    """What samples are read from."""
    if isinstance(value, Mapping):
        for key, array in value.items():
            if not isinstance(key, str):
                raise wrong(name, "arrays by the names of inputs", key)
            if not hasattr(array, "__array__") and not isinstance(array, (list, tuple)):
                raise wrong(name, f"an array for '{key}'", array)
    elif not isinstance(value, (str, os.PathLike)) and not _is_a("Samples", value):
        raise wrong(name, "the path of an .npz file or folder, arrays by the inputs' names, or Samples", value)


def _is_a(kind: str, value: Any) -> bool:
    """Whether a value is of a class of that name, or of one below it: the classes themselves import this file."""
    return kind in [cls.__name__ for cls in type(value).__mro__]


def instance(kind: str, expected: str) -> Check:
    """An object of one of the quantiser's classes, or of one below it."""

    def check(name: str, value: Any) -> None:
        if not _is_a(kind, value):
            raise wrong(name, expected, value)

    return check


def batches(name: str, value: Any) -> None:
    """Samples, or the inputs of one run after the other."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise wrong(name, "Samples, or arrays by the inputs' names for one run after the other", value)


def names(name: str, value: Any) -> None:
    """Names or patterns of nodes."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise wrong(name, "names", value)


def texts_by_name(name: str, value: Any) -> None:
    """Texts, each with a name."""
    if not isinstance(value, Mapping) or not all(isinstance(part, str) for entry in value.items() for part in entry):
        raise wrong(name, "texts by names", value)


source = like("source")
OPTIONS = instance("QuantizeOptions", "a QuantizeOptions")
SAMPLES = instance("Samples", "Samples")
QUALITY = instance("Quality", "a Quality, which compare gives")
CALIBRATED = instance("Calibrated", "a Calibrated")
