"""The lit format of the FileCheck tests: lit's shell, with our commands run in forks of a process that has imported the compiler.

A RUN line as a program of its own spends most of its time on imports. Here, each worker process of lit imports the compiler once and runs
every `python -m MODULE` of a RUN line in a fork of itself. The shell remains lit's own internal one (`ShTest`): a fork is a
`subprocess.Popen` that runs `MODULE`'s `main` where another one executes a program, so pipes, redirections, `not` and exit statuses are as ever.
Everything else (`diff`, `sh`, `%python`) is started as lit does it, and so are our commands where the compiler cannot be imported or where
lit's shell does not start processes the way that this module knows.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import cache, partial
from typing import Any, NoReturn

import command_server
import costs
import lit.formats
import lit.TestRunner

LIMIT = 600
"""Seconds after which a command is ended. A hang must end the run, a slow machine must not."""


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
def mains() -> dict[str, command_server.Main]:
    """The `main` of each module that RUN lines run."""
    import filecheck.main

    return {**command_server.commands(), "filecheck": filecheck.main.main}


@cache
def prepare() -> bool:
    """Import all that RUN lines need, and make this process fit to be forked; whether that is possible."""
    return command_server.prepare("filecheck.main", "unnamed_target")


def _run(main: command_server.Main, arguments: list[str], environment: dict[str, str], limit: int) -> NoReturn:
    """Run a command in a fork, as `python -m` does, and end the process. Called with its directory, standard streams and umask in place."""
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # lit's own; the one by which Popen learns that the command has started is among them
    command_server.end_with_parent(signal.SIGKILL)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[:] = arguments

    def limited() -> object:
        signal.alarm(limit)
        sys.modules["unnamed_target"].forbid(arguments)
        return main()

    command_server.end(limited)
