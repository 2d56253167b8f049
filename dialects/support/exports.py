"""Names that packages offer, said once: those loaded when they are first used, and modules that register things when they are loaded."""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

from stepwell.dialects.support.processes import uninterrupted


def names_on_use(module: str, first: str | None = None) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The `__getattr__`, `__dir__` and `__all__` of a module: the names that it imports under `if TYPE_CHECKING`, each loaded when it is first used.

    Type checkers read the same lines, so the names stand nowhere else. They are `X as X`, which marks them as names to import from here. A module
    `first` is loaded before any of them.
    """
    loader = sys.modules[module].__spec__.loader  # type: ignore[union-attr]  # a module that is being loaded has a spec
    tree = ast.parse(loader.get_source(module))  # type: ignore[union-attr]  # those of files and of archives have it
    typed = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    homes = {alias.name: node.module or "" for block in typed for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    names = sorted(homes)

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module '{module}' has no attribute '{name}'; it has: {', '.join(names)}")
        with uninterrupted():
            if first is not None:
                import_module(first)
            return getattr(__import__(homes[name], fromlist=[name]), name)

    return load, lambda: names, names


def load_modules(package: str) -> None:
    """Import every module below a package, in order of names: for packages whose modules register things when they are loaded."""
    for found in walk_packages(sys.modules[package].__path__, f"{package}."):
        import_module(found.name)
