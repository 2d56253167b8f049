"""The registry of backends: the built-in one, and those of plugins."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Protocol, TypeVar

from stepwell.dialects.support.errors import CodegenError, InputError, StepwellError, shown
from stepwell.dialects.support.extensions import extension
from stepwell.dialects.support.origins import plugin_line
from stepwell.dialects.support.processes import uninterrupted
from stepwell.dialects.target.description import Target
from stepwell.driver.default_pipelines import CPU_PATH
from stepwell.passes.framework.levels import LevelPath, find_level

DEFAULT = "llvm"
_BUILT_IN = {DEFAULT: "stepwell.codegen.llvm_cpu"}  # importing the module registers it
B = TypeVar("B", bound=type[Any])


class Described(Protocol):
    """The part of a backend that options and pipelines use; `stepwell.driver.backend.Backend` is the whole interface."""

    name: str
    path: LevelPath
    code_levels: Sequence[str]

    def pipeline(self, target: "str | Target") -> str:
        """The text of the default pipeline."""

    def check_target(self, target: "str | Target") -> None:
        """Raise InputError for an unsupported machine."""


_REGISTERED: dict[str, Described] = {}


def register_backend(name: str) -> Callable[[B], B]:
    """Register a class (see `Backend`) as the backend that `--backend NAME` and `backend="NAME"` choose.

    Raises InputError if the name is taken, or if code cannot be generated from its `code_levels`.
    """
    if not isinstance(name, str) or not name:
        raise InputError(f"expected the name of a backend, got {shown(name)}")

    def add(cls: B) -> B:
        known = type(_REGISTERED[name]) if name in _REGISTERED else None
        taken = known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__)
        if taken or (name in _BUILT_IN and cls.__module__ != _BUILT_IN[name]):
            raise InputError(f"backend '{name}' is already there")
        cls.code_levels = _code_levels(name, getattr(cls, "path", None), cls.code_levels)
        cls.name = name
        _REGISTERED[name] = cls()
        extension(cls)  # it does not affect cached code of other backends
        return cls

    return add


def _code_levels(name: str, path: Any, given: Sequence[str]) -> tuple[str, ...]:
    """The levels that code can be generated from, by default the last of the path. Raises InputError unless that is possible."""
    if not isinstance(path, LevelPath):
        raise InputError(f"backend '{name}': expected a LevelPath as path, got {shown(path)}")
    levels = tuple(given) or (path.last,)
    able = [level.name for level in path.levels if level.arena]
    if list(levels) != [level for level in able if level in levels] or levels[-1] != path.last:
        among = f"among those of its path with an arena ({', '.join(able) or 'none'}), down to the last"
        raise InputError(f"backend '{name}': expected code_levels {among}, highest first; got {', '.join(map(str, levels))}")
    return levels


def path_of(name: str) -> LevelPath:
    """The levels that a backend takes a model through; that of the default one without loading it. Raises InputError for an unknown name."""
    path: LevelPath = CPU_PATH if name == DEFAULT else find_backend(name).path
    return path


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
