"""The life of compiler processes: they end with the process that started them, whatever they are doing; how one ended, in words."""

import ctypes
import os
import re
import select
import signal
import sys
import threading
from collections.abc import Callable
from functools import cache
from queue import SimpleQueue
from typing import Any, TypeVar, cast

T = TypeVar("T")
_PR_SET_PDEATHSIG = 1
_FATAL = ("LLVM ERROR", "Fatal Python error")
"""How the first line of a fatal error begins, of LLVM or of Python's fault handler."""


def end_with_parent(parent: int, requests: int) -> None:
    """In a newly started process: end it when its parent ends, the process `parent`, which holds the other end of the pipe `requests`.

    On Linux this is immediate. On other systems a thread waits for the pipe to be closed, which native code may keep from running for a while.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != parent:  # it has ended already
            os._exit(1)
    else:
        watch(requests)


def watch(requests: int) -> None:
    """End this process when nobody holds the other end of a pipe any more."""
    closed = select.poll()
    closed.register(requests, 0)  # reports the end of the pipe, always, and no input

    def wait() -> None:
        closed.poll()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def how_it_ended(code: int, log: bytes) -> str:
    """How a process ended, given its exit status (negative for a signal) and all that it printed: the signal or status, the pass that it was in, the
    first lines of a fatal error of LLVM or Python, else the last lines.
    """
    how = f"with status {code}"
    if code < 0:
        known = {int(s): s.name for s in signal.Signals}
        how = f"by {known.get(-code, f'signal {-code}')}"
    lines = log.decode(errors="replace").strip().splitlines()
    inside = [found[1] for line in lines if (found := re.search(r", line \d+ in (pass '.*)", line))]  # as tracebacks name it (crash_record.py)
    how += f" in {inside[0]}" if inside else ""
    fatal = next((i for i, line in enumerate(lines) if line.startswith(_FATAL)), len(lines))
    lines = lines[fatal : fatal + 5] or lines[-5:]
    return f"{how}, having said:\n  " + "\n  ".join(lines) if lines else how


def in_lasting_thread(start: Callable[[], T]) -> T:
    """The result of `start`, which starts a process, called in a lasting thread: Linux takes the starting thread for the parent."""
    if threading.current_thread() is threading.main_thread():
        return start()
    return _starter().started(start)


class _Starter:
    """A thread that starts processes and never ends. The executors of the standard library end before other threads do, with the program."""

    def __init__(self) -> None:
        self._asked: SimpleQueue[tuple[Callable[[], Any], SimpleQueue[tuple[Any, BaseException | None]]]] = SimpleQueue()
        threading.Thread(target=self._work, name="stepwell-starter", daemon=True).start()

    def started(self, start: Callable[[], T]) -> T:
        """The result of `start`, called in the thread; raises its exceptions."""
        answers: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._asked.put((start, answers))
        result, error = answers.get()
        if error is not None:
            raise error
        return cast(T, result)

    def _work(self) -> None:
        while True:
            start, answers = self._asked.get()
            try:
                answers.put((start(), None))
            except BaseException as error:  # passed on to the waiting thread
                answers.put((None, error))


@cache
def _starter() -> _Starter:
    """The thread. If two threads arrive at once, each may create one; both last."""
    return _Starter()


os.register_at_fork(after_in_child=_starter.cache_clear)  # a forked child does not have the thread
