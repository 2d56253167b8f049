"""Loads plugins: third-party ops, importer rules, passes and schedules, from installed packages or files."""

import os
import sys
import sysconfig
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import TYPE_CHECKING, Any

from stepwell.dialects.support.errors import InputError, shown
from stepwell.dialects.support.extensions import extending_modules
from stepwell.dialects.support.installed import entry_points
from stepwell.dialects.support.processes import frames

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "stepwell.plugins"
_COMPILING = ("stepwell.driver.compilation", "stepwell.driver.reading")
"""The modules of the compiler that read models. Files that they open while a plugin calls `compile` are not part of the plugin."""


@dataclass
class Plugin:
    """A loaded plugin, and the files that its effect depends on."""

    module: str
    """The name of its module."""
    owned: set[str] = field(default_factory=set)
    """The names of its modules: its own, those of its package, and those beside it that it imported while loading."""
    reads: dict[Path, float] = field(default_factory=dict)
    """The files that it declared, and those of modules from elsewhere that it imported while loading, with times in seconds since the epoch: a
    file that changed later may differ from the one that the plugin read."""
    since: float = field(default_factory=time.time)
    """The start of loading, in seconds since the epoch: a module file that changed later may differ from the code that runs."""

    def declare(self, file: Path) -> None:
        """Make the content of a file part of cache keys, from its first declaration on."""
        self.reads.setdefault(file, time.time())


_loaded: dict[str, Plugin] = {}


def loaded() -> list[Plugin]:
    """The plugins loaded so far."""
    return list(_loaded.values())


def loaded_files() -> list[str]:
    """The absolute paths of the plugins that were loaded from files, in order: other processes load them with `load_file`."""
    return [key for key in _loaded if os.path.isabs(key)]  # the key of an installed plugin is `NAME = MODULE`


def of_code_generation() -> list[Plugin]:
    """The plugins that may affect a kernel below the level `affine`: they registered something for it, or registered nothing at all."""
    generating, extending = set(extending_modules(code_generation=True)), set(extending_modules())
    return [plugin for plugin in _loaded.values() if plugin.owned & generating or not plugin.owned & extending]


@cache
def installed() -> "list[EntryPoint]":
    """The plugins that installed packages declare in the entry-point group `stepwell.plugins`."""
    return entry_points(GROUP)


@cache
def load_installed() -> None:
    """Import the plugins that installed packages declare in the entry-point group `stepwell.plugins`, once.

    An entry point names a module; importing it registers things. Raises InputError if one fails.
    """
    for point in installed():
        key = f"{point.name} = {point.value}"
        if key not in _loaded:
            try:
                _recorded(key, point.module, point.load)
            except Exception as error:  # a plugin may raise anything; the message names the plugin
                package = point.dist.name if point.dist is not None else "unknown"
                raise InputError(f"plugin '{point.name}' of package {package}: {_where(error, None)}{type(error).__name__}: {error}") from error


def load_file(path: "str | os.PathLike[str]") -> None:
    """Run a plugin's Python file, once. Raises InputError naming file and line if it cannot be read or fails."""
    if not isinstance(path, (str, os.PathLike)):
        raise InputError(f"plugin: expected the path of a Python file, got {shown(path)}")
    file = Path(path)
    try:
        key, there = str(file.resolve()), file.is_file()
    except (OSError, ValueError):  # the path is too long or has a zero byte
        key, there = "", False
    if key in _loaded:
        return
    if not there:
        raise InputError(f"plugin {path}: there is no such file")
    from hashlib import sha256  # imported here, because OpenSSL takes long to load

    # Files with the same name in different folders are different modules.
    name = f"stepwell_plugin_{file.stem}_{sha256(os.fsencode(key)).hexdigest()[:8]}"
    spec = spec_from_file_location(name, key, loader=_Source(name, key)) if file.suffix == ".py" else None
    if spec is None or spec.loader is None:
        raise InputError(f"plugin {path}: expected a Python file (.py)")
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up their module here
    loader = spec.loader
    try:
        _recorded(key, name, lambda: loader.exec_module(module))
    except Exception as error:  # a plugin may raise anything; the message names the place
        del sys.modules[name]
        said = error.msg if isinstance(error, SyntaxError) else error
        raise InputError(f"plugin {path}{_where(error, key)}: {type(error).__name__}: {said}") from error


