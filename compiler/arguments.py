"""Checks of the public functions' arguments, by name; turns exceptions of Python and the system into StepwellErrors."""

import functools
import inspect
import operator
import os
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from stepwell.dialects.core.sizes import is_name
from stepwell.dialects.sched.plan_file import Plan
from stepwell.dialects.support.errors import InputError, ResourceError, shown
from stepwell.dialects.support.limits import Limits
from stepwell.dialects.target.cores import thread_count
from stepwell.dialects.target.description import Target
from stepwell.dialects.target.registry import check_name
from stepwell.passes.framework.levels import find_level
from stepwell.pipelines.routes import check_backend

P = ParamSpec("P")
R = TypeVar("R")


SPECIALISE = ("auto", "always", "never")
PRECISIONS = ("f32", "bf16")


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator for public functions: check arguments by the names of their parameters.

    The function then raises InputError for an argument of the wrong kind, before it does anything, and ResourceError if memory, stack
    or files run out.
    """
    return checked_by()(function)


def checked_by(**checks: Callable[[str, Any], object]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """As `checked`, with checks of the function's own for parameters of these names: functions of name and value, which raise InputError."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature, title = inspect.signature(function), function.__qualname__.removesuffix(".__init__")

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            given = signature.bind(*args, **kwargs).arguments  # raises TypeError for a wrong signature, like Python itself
            for name, value in given.items():
                if value is not None or signature.parameters[name].default is not None:
                    checks.get(name, check_argument)(name, value)
            with typed_errors(title):
                return function(*args, **kwargs)

        return call

    return decorate


@contextmanager
def typed_errors(what: str) -> Iterator[None]:
    """Raise ResourceError, which names `what` is done, if memory, stack or files run out in the block."""
    try:
        yield
    except MemoryError as error:
        raise ResourceError(f"{what}: out of memory{f': {error}' if str(error) else ''}") from error
    except RecursionError as error:
        raise ResourceError(f"{what}: nested too deeply for Python's stack (sys.setrecursionlimit)") from error
    except OSError as error:
        where = f"{error.filename}: " if error.filename is not None else ""
        raise ResourceError(f"{what}: {where}{error.strerror or error}") from error


def check_argument(name: str, value: Any, *, of: str | None = None) -> None:
    """Raise InputError unless `value` is valid for an argument of that name; unknown names pass. The error names the argument `of`, if given."""
    if name in _CHECKS:
        _CHECKS[name](name if of is None else of, value)


def wrong(name: str, expected: str, value: Any) -> InputError:
    """The error for an unexpected argument."""
    return InputError(f"{name}: expected {expected}, got {shown(value)}")


def _check_specialise(name: str, value: Any) -> None:
    if not isinstance(value, str) or value not in SPECIALISE:
        raise wrong(name, f"one of {', '.join(SPECIALISE)}", value)


def check_shapes(name: str, value: Any) -> None:
    """Raise InputError unless `value` maps names to lists of sizes, to lists of such for sequences, or to None for an optional of nothing."""
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


def _size_hints(name: str, value: Any) -> None:
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


