"""Evidence of a native crash: the pass, pattern, op and node that were running when the process died.

No Python runs after a native crash, so everything is recorded beforehand. Always, at no cost: each pass is called by a function that has its name,
which the traceback of `faulthandler` shows. Only if the environment names a folder (`FOLDER`), because the IR is printed before each pass: a record
of pass, function, pattern, op and node, and the IR. The commands run again in that mode after a crash.
"""

import faulthandler
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from stepwell.dialects.core.kernel_info import function_around
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.support.origins import line_of
from stepwell.passes.framework.pipeline import Step, format_pipeline

__all__ = ["FOLDER", "IR", "RECORD", "Recorder", "named", "recorder", "tracebacks"]

FOLDER = "STEPWELL_CRASH_RECORD"
"""The environment variable that names the folder of a record."""
IR, RECORD = "before.mlir", "record.json"
"""The files in that folder."""


@contextmanager
def tracebacks() -> Iterator[None]:
    """Inside this context, a native crash leaves a traceback on standard error, unless the process has its own handler."""
    ours = not faulthandler.is_enabled()
    if ours:
        with suppress(OSError, ValueError, AttributeError, RuntimeError):  # standard error is closed, or not a file
            faulthandler.enable()
    try:
        yield
    finally:
        if ours:
            faulthandler.disable()


def named(name: str, action: Callable[[], None]) -> None:
    """Call `action` by a function named `name`, which tracebacks show."""
    _caller(name)(action)


@cache
def _caller(name: str) -> Callable[[Callable[[], None]], None]:
    def call(action: Callable[[], None]) -> None:
        action()

    call.__code__ = call.__code__.replace(co_name=name, co_qualname=name)
    return call


class Recorder:
    """Records each step before it happens: each pass with the IR, each pattern with the op that it is tried on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.record: dict[str, str] = {}

    def before_pass(self, step: Step, level: str | None, action: Any) -> None:
        """Called when a pass is about to run; the IR before it is in the file `IR`."""
        self._write({
            "pass": step.name, "pipeline": format_pipeline([step]), "level": level or "", "line": line_of(getattr(type(action), "run", None)),
        })  # fmt: skip

    def on_function(self, op: ir.Operation) -> None:
        """Called when the pass reaches a function, or any other op it runs on."""
        self._write({name: text for name, text in self.record.items() if name not in _OF_PATTERNS} | {"function": _function(op)})

    def on_op(self, pattern: Any, op: Any) -> None:
        """Called when a pattern is about to be tried on an op."""
        made = {"pattern": pattern.name, "pattern line": line_of(pattern.rewrite), "op": op.operation.name, "location": str(op.location)}
        self._write({**self.record, **made, "function": _function(op.operation) or self.record.get("function", "")})

    def _write(self, record: dict[str, str]) -> None:
        self.record = record
        (self.folder / RECORD).write_text(json.dumps(record))


_OF_PATTERNS = ("pattern", "pattern line", "op", "location")


def _function(op: ir.Operation) -> str:
    """The name of the function that an op is, or is in; "" if there is none."""
    around = function_around(op)
    return "" if around is None else ir.StringAttr(around.attributes["sym_name"]).value


@cache
def recorder() -> Recorder | None:
    """The recorder of this process, if the environment asks for one."""
    folder = os.environ.get(FOLDER)
    return None if not folder else Recorder(Path(folder))
