"""Compiler processes that are forked from this one, with all modules already imported."""

import os
import signal
import sys
import threading
from typing import IO, NoReturn

from stepwell.backends.llvm_cpu.lifetime import end_with_parent
from stepwell.backends.llvm_cpu.worker import serve
from stepwell.runtime.openmp import openmp

_allowed = False


def allow_forks() -> None:
    """Allow forking compiler processes: this program is one of our commands, which runs no other threads than ours."""
    global _allowed
    _allowed = sys.platform == "linux"  # on other systems, the libraries do not survive a fork


def may_fork() -> bool:
    """Whether a child forked now can compile: the other threads do not exist in it, so they must hold no lock of Python, MLIR or LLVM.

    Python's threads may hold locks, except that of a progress display, which uses streams that the child does not use. Threads of libraries (numpy's,
    blake3's) wait for work in places that the child never reaches; OpenMP's are lost there, so none may run.
    """
    if not _allowed:
        return False
    others = [thread for thread in threading.enumerate() if thread is not threading.current_thread()]
    runtime = openmp()
    return all(type(thread).__module__ == "rich.live" for thread in others) and (runtime is None or not runtime.has_threads)


class Forked:
    """A forked compiler process and the pipes to it: the part of `subprocess.Popen` that workers use."""

    def __init__(self, log: IO[bytes]) -> None:
        (requests_read, requests_write), (answers_read, answers_write) = os.pipe(), os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            end_with_parent(parent, requests_read)
            os.close(requests_write)  # otherwise the requests would never end
            os.close(answers_read)
            _serve_and_exit(requests_read, answers_write, log)
        os.close(requests_read)
        os.close(answers_write)
        self.stdin, self.stdout = open(requests_write, "wb", buffering=0), open(answers_read, "rb", buffering=0)  # noqa: SIM115  (the worker closes them)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit status, negative for a signal; None while the process runs."""
        return self._wait(os.WNOHANG)

    def wait(self) -> int:
        """Wait until the process ends; returns its exit status, negative for a signal."""
        status = self._wait(0)
        assert status is not None
        return status

    def kill(self) -> None:
        """Kill the process."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _wait(self, options: int) -> int | None:
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, options)
            except ChildProcessError:  # another thread has waited for it, or this is a forked copy of the parent
                self.returncode = 0
            else:
                self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode


def _serve_and_exit(requests: int, answers: int, log: IO[bytes]) -> NoReturn:
    """Run the child: serve until the requests end, and exit without the parent's clean-up."""
    status = 1
    try:
        os.setsid()  # Ctrl-C in the terminal is for the parent
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (log.fileno(), 1), (log.fileno(), 2)):
            os.dup2(source, target)
        serve(open(requests, "rb", buffering=0), open(answers, "wb", buffering=0))  # noqa: SIM115  (the process ends)
        status = 0
    finally:
        os._exit(status)
