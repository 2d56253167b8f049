"""Which modules outside of this package extend it: what is made with their help depends on what they say."""

from typing import Any

_modules: set[str] = set()


def extension(thing: Any) -> None:
    """Take note of who defined `thing`, a class or function. Every decorator that registers something calls this with it."""
    if thing.__module__.partition(".")[0] != "stepwell":
        _modules.add(thing.__module__)


def extending_modules() -> list[str]:
    """The names of the modules outside of this package that have registered something so far."""
    return sorted(_modules)
