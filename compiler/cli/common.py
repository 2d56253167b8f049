"""What both command lines share: how errors end a program, options that several commands have."""

import argparse
import os
import sys
import traceback
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from stepwell.dialects.errors import PipelineError, StepwellError

OK, FAULT, USAGE = 0, 1, 2


class UsageError(Exception):
    """The command line is wrong: exit status 2."""


class Parser(argparse.ArgumentParser):
    """An argument parser without abbreviations, so that a new option never changes what an old command line means."""

    def __init__(self, **options: Any) -> None:
        self.option_names: set[str] = set()
        self.late_help: dict[argparse.Action, Callable[[], str]] = {}
        """Help that takes long to make, made when it is shown."""
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **options)

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        """As argparse's; keeps the names of options in `option_names`."""
        self.option_names.update(name for name in names if name.startswith("-"))
        return super().add_argument(*names, **options)

    def format_help(self) -> str:
        """As argparse's, with the late help put in."""
        for action, text in self.late_help.items():
            action.help = text()
        return super().format_help()


def guarded(program: str, action: Callable[[], int], *, show_traceback: bool = False) -> int:
    """Run a command: one clear line and the right exit status for whatever goes wrong in it.

    With `show_traceback` (or STEPWELL_TRACEBACK=1 in the environment) the traceback is printed before that line.
    """
    try:
        status = action()
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # The reader went away (`stepwell-opt … | head`): nothing is wrong, and nothing more can be said.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAULT
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        return report(program, error, show_traceback=show_traceback)


def report(program: str, error: Exception, *, show_traceback: bool = False) -> int:
    """Tell the user of an error in one line; returns the exit status."""
    if show_traceback or os.environ.get("STEPWELL_TRACEBACK") == "1":
        traceback.print_exception(error)
    print(f"{program}: error: {_text(error)}", file=sys.stderr)
    return USAGE if isinstance(error, (UsageError, PipelineError)) else FAULT


def _text(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename is not None else str(error.strerror or error)
    if isinstance(error, MemoryError):
        return f"out of memory{f': {error}' if str(error) else ''}"
    if isinstance(error, (StepwellError, UsageError)):
        return str(error)
    # Ours to answer for, but the user is told in the same way.
    return f"internal error: {type(error).__name__}: {error} (STEPWELL_TRACEBACK=1 shows where)"


def version_line(program: str) -> str:
    """`PROGRAM VERSION (torch-mlir VERSION)`."""

    def of(package: str) -> str:
        try:
            return version(package)
        except PackageNotFoundError:
            return "unknown (not installed)"

    return f"{program} {of('stepwell')} (torch-mlir {of('torch-mlir')})"
