"""The file and line in a plugin or script that raised an error or defines a function, for a message without a traceback."""

import sysconfig
import traceback
from collections.abc import Callable
from functools import cache
from types import FrameType
from typing import Any, TypeVar

from stepwell.dialects.support.errors import StepwellError, shown
from stepwell.dialects.support.extensions import extending_modules

T = TypeVar("T")
_OURS = "stepwell"


def plugin_line(error: BaseException) -> str:
    """` (FILE, line N)` of the innermost line of a plugin, or of a script, that an error went through since the caller; "" if there is none.

    Lines of Python and other packages do not count, unless a package extends this one.
    """
    extending = {name.partition(".")[0] for name in extending_modules()}
    own = [
        f" ({frame.f_code.co_filename}, line {line})"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if _is_plugins(frame, extending)
    ]  # fmt: skip
    return own[-1] if own else ""


def result_of(method: str, action: Callable[[], T], expected: str, fits: Callable[[T], bool], error: type[StepwellError]) -> T:
    """The result of a plugin's `method`, which `action` calls.

    Raises `error`, naming the method and the line, if it fails or its result does not fit; errors of our own code, and typed ones, pass.
    """
    try:
        made = action()
    except (StepwellError, OSError, MemoryError, RecursionError):
        raise
    except Exception as failure:
        line = plugin_line(failure)
        if not line:
            raise  # ours
        raise error(f"{method}: {type(failure).__name__}: {failure}{line}") from failure
    if not fits(made):
        raise error(f"{method} must give {expected}, got {shown(made)}")
    return made


def line_of(function: Any) -> str:
    """` (FILE, line N)` of a function's definition, for messages; "" for one of ours."""
    function = getattr(function, "plain", function)  # the function behind `widened`
    code = getattr(function, "__code__", None)
    ours = str(getattr(function, "__module__", "")).partition(".")[0] == _OURS
    return "" if code is None or ours else f" ({code.co_filename}, line {code.co_firstlineno})"


def _is_plugins(frame: FrameType, extending: set[str]) -> bool:
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    file: Any = frame.f_code.co_filename
    return package != _OURS and (package in extending or not file.startswith((*_installed(), "<")))


@cache
def _installed() -> tuple[str, ...]:
    return tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
