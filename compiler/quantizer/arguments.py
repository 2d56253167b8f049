"""Checks of the arguments of the quantiser's public functions."""

import os
from collections.abc import Iterable, Mapping
from typing import Any

from stepwell.arguments import check_argument
from stepwell.checks import Check as Check, by_name, instance, is_a, is_number, is_text, is_whole, must_be, whole as whole, wrong


def like(parameter: str) -> Check:
    """The check that `stepwell.compile` and other functions use for a parameter of that name."""
    return lambda name, value: check_argument(parameter, value, of=name)


_arrays = by_name(
    "arrays", "an array for '{}'", lambda array: hasattr(array, "__array__") or isinstance(array, (list, tuple)), key="arrays by the names of inputs"
)


def data(name: str, value: Any) -> None:
    """Check for a source of samples."""
    if isinstance(value, Mapping):
        _arrays(name, value)
    elif not isinstance(value, (str, os.PathLike)) and not is_a("Samples", value):
        raise wrong(name, "the path of an .npz file or folder, arrays by the inputs' names, or Samples", value)


source = like("source")
proto = instance("ModelProto", "an onnx.ModelProto")
axis = must_be("the number of a dimension", lambda value: is_whole(value, -(1 << 31)))
number = must_be("a number from 0", lambda value: is_number(value) and value >= 0)
function = must_be("a function that is told of progress", callable)
batches = must_be(
    "Samples, or arrays by the inputs' names for one run after the other",
    lambda value: isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping)),
)
names = must_be("names", lambda value: isinstance(value, Iterable) and not isinstance(value, str))
texts_by_name = must_be("texts by names", lambda value: isinstance(value, Mapping) and all(map(is_text, (*value, *value.values()))))
OPTIONS = instance("QuantizeOptions")
SAMPLES = instance("Samples", "Samples")
QUALITY = instance("Quality", "a Quality, which compare gives")
CALIBRATED = instance("Calibrated")
