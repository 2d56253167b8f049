"""Common parts of both command lines: handling of errors, and options that several commands have."""

import argparse
import gc
import itertools
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from errno import EBADF, EIO, ENOSPC
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, NoReturn

from stepwell.cli.display import say
from stepwell.dialects.support import installed
from stepwell.dialects.support.errors import InputError, ModelError, ModelWarning, PipelineError, ScheduleError, StepwellError
from stepwell.dialects.support.limits import Limits
from stepwell.dialects.support.names import printable
from stepwell.dialects.support.origins import plugin_line
from stepwell.dialects.target.registry import check_name

if TYPE_CHECKING:
    from stepwell.passes.framework.instrumentation import PassTimings

OK, FAULT, USAGE = 0, 1, 2


class UsageError(Exception):
    """The command line is invalid: exit status 2."""


class Parser(argparse.ArgumentParser):
    """An argument parser without abbreviations, so that a new option never changes the meaning of an old command line."""

    def __init__(self, **options: Any) -> None:
        self.option_names: set[str] = set()
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **options)
        self.color = False  # in newer Python versions; `say` would escape the colours

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        """Like argparse's; keeps the names of options in `option_names`."""
        self.option_names.update(name for name in names if name.startswith("-"))
        return super().add_argument(*names, **options)

    def error(self, message: str) -> NoReturn:
        """Like argparse's, on one line, because arguments are part of it."""
        super().error(printable(message))

    def _print_message(self, message: str, file: Any = None) -> None:
        # argparse's own version ignores write errors.
        say(message, end="", file=sys.stderr if file is None else file)


@contextmanager
def usage_errors(flag: str) -> Iterator[None]:
    """Inside this context, an InputError becomes a UsageError about a flag."""
    try:
        yield
    except InputError as error:
        raise UsageError(f"{flag}: {error.args[0]}") from None


def parse_limits(texts: list[str]) -> Limits:
    """The limits in `--limit`. Raises UsageError."""
    with usage_errors("--limit"):
        return Limits.parse(texts)


def check_target(name: str | None) -> None:
    """Raise UsageError unless `--target`, if given, names a target. Called after plugins, which may register some, are loaded."""
    with usage_errors("--target"):
        check_name("host" if name is None else name)


def number(first: int, last: int) -> Callable[[str], int]:
    """The argument type of options that are integers from `first` to `last`."""

    def parse(text: str) -> int:
        value = int(text) if text.isascii() and text.isdecimal() and len(text) <= len(str(last)) else -1
        if not first <= value <= last:
            raise argparse.ArgumentTypeError(f"expected a number from {first} to {last}, got '{text}'")
        return value

    return parse


is_program = False
"""Whether this process only runs one command, so that all threads are ours."""


def run_program(name: str, body: Callable[[Sequence[str]], int], arguments: Sequence[str] | None) -> int:
    """Run a whole command with `arguments`, or with those of this process, as its last action; returns the exit status."""
    if arguments is not None:
        return command_line(name, lambda: body(arguments))
    global is_program
    is_program = True
    gc.set_threshold(300_000)  # in objects; by default, collections take a tenth of a compilation and free next to nothing
    # Starting threads takes OpenBLAS two thirds as long as all of numpy's import, and even `--check f64` spends little of its time in products.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    status = command_line(name, lambda: body(sys.argv[1:]))
    # The interpreter would run another garbage collection over all loaded modules, which takes a fifth of a short run.
    gc.disable()
    gc.freeze()
    return status


def command_line(program: str, body: Callable[[], int]) -> int:
    """Run a whole command, including argparse's part; returns the exit status, even if its output cannot be written."""
    _prepare_streams()

    def action() -> int:
        try:
            return body()
        except SystemExit as end:  # argparse ends with the text of --help or of an error
            return end.code if isinstance(end.code, int) else OK

    with warnings.catch_warnings():
        shown: set[str] = set()

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if str(message) not in shown:
                shown.add(str(message))
                say(f"{program}: warning: {message}", file=sys.stderr)

        warnings.simplefilter("always", ModelWarning)
        warnings.showwarning = show
        return guarded(program, action)