def _bind(name: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise wrong(name, "names of outputs by those of the inputs that take them, as in {'past': 'present'}", value)
    for taker, giver in value.items():
        if not isinstance(taker, str):
            raise wrong(name, "the name of an input, which is a string", taker)
        if not isinstance(giver, str):
            raise wrong(name, f"the name of an output for '{taker}', which is a string", giver)


def _arrays(name: str, value: Any) -> None:
    import numpy as np  # here and below, because the command line, which shows help without it, imports this file too

    if not isinstance(value, Mapping):
        raise wrong(name, "arrays by name, as a dict", value)
    for key, array in value.items():
        if not isinstance(array, (np.ndarray, np.generic)):
            raise wrong(name, f"an array for '{key}'", array)


def _source(name: str, value: Any) -> None:
    if isinstance(value, (str, os.PathLike)):
        _path(name, value)
    from stepwell.frontends.registry import find_frontend  # here, because help does without

    find_frontend(value, name)


def _path(name: str, value: Any) -> None:
    text = os.fspath(value)
    if not text or (b"\0" if isinstance(text, bytes) else "\0") in text:
        raise wrong(name, "the path of a file", value)


def _file(name: str, value: Any) -> None:
    if not isinstance(value, (str, os.PathLike)):
        raise wrong(name, "the path of a file", value)
    _path(name, value)


def _target(name: str, value: Any) -> None:
    if isinstance(value, str):
        check_name(value)
    elif not isinstance(value, Target):
        raise wrong(name, "the name of a target or a stepwell.Target", value)


def _names(name: str, value: Any) -> None:
    if not isinstance(value, str) and (not isinstance(value, (list, tuple, Set)) or not all(isinstance(entry, str) for entry in value)):
        raise wrong(name, "names of what to switch off", value)  # a string gets a better message elsewhere


def _plan(name: str, value: Any) -> None:
    if isinstance(value, (str, os.PathLike)):
        _path(name, value)
    elif not isinstance(value, Plan):
        raise wrong(name, "the path of a plan or a Plan", value)


def _flag(name: str, value: Any) -> None:
    if type(value).__name__ not in ("bool", "bool_"):  # numpy's too
        raise wrong(name, "True or False", value)


def _tolerance(name: str, value: Any) -> None:
    import numpy as np

    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)) or not 0 <= value < float("inf"):
        raise wrong(name, "a number from 0", value)


def _callable(name: str, value: Any) -> None:
    if not callable(value):
        raise wrong(name, "a function of a level and seconds", value)


def _instrumentation(name: str, value: Any) -> None:
    from stepwell.passes.framework.instrumentation import Instrumentation

    if not isinstance(value, Instrumentation):
        raise wrong(name, "an Instrumentation", value)


def _text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise wrong(name, "a string", value)
    if "\0" in value or value.encode(errors="replace").decode() != value:
        raise InputError(f"{name}: expected text in Unicode, got a zero byte or half a character in it")


def _weights(name: str, value: Any) -> None:
    from stepwell.dialects.core.weights import WeightTable

    if not isinstance(value, WeightTable):
        raise wrong(name, "a WeightTable", value)


def _limits(name: str, value: Any) -> None:
    if not isinstance(value, Limits):
        raise wrong(name, "a stepwell.Limits", value)


def _precision(name: str, value: Any) -> None:
    if not isinstance(value, str) or value not in PRECISIONS:
        raise wrong(name, f"one of {', '.join(map(repr, PRECISIONS))}", value)


_CHECKS: dict[str, Callable[[str, Any], object]] = {
    "source": _source,
    "threads": lambda name, value: thread_count(value),
    "tolerance": _tolerance,
    "target": _target,
    "backend": lambda name, value: check_backend(value),
    "shapes": check_shapes,
    "specialise": _check_specialise,
    "size_hints": _size_hints,
    "bind": _bind,
    **dict.fromkeys(("disable", "names", "keep_f32"), _names),
    "precision": _precision,
    "path": _file,
    "plan": _plan,
    "schedule": _plan,
    "on_level": _callable,
    "instrumentation": _instrumentation,
    "text": _text,
    "name": _text,
    "weights": _weights,
    "limits": _limits,
    **dict.fromkeys(("inputs", "outputs", "values"), _arrays),
    **dict.fromkeys(("cache", "libm", "strict", "keep", "same_names", "same_data_sizes", "f64"), _flag),
    **dict.fromkeys(("level", "to_level"), lambda name, value: find_level(value)),
}
"""The check for each parameter. None passes where it is the default."""


def register_check(name: str, check: Callable[[str, Any], object]) -> None:
    """Register the check for arguments of that name: a function of name and value, which raises InputError."""
    _CHECKS[name] = check
