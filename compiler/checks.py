"""Checks of single arguments and options: functions of the argument's name and value, which raise InputError with one clear message."""

import math
import numbers
import operator
import os
from collections.abc import Callable, Mapping, Set
from typing import Any, TypeAlias

from stepwell.dialects.core.sizes import is_name
from stepwell.dialects.sched.plan_file import Plan
from stepwell.dialects.support.errors import InputError, shown
from stepwell.dialects.target.description import Target
from stepwell.dialects.target.registry import check_name
from stepwell.pipelines.routes import check_backend

Check: TypeAlias = Callable[[str, Any], object]


def wrong(name: str, expected: str, value: Any) -> InputError:
    """The error for an unexpected argument."""
    return InputError(f"{name}: expected {expected}, got {shown(value)}")


def is_text(value: Any) -> bool:
    """Whether a value is a string."""
    return isinstance(value, str)


def must_be(expected: str, fits: Callable[[Any], bool]) -> Check:
    """The check that a value `fits`; the error names what was `expected`."""

    def check(name: str, value: Any) -> None:
        if not fits(value):
            raise wrong(name, expected, value)

    return check


def by_name(
    expected: str, entry: str, fits: Callable[[Any], bool], *,
    key: str = "the name of an input, which is a string", is_key: Callable[[Any], bool] = is_text,
) -> Check:  # fmt: skip
    """The check that a value maps names, for which `is_key` holds, to entries that fit; `entry` and `key` are what errors expect."""

    def check(name: str, value: Any) -> None:
        if not isinstance(value, Mapping):
            raise wrong(name, expected, value)
        for given, part in value.items():
            if not is_key(given):
                raise wrong(name, key, given)
            if not fits(part):
                raise wrong(name, entry.format(given), part)

    return check


def instance(kind: str, expected: str | None = None) -> Check:
    """The check for an object of the class of this name, or of a subclass. The class is not imported: it may take long, or import this file."""
    return must_be(f"a {kind}" if expected is None else expected, lambda value: is_a(kind, value))


def is_a(kind: str, value: Any) -> bool:
    """Whether a value's class, or a base class of it, has this name."""
    return kind in [cls.__name__ for cls in type(value).__mro__]


def one_of(*choices: str) -> Check:
    """The check that a value is one of these names."""
    return must_be(f"one of {', '.join(choices)}", lambda value: isinstance(value, str) and value in choices)


def whole(first: int) -> Check:
    """The check for an integer of at least `first`, also numpy's."""
    return must_be(f"a whole number from {first}", lambda value: is_whole(value, first))


def is_whole(value: Any, first: int) -> bool:
    """Whether a value is an integer of at least `first`."""
    try:
        return not is_flag(value) and operator.index(value) >= first
    except TypeError:
        return False


def is_flag(value: Any) -> bool:
    """Whether a value is a boolean, also numpy's."""
    return type(value).__name__ in ("bool", "bool_")


def is_number(value: Any) -> bool:
    """Whether a value is a real number, also numpy's, which are registered with `numbers`."""
    return isinstance(value, numbers.Real) and not is_flag(value)


def _is_shapes(shape: Any) -> bool:
    """Whether a value is the shape of a tensor, those of a sequence's elements, or None for an empty optional."""
    return shape is None or _is_shape(shape) or (isinstance(shape, (list, tuple)) and all(map(_is_shape, shape)))


def _is_shape(shape: Any) -> bool:
    try:
        return not isinstance(shape, (str, bytes, Mapping)) and all(size is None or operator.index(size) >= 0 for size in shape)
    except TypeError:
        return False


shapes = by_name(
    "shapes by the names of inputs, as in {'image': (1, 3, 224, 224)}",
    "the sizes of '{}', as in (1, 3, 224, 224), or of each element of a sequence", _is_shapes,
)  # fmt: skip
size_hints = by_name(
    "likely sizes by the names of free dimensions, as in {'batch': 8}", "a whole number from 1 for '{}'", lambda size: is_whole(size, 1),
    key="the name of a free dimension, which is a word", is_key=lambda key: is_text(key) and is_name(key),
)  # fmt: skip
bound_names = by_name(
    "names of outputs by those of the inputs that take them, as in {'past': 'present'}",
    "the name of an output for '{}', which is a string", is_text,
)  # fmt: skip
arrays = by_name(
    "arrays by name, as a dict", "an array for '{}'", lambda array: is_a("ndarray", array) or is_a("generic", array), is_key=lambda key: True
)


def source(name: str, value: Any) -> None:
    """Raise InputError unless `value` is a model."""
    if isinstance(value, (str, os.PathLike)):
        file(name, value)
    from stepwell.frontends.registry import find_frontend  # imported here, because help does not need it

    find_frontend(value, name)


def _is_path(value: Any) -> bool:
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else ""
    return bool(text) and (b"\0" if isinstance(text, bytes) else "\0") not in text


def backend(name: str, value: Any) -> None:
    """Raise InputError unless `value` is the name of a backend."""
    check_backend(value)


def target(name: str, value: Any) -> None:
    """Raise InputError unless `value` is a target or its name."""
    if isinstance(value, str):
        check_name(value)
    elif not isinstance(value, Target):
        raise wrong(name, "the name of a target or a stepwell.Target", value)


def plan(name: str, value: Any) -> None:
    """Raise InputError unless `value` is a plan or its path."""
    if isinstance(value, (str, os.PathLike)):
        file(name, value)
    elif not isinstance(value, Plan):
        raise wrong(name, "the path of a plan or a Plan", value)


def text(name: str, value: Any) -> None:
    """Raise InputError unless `value` is Unicode text."""
    if not isinstance(value, str):
        raise wrong(name, "a string", value)
    if "\0" in value or value.encode(errors="replace").decode() != value:
        raise InputError(f"{name}: expected text in Unicode, got a zero byte or half a character in it")


file = must_be("the path of a file", _is_path)
names = must_be(  # a single string gets a better message elsewhere
    "names of switches to turn off", lambda value: isinstance(value, str) or (isinstance(value, (list, tuple, Set)) and all(map(is_text, value)))
)
flag = must_be("True or False", is_flag)
tolerance = must_be("a number from 0", lambda value: is_number(value) and 0 <= value < math.inf)
function = must_be("a function of a level and seconds", callable)
instrumentation = instance("Instrumentation", "an Instrumentation")
lowered = instance("Lowered", "a Lowered, as lower and read_ir give it")
weights = instance("WeightTable")
limits = instance("Limits", "a stepwell.Limits")
