"""The keys of the cache, from everything that compiled code depends on: the model, our source, extensions, library versions, the machine."""

import importlib.util
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from stepwell.dialects.support.digests import file_digest, key_of
from stepwell.dialects.support.extensions import extending_modules
from stepwell.dialects.support.installed import version
from stepwell.dialects.support.processes import LOADED_AT
from stepwell.dialects.target.description import Target
from stepwell.dialects.target.host import identity
from stepwell.dialects.target.registry import is_built_in, resolve
from stepwell.plugin_files import loaded, modules_beside, of_code_generation
from stepwell.runtime.openmp import openmp

# numpy folds constants, onnx reads and checks models; the rest translates, compiles and links.
_LIBRARIES = ("torch-mlir", "llvmlite", "numpy", "ml_dtypes", "onnx", "cmeel-libomp")
_ALL = (("stepwell", "**/*.py"), ("stepwell.dialects", "**/*.py"), ("stepwell.passes", "**/*.py"))
# Our own code that runs on a kernel after it is split off its model.
_CODE_GENERATION = (
    ("stepwell", "backends/llvm_cpu/*.py"), ("stepwell.dialects", "**/*.py"), ("stepwell.passes", "framework/*.py"),
    ("stepwell.passes", "affine_to_llvm/**/*.py"),
)  # fmt: skip


def toolchain_key(target: str | Target) -> str | None:
    """The toolchain key: everything that a model's code depends on besides the model and its options. None if that is unknown."""
    return _key("model", _ALL, target)


def code_generation(target: Target) -> str | None:
    """The toolchain key for the code of one kernel with given IR and pipeline, on which our other passes have no effect."""
    return _key("object", _CODE_GENERATION, target)


def _key(kind: str, patterns: tuple[tuple[str, str], ...], target: str | Target) -> str | None:
    sources, extensions = _sources(patterns), _extensions(code_generation=kind == "object")
    if sources is None or extensions is None:
        return None
    return key_of(kind, sources, extensions, *_toolchain(), described(target))


def described(target: str | Target) -> str:
    """A target as text: the name of a built-in one, which means the same on equal machines, else all fields."""
    if isinstance(target, str) and is_built_in(target):
        return target
    target = resolve(target)
    return repr({name: sorted(value) if isinstance(value, frozenset) else value for name, value in vars(target).items()})


@cache
def _toolchain() -> tuple[str, ...]:
    """Versions of libraries, the OpenMP run time, and the machine, for which code is generated unless the target restricts it."""
    runtime = openmp()
    versions = [f"{name} {version(name)}" for name in _LIBRARIES]
    return (sys.version, *versions, "no OpenMP" if runtime is None else runtime.path, identity())


def source_digest() -> str:
    """The digest of our own source as it is on disk: processes that start now with equal digests run the same code."""
    return _content.__wrapped__(tuple(file for file, _ in _files(_ALL)))  # not the cached result: a file may change and keep its size


def _sources(patterns: tuple[tuple[str, str], ...]) -> str | None:
    """The digest of our own source, which changes more often than its version; None if it changed since it was loaded."""
    files: list[tuple[str, str, str, int]] = []
    for file, modified in _files(patterns):
        if modified > LOADED_AT:
            return None
        files.append(file)
    return _content(tuple(files))


def _files(patterns: tuple[tuple[str, str], ...]) -> Iterator[tuple[tuple[str, str, str, int], float]]:
    """Package, name in it, path and size of each file of our source, and the time of its last change in seconds since the epoch."""
    for package, pattern in patterns:
        spec = importlib.util.find_spec(package)  # imports no package but `stepwell`
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            for file, status in sorted(_matching(folder, pattern)):
                yield (package, file[len(folder) + 1 :], file, status.st_size), status.st_mtime


def _matching(folder: str, pattern: str) -> Iterator[tuple[str, os.stat_result]]:
    """The Python files in a folder that `[SUBFOLDER/][**/]*.py` matches, each with its status; follows links."""
    inside, deep = pattern.removesuffix("*.py"), pattern.endswith("**/*.py")
    waiting = [os.path.join(folder, inside.removesuffix("**/"))]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py") and not entry.name.startswith("."):
                    yield entry.path, entry.stat()
                elif deep and not entry.name.startswith((".", "__pycache__")) and entry.is_dir():
                    waiting.append(entry.path)


@cache
def _content(files: tuple[tuple[str, str, str, int], ...]) -> str:
    return key_of(*(part for package, name, file, size in files for part in (package, name, _read(file, size))))


def _read(file: str, size: int) -> bytes:
    """The content of a file of approximately `size` bytes, with few system calls, because there are hundreds of files."""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = [os.read(descriptor, size + 1)]
        while len(parts[-1]) > (size if len(parts) == 1 else 0):  # it has grown meanwhile
            parts.append(os.read(descriptor, size + 1))
        return b"".join(parts)
    finally:
        os.close(descriptor)


def _extensions(*, code_generation: bool) -> bytes | None:
    """The digest of plugins and other modules that extend us, of modules beside them, and of files that they read.

    None if one has no file (it was typed in), or if a file changed after it was read. With `code_generation`, covers only those that may affect code
    generation.
    """
    plugins = of_code_generation() if code_generation else loaded()
    since = dict.fromkeys(extending_modules(code_generation=code_generation), LOADED_AT)
    since |= {module: plugin.since for plugin in loaded() for module in plugin.owned if module in since}
    since |= {plugin.module: plugin.since for plugin in plugins}
    files: set[tuple[str, bytes]] = set()
    for name, moment in since.items():
        found = list(modules_beside(name))
        if not found or any(_newer(file, moment) for _, file in found):
            return None
        files |= {(file.name, file.read_bytes()) for _, file in found}
    reads = [read for plugin in plugins for read in plugin.reads.items()]
    if any(_newer(file, moment) for file, moment in reads):
        return None
    files |= {(file.name, file_digest(file) or b"") for file, _ in reads}
    return key_of(*(part for file in sorted(files) for part in file)).encode()


def _newer(file: Path, moment: float) -> bool:
    """Whether a file was modified after a moment."""
    try:
        return file.stat().st_mtime > moment
    except OSError:  # it is gone, which its digest shows
        return False
