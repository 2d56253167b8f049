"""The registry of backends: the built-in one, and those of plugins."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from stepwell.backends.base import Backend
from stepwell.dialects.support.errors import CodegenError, InputError, shown
from stepwell.dialects.support.extensions import extension
from stepwell.dialects.support.origins import result_of
from stepwell.passes.framework.levels import LevelPath
from stepwell.pipelines.routes import add_route, find_route

B = TypeVar("B", bound=Backend)
T = TypeVar("T")


def register_backend(name: str) -> Callable[[type[B]], type[B]]:
    """Register a subclass of `Backend` as the backend that `--backend NAME` and `backend="NAME"` choose.

    Raises InputError if the name is taken, or if code cannot be generated from its `code_levels`.
    """

    def add(cls: type[B]) -> type[B]:
        if not (isinstance(cls, type) and issubclass(cls, Backend)):
            raise InputError(f"backend '{name}': expected a subclass of Backend, got {shown(cls)}")
        cls.code_levels = _code_levels(name, getattr(cls, "path", None), cls.code_levels)
        add_route(name, cls())
        cls.name = name
        extension(cls)  # it does not affect cached code of other backends
        return cls

    return add


def _code_levels(name: str, path: object, given: Sequence[str]) -> tuple[str, ...]:
    """The levels that code can be generated from, by default the last of the path. Raises InputError if they are not on the path."""
    if not isinstance(path, LevelPath):
        raise InputError(f"backend '{name}': expected a LevelPath as path, got {shown(path)}")
    levels = tuple(given) or (path.last,)
    able = [level.name for level in path.levels if level.arena]
    if list(levels) != [level for level in able if level in levels] or levels[-1] != path.last:
        among = f"among those of its path with an arena ({', '.join(able) or 'none'}), down to the last"
        raise InputError(f"backend '{name}': expected code_levels {among}, highest first; got {', '.join(map(str, levels))}")
    return levels


def find_backend(name: str) -> Backend:
    """The backend with that name. Raises InputError for an unknown name."""
    found = find_route(name)
    if not isinstance(found, Backend):
        raise InputError(f"backend '{name}': expected a Backend, got {shown(found)}")
    return found


def checked_result(name: str, what: str, action: Callable[[], T], expected: str, fits: Callable[[T], bool]) -> T:
    """The result of a backend's method `what`. Raises CodegenError, naming backend and line, if it fails or returns something unexpected."""
    return result_of(f"backend '{name}': {what}", action, expected, fits, CodegenError)
