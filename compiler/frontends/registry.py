"""The registry of front ends: the built-in one for ONNX, and those of plugins."""

import os
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TypeVar

from stepwell.dialects.support.errors import InputError, ModelError, shown
from stepwell.dialects.support.extensions import extension
from stepwell.dialects.support.origins import result_of
from stepwell.dialects.support.processes import uninterrupted
from stepwell.frontends.base import FrontEnd
from stepwell.plugin_files import load_installed

F = TypeVar("F", bound=FrontEnd)
T = TypeVar("T")
BUILT_IN = "onnx"
"""The name of the built-in front end, which takes every path and all bytes that no other one accepts."""
_BUILT_IN_MODULE = "stepwell.frontends.onnx.frontend"  # importing it registers the front end
_FRONTENDS: dict[str, FrontEnd] = {}


def register_frontend(name: str) -> Callable[[type[F]], type[F]]:
    """Register a subclass of `FrontEnd` under a name.

    Of several front ends that accept a source, the one registered last imports it; the built-in one comes after all others. Raises InputError if the
    name is taken.
    """

    def add(cls: type[F]) -> type[F]:
        if not isinstance(name, str) or not name:
            raise InputError(f"expected the name of a front end, got {shown(name)}")
        if not (isinstance(cls, type) and issubclass(cls, FrontEnd)):
            raise InputError(f"front end '{name}': expected a subclass of FrontEnd, got {shown(cls)}")
        known = type(_FRONTENDS[name]) if name in _FRONTENDS else None
        taken = known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__)
        if taken or (name == BUILT_IN and cls.__module__ != _BUILT_IN_MODULE):
            raise InputError(f"front end '{name}' is already there")
        cls.name = name
        _FRONTENDS.pop(name, None)
        _FRONTENDS[name] = cls()
        extension(cls)
        return cls

    return add


def all_frontends() -> list[FrontEnd]:
    """All front ends, in the order in which they are tried: the last registered one first, the built-in one last."""
    if BUILT_IN not in _FRONTENDS:
        with uninterrupted():
            import_module(_BUILT_IN_MODULE)
    return [*(one for name, one in reversed(_FRONTENDS.items()) if name != BUILT_IN), _FRONTENDS[BUILT_IN]]


def find_frontend(source: object, argument: str = "source") -> FrontEnd:
    """The front end that accepts a source. Raises InputError, naming the argument and the accepted kinds, if none does."""
    load_installed()
    given = normal(source)
    known = all_frontends()
    for front_end in known:
        accepts = partial(front_end.accepts, given)
        if checked_result(front_end, "accepts", accepts, "True or False", lambda made: isinstance(made, bool)):
            return front_end
    accepted = "; ".join(one.accepted or f"what front end '{one.name}' accepts" for one in reversed(known))
    raise InputError(f"{argument}: expected a model: {accepted}, got {shown(source)}")


def normal(source: object) -> object:
    """A source in the form that front ends get: paths are `Path`s."""
    return Path(os.fsdecode(source)) if isinstance(source, (str, os.PathLike)) else source


def checked_result(front_end: FrontEnd, method: str, action: Callable[[], T], expected: str, fits: Callable[[T], bool]) -> T:
    """The result of a method of a front end for a source.

    Raises ModelError, naming front end and line, if a plugin's method fails or returns something unexpected.
    """
    return result_of(f"front end '{front_end.name}': {method}", action, expected, fits, ModelError)
