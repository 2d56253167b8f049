"""The check of what plugins declare: tells of files that a plugin opens and has not declared by `depends_on`."""

import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from stepwell.dialects.support.errors import warn_caller
from stepwell.dialects.support.processes import frames
from stepwell.frontends.registry import checked_result
from stepwell.plugin_files import Plugin, is_part, loaded, running_plugin


@cache
def check_reads() -> None:
    """From now on, warn about each file that a plugin opens with Python's own functions and has not declared, and take it for declared.

    It looks at every `open` until the process ends: for processes that run a command, and for tests of plugins. What a front end reads while it
    loads a model belongs to the model.
    """
    sys.addaudithook(_on_event)


def _on_event(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or not loaded():
        return
    with suppress(Exception):  # an exception here would come out of the plugin's call of `open`
        path, _, flags = arguments
        if isinstance(path, (str, bytes, os.PathLike)) and _reads(flags):
            _opened(Path(os.path.abspath(os.fsdecode(path))))


def _reads(flags: int) -> bool:
    access = flags & os.O_ACCMODE
    return access == os.O_RDONLY or (access == os.O_RDWR and not flags & (os.O_CREAT | os.O_TRUNC | os.O_APPEND))


def _opened(path: Path) -> None:
    innermost = sys._getframe(2)
    plugin = running_plugin(innermost)
    if plugin is None or path in plugin.reads or _is_import(path) or not is_part(path, plugin) or _is_model(innermost, plugin):
        return
    plugin.declare(path)
    warn_caller(UserWarning(
        f"plugin {plugin.module} reads {path} without declaring it: call stepwell.plugin.depends_on({path.name!r}) before, or models compiled with "
        "other contents of the file are taken from the cache"
    ))  # fmt: skip


def _is_import(path: Path) -> bool:
    """Whether it is source, or a place where Python looks for modules and packages, such as an archive."""
    return path.suffix in (".py", ".pyc") or str(path) in sys.path


def _is_model(innermost: FrameType, plugin: Plugin) -> bool:
    """Whether a front end of the plugin is at work."""
    asked = (around for around in frames(innermost) if around.f_code is checked_result.__code__)
    return any(type(around.f_locals["front_end"]).__module__ in plugin.owned for around in asked)
