"""The registry of backends: the built-in one, and those of plugins."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Protocol, TypeVar

from stepwell.dialects.support.errors import CodegenError, InputError, StepwellError, shown
from stepwell.dialects.support.extensions import extension
from stepwell.dialects.support.origins import plugin_line
from stepwell.dialects.support.processes import uninterrupted
from stepwell.dialects.target.description import Target
from stepwell.passes.framework.levels import LEVELS, PACKED

DEFAULT = "llvm"
_BUILT_IN = {DEFAULT: "stepwell.codegen.llvm_cpu"}  # importing the module registers it
B = TypeVar("B", bound=type[Any])


class Described(Protocol):
    """The part of a backend that options and pipelines use; `stepwell.driver.backend.Backend` is the whole interface."""

    name: str
    levels: Sequence[str]

    def pipeline(self, target: "str | Target") -> str:
        """The text of the default pipeline."""

    def check_target(self, target: "str | Target") -> None:
        """Raise InputError for an unsupported machine."""


_REGISTERED: dict[str, Described] = {}


def register_backend(name: str) -> Callable[[B], B]:
    """Register a class (see `Backend`) as the backend that `--backend NAME` and `backend="NAME"` choose.

    Raises InputError if the name is taken, or if code cannot be generated from its `levels`.
    """
    if not isinstance(name, str) or not name:
        raise InputError(f"expected the name of a backend, got {shown(name)}")

    def add(cls: B) -> B:
        known = type(_REGISTERED[name]) if name in _REGISTERED else None
        taken = known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__)
        if taken or (name in _BUILT_IN and cls.__module__ != _BUILT_IN[name]):
            raise InputError(f"backend '{name}' is already there")
        places = [LEVELS.index(level) if level in LEVELS else -1 for level in cls.levels]
        if not places or places != sorted(set(places)) or places[0] < LEVELS.index(PACKED):
            below = ", ".join(LEVELS[LEVELS.index(PACKED) :])
            raise InputError(f"backend '{name}': expected levels to make code from, among {below}, highest first; got {shown(cls.levels)}")
        cls.name = name
        _REGISTERED[name] = cls()
        extension(cls)  # it does not affect cached code of other backends
        return cls

    return add


def backend_names() -> tuple[str, ...]:
    """The names of all backends."""
    return tuple(dict.fromkeys((*_BUILT_IN, *_REGISTERED)))


def check_backend(name: str) -> str:
    """`name` itself. Raises InputError if no backend has that name."""
    if not isinstance(name, str) or name not in backend_names():
        raise InputError(f"unknown backend {shown(name)}; known: {', '.join(backend_names())}")
    return name


def made_by(name: str, what: str, action: Callable[[], Any], expected: str, fits: Callable[[Any], bool]) -> Any:
    """What a method of a backend, `what`, gives. Raises CodegenError, naming backend and line, where it fails or gives something else."""
    try:
        made = action()
    except (StepwellError, OSError, MemoryError, RecursionError):
        raise
    except Exception as error:
        line = plugin_line(error)
        if not line:
            raise  # ours
        raise CodegenError(f"backend '{name}': {what}: {type(error).__name__}: {error}{line}") from error
    if not fits(made):
        raise CodegenError(f"backend '{name}': {what} must give {expected}, got {shown(made)}")
    return made


def find_backend(name: str) -> Any:
    """The `Backend` of that name. Raises InputError for another name."""
    if check_backend(name) not in _REGISTERED:
        with uninterrupted():
            import_module(_BUILT_IN[name])
    return _REGISTERED[name]
