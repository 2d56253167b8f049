"""The target of RUN lines that name none: whoever asks it anything gets an error, so that no FileCheck test depends on the machine."""

from collections.abc import Sequence
from typing import Any

from stepwell.dialects.support.errors import InputError
from stepwell.dialects.target import registry
from stepwell.dialects.target.description import Target

_OPTIONS = ("deciding", "reproducible")
"""What a compilation is asked for, and no property of the machine: by default nothing."""


class UnnamedTarget(Target):
    """A machine that nobody may know anything of."""

    def __init__(self) -> None:
        pass  # it has none of the fields

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__") or name in _OPTIONS:
            return object.__getattribute__(self, name)
        raise InputError(
            f"a pass asks for '{name}' of the target, and the RUN line names no target: the result would depend on the machine. "
            "Add --target x86-64-v3 or another one; --target host if the test is about the host"
        )


def forbid(arguments: Sequence[str]) -> None:
    """Have a command with these arguments find no host, unless they name a target. For this process, from now on."""
    if not any(argument.partition("=")[0] == "--target" for argument in arguments):
        registry._REGISTERED["host"] = UnnamedTarget()
