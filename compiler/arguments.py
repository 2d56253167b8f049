"""Checks of the public functions' arguments, by name; turns exceptions of Python and the system into StepwellErrors."""

import functools
import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from stepwell import checks
from stepwell.dialects.support.errors import ResourceError
from stepwell.dialects.target.cores import thread_count
from stepwell.passes.framework.levels import find_level

P = ParamSpec("P")
R = TypeVar("R")


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator for public functions: checks arguments by the names of their parameters.

    The function then raises InputError for an argument of the wrong kind, before it does anything, and ResourceError if memory, stack or files run
    out.
    """
    return checked_by()(function)


def checked_by(**own: checks.Check) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Like `checked`, with additional checks for parameters with these names: functions of name and value, which raise InputError."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature, title = inspect.signature(function), function.__qualname__.removesuffix(".__init__")

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            given = signature.bind(*args, **kwargs).arguments  # raises TypeError for a wrong signature, like Python itself
            for name, value in given.items():
                if value is not None or signature.parameters[name].default is not None:
                    own.get(name, check_argument)(name, value)
            with typed_errors(title):
                return function(*args, **kwargs)

        return call

    return decorate


@contextmanager
def typed_errors(what: str) -> Iterator[None]:
    """Raise ResourceError, with `what` as the failed action, if memory, stack or files run out in the block."""
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


_CHECKS: dict[str, checks.Check] = {
    "source": checks.source,
    "threads": lambda name, value: thread_count(value),
    "tolerance": checks.tolerance,
    "target": checks.target,
    "backend": checks.backend,
    "shapes": checks.shapes,
    "names": checks.names,
    **dict.fromkeys(("path", "folder"), checks.file),
    "prefix": checks.text,
    "kinds": checks.must_be("a tuple of kinds of code", lambda value: isinstance(value, (list, tuple)) and all(map(checks.is_text, value))),
    "plan": checks.plan,
    "schedule": checks.plan,
    "on_level": checks.function,
    "budget": checks.must_be("a number of seconds above 0", lambda value: checks.is_number(value) and 0 < value < math.inf),
    "seed": checks.whole(0),
    "strategy": checks.text,
    "command": checks.text,
    "floors": checks.must_be("a tuple of kinds of sites", lambda value: isinstance(value, (list, tuple)) and all(map(checks.is_text, value))),
    "executor": checks.must_be("an executor (stepwell.tuning.executor)", lambda value: hasattr(value, "build") and hasattr(value, "run")),
    "observers": checks.instance("Observers"),
    "instrumentation": checks.instrumentation,
    "lowered": checks.lowered,
    "text": checks.text,
    "name": checks.text,
    "weights": checks.weights,
    "limits": checks.limits,
    **dict.fromkeys(("inputs", "outputs", "values"), checks.arrays),
    **dict.fromkeys(("again", "cache", "copied", "embed", "f64", "keep", "recording", "rounding", "verify"), checks.flag),
    **dict.fromkeys(("level", "to_level"), lambda name, value: find_level(value)),
}
"""The check for each parameter of public functions. A default of None passes. The fields of `CompileOptions` carry their own checks."""
