"""Checks of single arguments and options: functions of the argument's name and value, which raise InputError with one clear message."""

import operator
import os
from collections.abc import Callable, Mapping, Set
from typing import Any, TypeAlias

from stepwell.dialects.core.sizes import is_name
from stepwell.dialects.sched.plan_file import Plan
from stepwell.dialects.support.errors import InputError, shown
from stepwell.dialects.support.limits import Limits
from stepwell.dialects.target.description import Target
from stepwell.dialects.target.registry import check_name
from stepwell.pipelines.routes import check_backend

Check: TypeAlias = Callable[[str, Any], object]


def wrong(name: str, expected: str, value: Any) -> InputError:
    """The error for an unexpected argument."""
    return InputError(f"{name}: expected {expected}, got {shown(value)}")


def one_of(*choices: str) -> Check:
    """The check that a value is one of these names."""

    def check(name: str, value: Any) -> None:
        if not isinstance(value, str) or value not in choices:
            raise wrong(name, f"one of {', '.join(choices)}", value)

    return check


def shapes(name: str, value: Any) -> None:
    """Raise InputError unless `value` maps names to lists of sizes, or for sequences to lists of such lists, or for an empty optional to None."""
    if not isinstance(value, Mapping):
        raise wrong(name, "shapes by the names of inputs, as in {'image': (1, 3, 224, 224)}", value)
    for key, shape in value.items():
        if not isinstance(key, str):
            raise wrong(name, "the name of an input, which is a string", key)
        if shape is None or _is_shape(shape):
            continue
        if not isinstance(shape, (list, tuple)) or not all(map(_is_shape, shape)):
            raise wrong(name, f"the sizes of '{key}', as in (1, 3, 224, 224), or of each element of a sequence", shape)


def _is_shape(shape: Any) -> bool:
    try:
        return not isinstance(shape, (str, bytes, Mapping)) and all(size is None or operator.index(size) >= 0 for size in shape)
    except TypeError:
        return False


def size_hints(name: str, value: Any) -> None:
    """Raise InputError unless `value` maps symbols to sizes of at least 1."""
    if not isinstance(value, Mapping):
        raise wrong(name, "likely sizes by the names of free dimensions, as in {'batch': 8}", value)
    for key, size in value.items():
        if not isinstance(key, str) or not is_name(key):
            raise wrong(name, "the name of a free dimension, which is a word", key)
        try:
            fits = type(size).__name__ not in ("bool", "bool_") and operator.index(size) >= 1
        except TypeError:
            fits = False
        if not fits:
            raise wrong(name, f"a whole number from 1 for '{key}'", size)


def bound_names(name: str, value: Any) -> None:
    """Raise InputError unless `value` maps names to names."""
    if not isinstance(value, Mapping):
        raise wrong(name, "names of outputs by those of the inputs that take them, as in {'past': 'present'}", value)
    for taker, giver in value.items():
        if not isinstance(taker, str):
            raise wrong(name, "the name of an input, which is a string", taker)
        if not isinstance(giver, str):
            raise wrong(name, f"the name of an output for '{taker}', which is a string", giver)


def arrays(name: str, value: Any) -> None:
    """Raise InputError unless `value` maps names to arrays."""
    import numpy as np  # imported here and below, because the command line, which shows help without it, imports this file too

    if not isinstance(value, Mapping):
        raise wrong(name, "arrays by name, as a dict", value)
    for key, array in value.items():
        if not isinstance(array, (np.ndarray, np.generic)):
            raise wrong(name, f"an array for '{key}'", array)


def source(name: str, value: Any) -> None:
    """Raise InputError unless `value` is a model."""
    if isinstance(value, (str, os.PathLike)):
        _path(name, value)
    from stepwell.frontends.registry import find_frontend  # imported here, because help does not need it

    find_frontend(value, name)


def _path(name: str, value: Any) -> None:
    text = os.fspath(value)
    if not text or (b"\0" if isinstance(text, bytes) else "\0") in text:
        raise wrong(name, "the path of a file", value)


def file(name: str, value: Any) -> None:
    """Raise InputError unless `value` is the path of a file."""
    if not isinstance(value, (str, os.PathLike)):
        raise wrong(name, "the path of a file", value)
    _path(name, value)


def backend(name: str, value: Any) -> None:
    """Raise InputError unless `value` is the name of a backend."""
    check_backend(value)


def target(name: str, value: Any) -> None:
    """Raise InputError unless `value` is a target or its name."""
    if isinstance(value, str):
        check_name(value)
    elif not isinstance(value, Target):
        raise wrong(name, "the name of a target or a stepwell.Target", value)


def names(name: str, value: Any) -> None:
    """Raise InputError unless `value` is a collection of names."""
    if not isinstance(value, str) and (not isinstance(value, (list, tuple, Set)) or not all(isinstance(entry, str) for entry in value)):
        raise wrong(name, "names of switches to turn off", value)  # a string gets a better message elsewhere


def plan(name: str, value: Any) -> None:
    """Raise InputError unless `value` is a plan or its path."""
    if isinstance(value, (str, os.PathLike)):
        _path(name, value)
    elif not isinstance(value, Plan):
        raise wrong(name, "the path of a plan or a Plan", value)


def flag(name: str, value: Any) -> None:
    """Raise InputError unless `value` is a boolean."""
    if type(value).__name__ not in ("bool", "bool_"):  # also numpy's
        raise wrong(name, "True or False", value)


def tolerance(name: str, value: Any) -> None:
    """Raise InputError unless `value` is a finite, nonnegative number."""
    import numpy as np

    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)) or not 0 <= value < float("inf"):
        raise wrong(name, "a number from 0", value)


def function(name: str, value: Any) -> None:
    """Raise InputError unless `value` is callable."""
    if not callable(value):
        raise wrong(name, "a function of a level and seconds", value)


def instrumentation(name: str, value: Any) -> None:
    """Raise InputError unless `value` is an Instrumentation."""
    from stepwell.passes.framework.instrumentation import Instrumentation

    if not isinstance(value, Instrumentation):
        raise wrong(name, "an Instrumentation", value)


def text(name: str, value: Any) -> None:
    """Raise InputError unless `value` is Unicode text."""
    if not isinstance(value, str):
        raise wrong(name, "a string", value)
    if "\0" in value or value.encode(errors="replace").decode() != value:
        raise InputError(f"{name}: expected text in Unicode, got a zero byte or half a character in it")


def weights(name: str, value: Any) -> None:
    """Raise InputError unless `value` is a WeightTable."""
    from stepwell.dialects.core.weights import WeightTable

    if not isinstance(value, WeightTable):
        raise wrong(name, "a WeightTable", value)


def limits(name: str, value: Any) -> None:
    """Raise InputError unless `value` is a stepwell.Limits."""
    if not isinstance(value, Limits):
        raise wrong(name, "a stepwell.Limits", value)
