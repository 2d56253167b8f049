"""The registry of modules outside this package that extend it; cached results depend on their content."""

from typing import Any

_modules: set[str] = set()
_generating: set[str] = set()


def extension(thing: Any, *, code_generation: bool = False) -> None:
    """Record the module that defines `thing`, a class or function. Every decorator that registers something calls this with it.

    `code_generation` says whether it affects a kernel below the level `affine`.
    """
    if thing.__module__.partition(".")[0] != "stepwell":
        _modules.add(thing.__module__)
        if code_generation:
            _generating.add(thing.__module__)


def extending_modules(*, code_generation: bool = False) -> list[str]:
    """The names of the modules outside this package that have registered something so far, or something for code generation."""
    return sorted(_generating if code_generation else _modules)
