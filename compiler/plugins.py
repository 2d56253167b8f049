"""Plugins: other people's ops, importer rules, passes and schedules, from installed packages or from a file."""

import importlib.util
import sys
import traceback
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

from stepwell.dialects.errors import InputError

GROUP = "stepwell.plugins"
_loaded: set[str] = set()


@cache
def load_installed() -> None:
    """Import what installed packages declare in the entry-point group `stepwell.plugins`, once.

    An entry point names a module, whose decorators register things as it is imported. Raises InputError if one fails.
    """
    for point in entry_points(group=GROUP):
        key = f"{point.name} = {point.value}"
        if key not in _loaded:
            try:
                point.load()
            except Exception as error:  # whatever a plugin raises, the user is told which one
                package = point.dist.name if point.dist is not None else "unknown"
                raise InputError(f"plugin '{point.name}' of package {package}: {_where(error, None)}{type(error).__name__}: {error}") from error
            _loaded.add(key)


def load_file(path: str) -> None:
    """Run a plugin's Python file, once. Raises InputError naming file and line if it cannot be read or fails."""
    file = Path(path)
    key = str(file.resolve())
    if key in _loaded:
        return
    if not file.is_file():
        raise InputError(f"plugin {path}: there is no such file")
    name = f"stepwell_plugin_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise InputError(f"plugin {path}: expected a Python file (.py)")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever a plugin raises, the user is told where
        del sys.modules[name]
        raise InputError(f"plugin {path}{_where(error, key)}: {type(error).__name__}: {_message(error)}") from error
    _loaded.add(key)


def _where(error: Exception, file: str | None) -> str:
    """`, line 12` of the plugin's own file if it can be told; without a file, `file, line 12: ` of where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    if file is None:
        return f"{frames[-1].filename}, line {frames[-1].lineno}: " if frames else ""
    if isinstance(error, SyntaxError) and error.filename is not None and Path(error.filename).resolve() == Path(file):
        return f", line {error.lineno}"
    own = [frame.lineno for frame in frames if Path(frame.filename).resolve() == Path(file)]
    return f", line {own[-1]}" if own else ""


def _message(error: Exception) -> str:
    return str(error.msg if isinstance(error, SyntaxError) else error)
