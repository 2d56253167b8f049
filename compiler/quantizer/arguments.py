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
    """The check that `stepwell.compile` and other functions use for a parameter of that name."""

    def check(name: str, value: Any) -> None:
        check_argument(parameter, value, of=name)

    return check


def proto(name: str, value: Any) -> None:
    """Check for a model that was read."""
    if not isinstance(value, onnx.ModelProto):
        raise wrong(name, "an onnx.ModelProto", value)


def whole(first: int) -> Check:
    """The check for an integer of at least `first`."""

    def check(name: str, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < first:
            raise wrong(name, f"a whole number from {first}", value)

    return check


def axis(name: str, value: Any) -> None:
    """Check for the index of a dimension, from the front or the back."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong(name, "the number of a dimension", value)


def number(name: str, value: Any) -> None:
    """Check for a nonnegative number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        raise wrong(name, "a number from 0", value)


def function(name: str, value: Any) -> None:
    """Check for a progress callback."""
    if not callable(value):
        raise wrong(name, "a function that is told of progress", value)


def data(name: str, value: Any) -> None:
    """Check for a source of samples."""
    if isinstance(value, Mapping):
        for key, array in value.items():
            if not isinstance(key, str):
                raise wrong(name, "arrays by the names of inputs", key)
            if not hasattr(array, "__array__") and not isinstance(array, (list, tuple)):
                raise wrong(name, f"an array for '{key}'", array)
    elif not isinstance(value, (str, os.PathLike)) and not _is_a("Samples", value):
        raise wrong(name, "the path of an .npz file or folder, arrays by the inputs' names, or Samples", value)


def _is_a(kind: str, value: Any) -> bool:
    """Whether a value's class, or a base class of it, has that name: the classes themselves import this file."""
    return kind in [cls.__name__ for cls in type(value).__mro__]


def instance(kind: str, expected: str) -> Check:
    """The check for an object of one of the quantiser's classes, or of a subclass."""

    def check(name: str, value: Any) -> None:
        if not _is_a(kind, value):
            raise wrong(name, expected, value)

    return check


def batches(name: str, value: Any) -> None:
    """Check for samples, or an iterable of the inputs of runs."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise wrong(name, "Samples, or arrays by the inputs' names for one run after the other", value)


def names(name: str, value: Any) -> None:
    """Check for names or patterns of nodes."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise wrong(name, "names", value)


def texts_by_name(name: str, value: Any) -> None:
    """Check for texts by name."""
    if not isinstance(value, Mapping) or not all(isinstance(part, str) for entry in value.items() for part in entry):
        raise wrong(name, "texts by names", value)


source = like("source")
OPTIONS = instance("QuantizeOptions", "a QuantizeOptions")
SAMPLES = instance("Samples", "Samples")
QUALITY = instance("Quality", "a Quality, which compare gives")
CALIBRATED = instance("Calibrated", "a Calibrated")
