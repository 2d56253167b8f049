"""Selects the checks for changed files: tests, FileCheck tests, lint."""

import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mutation.selection import FilesToRun, naming, select

SCRIPTS = ("scripts/demo", "scripts/nightly", "scripts/test")
"""Python files without the suffix .py."""
_PACKAGE = ("compiler/", "passes/", "dialects/")
_TYPED = (*_PACKAGE, "scripts/", "examples/")
_RULES = ("test/project/test_bindings_import.py",)
"""The tests of import and traversal rules, which cover every source file."""
_PROJECT = ("test/project/test_packaging.py",)
_PAGES = ("test/project/test_docs.py",)
_EXAMPLES = "test/project/test_doc_examples.py"
_RUNNER = ("test/scripts/test_checks.py",)
# Files that no test names, or on which more tests depend than those that name them.
_BY_NAME = {
    "pyproject.toml": _PROJECT,
    "lit.cfg.py": ("test/scripts/test_forked_commands.py",),
    "test/conftest.py": _RUNNER,
    "test/costs.json": _RUNNER,
    "test/support/fork_client.py": ("test/support/test_command_server.py",),  # started by command_server
    "scripts/test": _RUNNER,
    "scripts/nightly": ("test/scripts/test_nets.py",),
    "scripts/affected.py": ("test/scripts/test_affected.py",),  # names files of all kinds, but does not test them
    ".ci/run": _RUNNER,
    "scripts/demo": ("test/project/test_digits.py",),
}


@dataclass(frozen=True)
class Affected:
    """The checks to run; files are given by their paths in the checkout."""

    lint: tuple[str, ...]
    is_typed: bool
    """Whether to type-check all files."""
    lit: tuple[str, ...]
    pytest: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Test files, each with an expression that selects among its tests (the syntax of pytest's -k); "" selects all."""


def changed(root: Path) -> list[str]:
    """The files that differ from the last commit, and new files. Raises CalledProcessError if `root` is not a git checkout."""
    commands = (["git", "diff", "--name-only", "--relative", "HEAD"], ["git", "ls-files", "--others", "--exclude-standard"])
    found = [subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.splitlines() for command in commands]
    return sorted({name for names in found for name in names})


def affected(root: Path, paths: Iterable[str]) -> Affected:
    """The checks for files of the checkout at `root`, given relative to it; the files may have been deleted."""
    names = list(dict.fromkeys(paths))
    lint = tuple(name for name in names if (root / name).is_file() and (name.endswith(".py") or name in SCRIPTS))
    stages = [stage for name in names for stage in _tests(root, name)]
    lit = tuple(dict.fromkeys(file for stage in stages for file in stage.lit))
    whole = {file for stage in stages if not stage.only for file in stage.pytest}
    chosen: dict[str, dict[str, None]] = {}
    for stage in stages:
        for file in stage.pytest:
            if not stage.only or file not in whole:
                chosen.setdefault(stage.only, {})[file] = None
    return Affected(lint, any(name.startswith(_TYPED) for name in lint), lit, {only: tuple(files) for only, files in chosen.items()})


def _tests(root: Path, path: str) -> Sequence[FilesToRun]:
    place = Path(path)
    if path in _BY_NAME:
        return [FilesToRun.from_names(_BY_NAME[path])]
    if path.startswith(_PACKAGE):
        return [*select(root, path, wide=False), FilesToRun.from_names(_RULES if place.suffix == ".py" else ())]
    if path.startswith("test/") and (place.suffix == ".mlir" or place.name.startswith("test_")) and "Inputs" not in place.parts:
        return [FilesToRun.from_names([path] if (root / path).is_file() else ())]
    if place.suffix == ".md":
        pages = FilesToRun.from_names([_EXAMPLES], place.stem)
        return [FilesToRun.from_names(_PAGES), pages] if "docs" in place.parts or len(place.parts) == 1 else [FilesToRun.from_names(_PAGES)]
    if path.startswith(("scripts/", "test/support/")) and place.suffix == ".py":
        return [FilesToRun.from_names(_tests_of_module(root, path))]
    # Data, plugins, inputs: run the tests that name the file; for a folder of inputs, run the tests next to it.
    found = naming(root, rf"\b{re.escape(place.name)}\b")
    if "Inputs" in place.parts:
        found = [name for name in found if Path(name).parent == Path(*place.parts[: place.parts.index("Inputs")])]
    return [FilesToRun.from_names(found)]


def _tests_of_module(root: Path, path: str) -> list[str]:
    """The tests that import a module of scripts or of test/support, or name its file.

    For a script, and if there are none, also those of the modules that import it.
    """
    found = naming(root, _import_of(path))
    if found and not path.startswith("scripts/"):
        return found
    modules = [file for folder in ("scripts", "test/support") for file in sorted((root / folder).rglob("*.py"))]
    importing = [str(file.relative_to(root)) for file in modules if re.search(_import_of(path), file.read_text())]
    return list(dict.fromkeys([*found, *(name for module in importing if module != path for name in naming(root, _import_of(module)))]))


def _import_of(path: str) -> str:
    """A pattern that matches imports of a module and mentions of its file name."""
    parts = Path(path).with_suffix("").parts[1 if path.startswith("scripts/") else 2 :]
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    dotted = re.escape(".".join(parts))
    by_package = rf"|from {re.escape('.'.join(parts[:-1]))} import .*\b{re.escape(parts[-1])}\b" if len(parts) > 1 else ""
    own = rf"|from \.{re.escape(parts[-1])} import" if len(parts) > 1 else ""
    return rf"(?m)^\s*(from {dotted}\b|import {dotted}\b{by_package}{own})|{re.escape(path)}"
