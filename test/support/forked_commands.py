"""The lit format of the FileCheck tests: lit's shell, with our commands run in forks of a process that has imported the compiler.

A RUN line as a program of its own spends most of its time on imports. Here, each worker process of lit imports the compiler once and runs
every `python -m MODULE` of a RUN line in a fork of itself. The shell remains lit's own internal one (`ShTest`): a fork is a
`subprocess.Popen` that runs `MODULE`'s `main` where another one executes a program, so pipes, redirections, `not` and exit statuses are as ever.
Everything else (`diff`, `sh`, `%python`) is started as lit does it, and so are our commands where the compiler cannot be imported or where
lit's shell does not start processes the way that this module knows.
"""

import atexit
import ctypes
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib import import_module
from typing import Any, NoReturn

import costs
import lit.formats
import lit.TestRunner

LIMIT = 600
"""Seconds after which a command is ended. A hang must end the run, a slow machine must not."""

_PR_SET_PDEATHSIG = 1
_FLUSH_FAILED = 120  # the exit status of Python where what it printed could not be written

Main = Callable[[], object]


class ForkedCommands(lit.formats.ShTest):
    """`ShTest` with the commands of `mains` forked; `limit` is the number of seconds that one of them may take."""

    def __init__(self, limit: int = LIMIT) -> None:
        super().__init__(execute_external=False)
        self.limit = limit

    def execute(self, test: Any, lit_config: Any) -> Any:
        """Run a test. Called in a worker process of lit."""
        lit.TestRunner.subprocess = _Subprocess(self.limit if prepare() else None)
        meter = costs.Meter() if costs.is_wanted() else None
        try:
            return super().execute(test, lit_config)
        finally:
            if meter is not None:
                meter.write("/".join(test.path_in_suite))


class _Subprocess:
    """The module `subprocess` as lit's shell sees it."""

    def __init__(self, limit: int | None) -> None:
        self.Popen = subprocess.Popen if limit is None else partial(_popen, limit)

    def __getattr__(self, name: str) -> Any:
        return getattr(subprocess, name)


def _popen(limit: int, args: Sequence[str], *, env: dict[str, str], **options: Any) -> "subprocess.Popen[str]":
    """A process for `args`: a fork of this one where it is to run a command of ours."""
    main = mains().get(args[2]) if list(args[:2]) == [sys.executable, "-m"] and len(args) > 2 else None
    if main is not None and all(value == os.environ.get(name) for name, value in env.items() if name.startswith(("PYTHON", "LD_"))):
        options["preexec_fn"] = partial(_run, main, list(args[2:]), env, limit)
    return subprocess.Popen(args, env=env, **options)


@cache
def mains() -> dict[str, Main]:
    """The `main` of each module that RUN lines run."""
    import filecheck.main

    from stepwell.cli import main, opt

    return {"stepwell.cli.opt": opt.main, "stepwell.cli.main": main.main, "filecheck": filecheck.main.main}


@cache
def prepare() -> bool:
    """Import all that commands import, and make this process fit to be forked; whether that is possible."""
    threads = {name: os.environ.get(name) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")}
    try:
        os.environ["OPENBLAS_NUM_THREADS"] = "1"  # numpy's library starts its threads when it is imported, and forks have none of them
        mains()
        for module in ("llvmlite.binding", "torch_mlir.dialects.builtin", "stepwell.cli.optimize", "unnamed_target"):
            import_module(module)
        import_module("stepwell.passes.framework.registry").passes()  # imports them
        import_module("stepwell.dialects.core.mlir").make_context()  # kept for the forks: a file of several pieces needs one for each
    except Exception:  # a broken compiler is to fail the tests, each with its message: the commands are run as programs
        return False
    finally:
        for name, value in threads.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
    if multiprocessing.parent_process() is not None:
        _end_with_parent(signal.SIGTERM)  # a killed lit leaves no worker
    gc.collect()
    gc.freeze()  # else the collector of each fork would copy the pages of all objects there are
    return True


def _run(main: Main, arguments: list[str], environment: dict[str, str], limit: int) -> NoReturn:
    """Run a command in a fork, as `python -m` does, and end the process. Called with its directory, standard streams and umask in place."""
    status: object = 1
    try:
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # lit's own; the one by which Popen learns that the command has started is among them
        _end_with_parent(signal.SIGKILL)
        for number in (signal.SIGALRM, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_IGN)  # as Python starts; Popen has set the default
        signal.alarm(limit)
        gc.enable()  # Popen switches it off
        os.environ.clear()
        os.environ.update(environment)
        sys.argv[:] = arguments
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
        sys.modules["unnamed_target"].forbid(arguments)
        status = main()
    except SystemExit as end:
        status = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(_closed(status))


def _closed(status: object) -> int:
    """Do what Python does at its end; the number for `status`."""
    number = status if isinstance(status, int) else int(status is not None)
    try:
        if not isinstance(status, int | None):
            print(status, file=sys.stderr)
        atexit._run_exitfuncs()
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
        number = _FLUSH_FAILED
    try:
        sys.stderr.flush()
    except OSError:
        number = _FLUSH_FAILED
    return number & 0xFF


def _end_with_parent(number: signal.Signals) -> None:
    """Have Linux send this process a signal when its parent ends, whatever the way."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number))