class _Source(SourceFileLoader):
    """Always compiles the source: Python would reuse cached bytecode for an edited file of equal size and modification second."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def depends_on(*paths: "str | os.PathLike[str]") -> None:
    """Declare that the calling plugin depends on the content of these files, which then becomes part of cache keys. Declare a file before reading it.

    Paths are relative to the calling file. Modules that a plugin imports while it is loaded need no declaration.
    Raises InputError if the caller is neither a plugin nor imported by one.
    """
    frame = sys._getframe(1)
    plugin = running_plugin(frame)
    if plugin is None:
        raise InputError("depends_on: expected to be called by a plugin, that is from a file given to --load or a module in the entry-point group")
    for path in paths:
        plugin.declare(Path(os.path.abspath(Path(frame.f_code.co_filename).parent / path)))


def own_folder(name: str, path: Path) -> Path | None:
    """The folder whose modules belong to module `name`: that of its package, or of its file unless it also holds installed files."""
    if "." in name:
        top = module_file(sys.modules.get(name.partition(".")[0]))
        return None if top is None else top.parent
    if path.name == "__init__.py":
        return path.parent
    return None if path.parent.name in ("site-packages", "dist-packages") else path.parent


def module_file(module: "ModuleType | None") -> Path | None:
    """The source file of a module, or None."""
    name = getattr(module, "__file__", None)
    path = Path(name) if isinstance(name, str) else None
    return path if path is not None and path.is_file() else None


def modules_beside(name: str) -> Iterator[tuple[str, Path]]:
    """Module `name` and the imported modules in its folder, without other plugins, with their files; nothing if it has no file."""
    path = module_file(sys.modules.get(name))
    if path is None:
        return
    yield name, path
    folder = own_folder(name, path)
    if folder is None:
        return
    plugins = {plugin.module for plugin in _loaded.values()}
    for other, module in list(sys.modules.items()):
        file = module_file(module) if other not in plugins else None
        if file is not None and file.is_relative_to(folder) and not _is_others(file, folder):
            yield other, file


def _recorded(key: str, name: str, load: Callable[[], Any]) -> None:
    """Load a plugin and record what it imports."""
    plugin = Plugin(name, {name})
    before = set(sys.modules)
    _loaded[key] = plugin
    try:
        load()
    except BaseException:
        del _loaded[key]
        raise
    # A package's modules always belong to it; modules beside a single file only if the file imported them.
    package = name.partition(".")[0]
    plugin.owned |= {other for other, _ in modules_beside(name) if other not in before or other.partition(".")[0] == package}
    for other in sys.modules.keys() - before - plugin.owned:
        file = module_file(sys.modules[other])
        if file is not None and is_part(file, plugin):
            plugin.reads[file] = plugin.since


def is_part(file: Path, plugin: Plugin) -> bool:
    """Whether a file that a plugin reads may be a part of it: it belongs neither to us, nor to Python, nor to another installed package."""
    main = module_file(sys.modules.get(plugin.module))
    return not _is_others(file, None if main is None else own_folder(plugin.module, main))


def _is_others(path: Path, folder: Path | None) -> bool:
    """Whether a file belongs to us, to Python or to an installed package, and not to `folder`."""
    if any(path.is_relative_to(root) for root in _ours()):
        return True
    if folder is not None and path.is_relative_to(folder):  # it may contain an environment
        return any(part in ("site-packages", "dist-packages") for part in path.relative_to(folder).parts)
    return any(path.is_relative_to(root) for root in _installed())


@cache
def _ours() -> tuple[Path, ...]:
    packages = (find_spec(name) for name in ("stepwell", "stepwell.dialects", "stepwell.passes"))
    return tuple(Path(folder) for spec in packages if spec is not None for folder in spec.submodule_search_locations or ())


@cache
def _installed() -> tuple[Path, ...]:
    return tuple(Path(root) for root in [*map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")), "/proc", "/sys", "/dev"])


def running_plugin(frame: FrameType | None) -> Plugin | None:
    """The plugin whose code the innermost frame of a plugin runs, or None; a plugin that only called `compile` does not count."""
    for around in frames(frame):
        name = around.f_globals.get("__name__")
        if name in _COMPILING:
            return None
        for plugin in _loaded.values():
            if name in plugin.owned:
                return plugin
    return None


def _where(error: Exception, file: str | None) -> str:
    """`, line 12` in the plugin's file if known; without a file, `file, line 12: ` of the code that raised."""
    places = traceback.extract_tb(error.__traceback__)
    if file is None:
        return f"{places[-1].filename}, line {places[-1].lineno}: " if places else ""
    if isinstance(error, SyntaxError) and error.filename is not None and Path(error.filename).resolve() == Path(file):
        return f", line {error.lineno}"
    own = [frame.lineno for frame in places if Path(frame.filename).resolve() == Path(file)]
    return f", line {own[-1]}" if own else ""
