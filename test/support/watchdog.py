"""Runs functions in a child process under limits of time and memory, so that whatever hangs, grows or crashes there is a failure here.

    with Watchdog() as dog:
        outcome = dog.call("hostile:compile_model", data, seconds=20, memory=2 << 30)

The child imports the module when it is first asked for, and stays for the next call unless it had to be ended. What it starts itself
(compiler processes) ends with it.
"""

import contextlib
import faulthandler
import importlib
import os
import pickle
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

GIB = 1 << 30


@dataclass(frozen=True)
class Outcome:
    """How a call ended: `kind` is "returned" (with `value`), "raised" (with `value`, the traceback as text), "timeout", or "died" (the process)."""

    kind: str
    value: Any = None
    seconds: float = 0.0
    peak: int = 0
    """Bytes of memory that the child has held at most so far (0 if it ended)."""
    said: str = ""
    """What it wrote to standard error, stacks of a timeout and a crash included."""

    def __str__(self) -> str:
        return f"{self.kind} after {self.seconds:.1f} s, {self.peak >> 20} MiB: {self.value}\n{self.said}"


class Watchdog:
    """A child process for calls; see the module. `environment` is added to the child's; `first` is a `module:function` that each calls first."""

    def __init__(self, environment: dict[str, str] | None = None, *, first: str = "") -> None:
        self.environment = environment or {}
        self.first = first
        self._child: subprocess.Popen[bytes] | None = None
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as this object)

    def __enter__(self) -> "Watchdog":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end()
        self._said.close()

    @property
    def pid(self) -> int:
        """The child's process id (it is started if there is none). It leads a process group of its own."""
        return self._running().pid

    def call(self, function: str, *arguments: Any, seconds: float = 20.0, memory: int | None = None) -> Outcome:
        """Call `module:function` (a module that tests can import) in the child. Arguments and result must pickle.

        `memory` bounds the address space that the child may take beyond what it has when the function is called, in bytes.
        """
        child = self._running()
        start, offset = time.monotonic(), self._said.seek(0, os.SEEK_END)
        assert child.stdin is not None
        assert child.stdout is not None
        answer: tuple[str, Any, int] | None = None
        late = False
        with contextlib.suppress(BrokenPipeError):
            pickle.dump((function, arguments, seconds, memory), child.stdin)
            child.stdin.flush()
        # The child dumps its stacks when its time is over; it is ended a second later.
        ready, _, _ = select.select([child.stdout], [], [], seconds + 1)
        if ready:
            with contextlib.suppress(EOFError, pickle.UnpicklingError):
                answer = pickle.load(child.stdout)
        else:
            late = True
        spent = time.monotonic() - start
        status = None
        if answer is None:
            if not late:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(5)
            status = child.poll()
            self.end()
        self._said.seek(offset)
        said = self._said.read().decode(errors="replace")[-8000:]
        if answer is None:
            return Outcome("timeout" if late else "died", f"exit status {status}" if status is not None else None, spent, 0, said)
        kind, value, peak = answer
        return Outcome("timeout" if spent > seconds else kind, value, spent, peak, said)

    def end(self) -> None:
        """Kill the child and everything that it started."""
        child, self._child = self._child, None
        if child is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        for pipe in (child.stdin, child.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._child is None:
            self._child = subprocess.Popen(
                [sys.executable, __file__, self.first], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, start_new_session=True,
                env={**os.environ, "STEPWELL_CACHE": "0", "OMP_WAIT_POLICY": "passive", "PYTHONHASHSEED": "0", **self.environment},
            )  # fmt: skip
        return self._child


def address_space() -> int:
    """The bytes of address space that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _function(name: str) -> Any:
    """The function of a module that a text names."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def _serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """The child's side: answer calls until there are no more."""
    while True:
        try:
            function, arguments, seconds, memory = pickle.load(requests)
        except EOFError:
            return
        answer: tuple[str, Any]
        faulthandler.dump_traceback_later(seconds)
        try:
            called = _function(function)
            if memory is not None:
                resource.setrlimit(resource.RLIMIT_AS, (address_space() + memory, resource.RLIM_INFINITY))
            answer = "returned", called(*arguments)
        except BaseException:
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            answer = "raised", traceback.format_exc()
        faulthandler.cancel_dump_traceback_later()
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        pickle.dump((*answer, 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss), answers)
        answers.flush()


if __name__ == "__main__":
    faulthandler.enable()
    own = os.fdopen(os.dup(1), "wb")  # whatever the code under test prints goes to standard error
    os.dup2(2, 1)
    if sys.argv[1]:
        _function(sys.argv[1])()
    _serve(sys.stdin.buffer, own)
