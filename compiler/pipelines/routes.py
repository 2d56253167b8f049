"""Routes: the levels and passes of each backend, as far as options and pipelines need them."""

from collections.abc import Sequence
from importlib import import_module
from typing import ClassVar, Protocol

from stepwell.dialects.support.errors import InputError, shown
from stepwell.dialects.support.processes import uninterrupted
from stepwell.dialects.target.description import Target
from stepwell.passes.framework.levels import LevelPath, find_level
from stepwell.pipelines.phases import Phase

DEFAULT = "llvm"
"""The name of the built-in backend."""
CPU_PATH = LevelPath("graph", "graph-opt", "linalg", "scheduled", "affine", "llvm")
"""The levels of the built-in backend down to machine code for the CPU; defined here, because loading the backend takes long."""
_BUILT_IN = {DEFAULT: "stepwell.backends.llvm_cpu.backend"}  # importing the module registers it


class Route(Protocol):
    """The way from a model to code; `stepwell.backends.base.Backend` is the whole interface."""

    name: ClassVar[str]
    path: ClassVar[LevelPath]
    code_levels: ClassVar[Sequence[str]]

    def phases(self, target: "str | Target") -> Sequence[Phase]:
        """The default pipeline."""

    def check_target(self, target: "str | Target") -> None:
        """Raise InputError for an unsupported machine."""


_REGISTERED: dict[str, Route] = {}


def add_route(name: str, route: Route) -> None:
    """Register a route under a name, replacing a previous one. Raises InputError if a backend of another class has this name."""
    if not isinstance(name, str) or not name:
        raise InputError(f"expected the name of a backend, got {shown(name)}")
    cls, known = type(route), type(_REGISTERED[name]) if name in _REGISTERED else None
    taken = known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__)
    if taken or (name in _BUILT_IN and cls.__module__ != _BUILT_IN[name]):
        raise InputError(f"backend '{name}' is already there")
    _REGISTERED[name] = route


def find_route(name: str) -> Route:
    """The route with that name. Raises InputError for an unknown name."""
    if check_backend(name) not in _REGISTERED:
        with uninterrupted():
            import_module(_BUILT_IN[name])
    return _REGISTERED[name]


def path_of(name: str) -> LevelPath:
    """The levels that a backend takes a model through; for the default backend without loading it. Raises InputError for an unknown name."""
    return CPU_PATH if name == DEFAULT else find_route(name).path


def check_on_path(level: str, backend: str) -> str:
    """`level` itself. Raises InputError if a backend's path does not go through it, or there is no such level."""
    if find_level(level).name not in (path := path_of(backend)):
        raise InputError(f"backend '{backend}' has no level '{level}'; it goes through {path}")
    return level


def backend_names() -> tuple[str, ...]:
    """The names of all backends."""
    return tuple(dict.fromkeys((*_BUILT_IN, *_REGISTERED)))


def check_backend(name: str) -> str:
    """`name` itself. Raises InputError if no backend has that name."""
    if not isinstance(name, str) or name not in backend_names():
        raise InputError(f"unknown backend {shown(name)}; known: {', '.join(backend_names())}")
    return name