def add_explain_option(parser: Parser, *, instead: bool = False) -> None:
    """Add `--explain [NODE]`; its output goes to standard error, or to standard output `instead` of everything else."""
    where = "show, instead," if instead else "print to standard error"
    text = f"{where} what each pass did or declined to do, and why: of all ONNX nodes, or of those named (a name, or a pattern as layer1_*)"
    parser.add_argument("--explain", nargs="?", const="", metavar="NODE", help=text)


def protect_explain(arguments: Sequence[str]) -> list[str]:
    """Arguments in which a file after a bare `--explain` is not taken for the name of a node."""
    out = list(arguments)
    for i, (option, value) in enumerate(itertools.pairwise(arguments)):
        if option == "--explain" and (value == "-" or value.endswith((".mlir", ".onnx")) or (os.path.splitext(value)[1] and os.path.isfile(value))):
            out[i] = "--explain="
    return out


def report_passes(options: argparse.Namespace, timings: "PassTimings", counts: Mapping[str, int]) -> None:
    """Print the times of passes, and their counters by name, to standard error, if the options request it."""
    if options.time_passes:
        say(timings.report(), end="", file=sys.stderr)
    if options.pass_statistics:
        say("".join(f"{count:9} {name}\n" for name, count in sorted(counts.items())), end="", file=sys.stderr)


def guarded(program: str, action: Callable[[], int], *, show_traceback: bool = False) -> int:
    """Run a command: one clear line and the right exit status for any error in it.

    With `show_traceback` (or STEPWELL_TRACEBACK=1 in the environment) the traceback is printed before that line.
    """
    try:
        status = action()
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader has closed the pipe (`stepwell-opt … | head`): this is not an error, and nothing more can be printed
        status = FAULT
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        status = report(program, error, show_traceback=show_traceback)
    try:
        sys.stdout.flush()
    except OSError:
        # The rest of the buffer would be flushed at the end of the process, and fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status


def write_text(text: str) -> None:
    """Write IR to standard output in UTF-8, as it is read, regardless of the locale."""
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:  # another stream has replaced it
        sys.stdout.write(text)
        return
    sys.stdout.flush()
    buffer.write(text.encode())


def _prepare_streams() -> None:
    """Make sure that all three standard streams exist and accept any text."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            # The stream was closed, and the next opened file would take its number. Writing to standard output then fails.
            opened = os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115  (open as long as the process is)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def report(program: str, error: Exception, *, show_traceback: bool = False) -> int:
    """Print an error as one line; returns the exit status."""
    with suppress(OSError):  # standard error may be full as well
        if show_traceback or os.environ.get("STEPWELL_TRACEBACK") == "1":
            import traceback

            traceback.print_exception(error)
        say(f"{program}: error: {_text(error)}", file=sys.stderr)
    return USAGE if isinstance(error, (UsageError, PipelineError)) else FAULT


def _text(error: Exception) -> str:
    if isinstance(error, OSError):
        # Every file that we open has a name, so an error without one concerns an inherited stream.
        where = None if error.filename is None else printable(str(error.filename))
        where = "standard output" if where is None and error.errno in (EBADF, EIO, ENOSPC) else where
        return f"{where}: {error.strerror}" if where is not None else str(error.strerror or error)
    if isinstance(error, MemoryError):
        return f"out of memory{f': {error}' if str(error) else ''}"
    # These errors are about external things, such as a path. ModelErrors with several problems have several lines; their names are printable.
    one_line = isinstance(error, (InputError, PipelineError, ScheduleError, UsageError)) or (isinstance(error, ModelError) and not error.details)
    if one_line:
        return printable(str(error))
    if isinstance(error, StepwellError):
        return str(error)
    if line := plugin_line(error):  # the error comes from a callback, such as the code of a backend
        return f"{type(error).__name__}: {printable(str(error))}{line}"
    # Our own mistake, but reported in the same form.
    return f"internal error: {type(error).__name__}: {printable(str(error))} (STEPWELL_TRACEBACK=1 shows where)"


def version_line(program: str) -> str:
    """`PROGRAM VERSION (torch-mlir VERSION)`."""

    def version(package: str) -> str:
        return installed.version(package) or "unknown (not installed)"

    return f"{program} {version('stepwell')} (torch-mlir {version('torch-mlir')})"
