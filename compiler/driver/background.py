"""Compiles for frequent sizes while calls go on: in a process of its own, through the cache, or else in a thread."""

import atexit
import collections
import contextlib
import os
import pickle
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepwell.dialects.support.errors import StepwellError
from stepwell.dialects.support.extensions import extending_modules
from stepwell.dialects.support.processes import Lock
from stepwell.options import CompileOptions

if TYPE_CHECKING:
    from stepwell.backends.llvm_cpu.pool import Worker

SECONDS = 600.0  # the time limit for a process, in seconds
_WAIT = 10.0  # seconds to wait for a thread at the end of the program
_IDLE = 10.0  # seconds that idle thread and process wait for another job
NICE = 10  # the niceness of the process


class CancelledError(StepwellError):
    """The result is no longer needed."""


@dataclass(frozen=True)
class CompileRequest:
    """Asks a compiler process for a model, which it leaves in the cache."""

    compile: Callable[..., Any]
    """`stepwell.compile`."""
    source: str | bytes
    options: CompileOptions
    threads: int

    def answer(self) -> bytes:
        """Compile it, in the process that received the request."""
        from stepwell.backends.llvm_cpu.pool import compile_in_process

        compile_in_process()
        with contextlib.suppress(OSError):
            os.nice(max(0, NICE - os.nice(0)))
        self.compile(self.source, options=self.options, threads=self.threads)
        return b""


class Job:
    """One compilation. `request` is for a process, or None if it cannot run in one; `finish` compiles here, or loads the result from the cache."""

    def __init__(
        self, request: CompileRequest | None, finish: Callable[[Callable[[str, float], None]], None], failed: Callable[[Exception], None]
    ) -> None:
        """`finish` receives a function to call at each level, which raises CancelledError once the result is no longer needed."""
        self.request, self._finish, self._failed = request, finish, failed
        self._pid = os.getpid()
        self._over = threading.Event()
        self._cancelled = False

    @property
    def is_alive(self) -> bool:
        """Whether it is waiting or running; False in a forked child."""
        return self._pid == os.getpid() and not self._over.is_set()

    def wait(self, seconds: float | None) -> bool:
        """Wait until it is finished; returns whether it is."""
        return self._over.wait(seconds)

    def cancel(self) -> None:
        """Cancel it."""
        self._cancelled = True
        _background.stopped(self)

    def run(self, worker: "Callable[[], Worker]") -> None:
        """Run it, in the background thread."""
        try:
            self._check("", 0.0)
            if self.request is not None:
                worker().ask(self.request, "a model in the background", SECONDS)
            self._check("", 0.0)
            self._finish(self._check)
        except CancelledError:
            pass
        except Exception as error:  # for any exception, calls go on as before
            if not self._cancelled:
                self._failed(error)
        finally:
            self._over.set()

    def drop(self) -> None:
        """Give it up without running it."""
        self._over.set()

    def _check(self, level: str, seconds: float) -> None:
        if self._cancelled:
            raise CancelledError("the model is not needed any more")


class Background:
    """One thread that does jobs in turn, and the process that it asks. Both end after some idle seconds, and with the program."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: collections.deque[Job] = collections.deque()
        self._current: Job | None = None
        self._thread: threading.Thread | None = None
        self._worker: Worker | None = None
        self._closed = False
        self._more = threading.Event()

    def submit(self, job: Job) -> None:
        """Queue a job."""
        with self._lock:
            if self._closed:
                job.drop()
                return
            # In this order, and testing whether the thread is alive: a signal handler may raise an exception at any moment.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work, name="stepwell-specialise", daemon=True)
                self._thread.start()
            self._waiting.append(job)
            self._more.set()

    def stopped(self, job: Job) -> None:
        """Stop a cancelled job if it is running in a process, and remove it from the queue."""
        with self._lock:
            if job in self._waiting:
                self._waiting.remove(job)
                job.drop()
            elif job is self._current and job.request is not None and self._worker is not None:
                self._worker.kill()

    def close(self) -> None:
        """Stop everything at the end of the program: no thread may be inside native code then."""
        with self._lock:
            self._closed = True
            current, thread = self._current, self._thread
            for job in list(self._waiting):
                job.cancel()
            self._more.set()
        if current is not None:
            current.cancel()
        if thread is not None and thread is not threading.current_thread():
            thread.join(_WAIT)
        self._end_worker()

    def forget(self) -> None:
        """Reset in a forked child, which has neither the thread nor the process."""
        self.__init__()  # type: ignore[misc]  # anew, as `__init__` left it

    def _work(self) -> None:
        while True:
            waited = self._more.wait(_IDLE)
            with self._lock:
                if not self._waiting and (self._closed or not waited):
                    self._thread = None
                    break
                self._current = self._waiting.popleft() if self._waiting else None
                if not self._waiting and not self._closed:
                    self._more.clear()
            if self._current is not None:
                self._current.run(self._ready_worker)
            with self._lock:
                self._current = None
        self._end_worker()

    def _ready_worker(self) -> "Worker":
        from stepwell.backends.llvm_cpu.pool import Worker

        with self._lock:
            if self._closed or (self._current is not None and self._current._cancelled):
                raise CancelledError("the program ends")
            if self._worker is not None and not self._worker.alive:
                self._worker.close()
                self._worker = None
            if self._worker is None:
                self._worker = Worker()
            return self._worker

    def _end_worker(self) -> None:
        with self._lock:
            if self._worker is not None and (self._closed or self._thread is None):
                self._worker.close()
                self._worker = None


_background = Background()
atexit.register(_background.close)
os.register_at_fork(after_in_child=_background.forget)
submit = _background.submit
"""Queues a job, to be done in the background."""


def request_for(
    compile: Callable[..., Any], source: Callable[[], str | bytes | None], options: CompileOptions, threads: int, *, cached: bool
) -> CompileRequest | None:
    """The request to a worker process for a model; None if it must be compiled in this process.

    That is so if the cache is off, so that the result could not be returned, or if the worker would lack something, such as a plugin.
    """
    if not cached or not sys.executable or extending_modules() or (content := source()) is None:
        return None
    request = CompileRequest(compile, content, options, threads)
    try:
        pickle.dumps(options)
    except (pickle.PicklingError, TypeError, AttributeError):
        return None
    return request
