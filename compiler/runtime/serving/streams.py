"""Streams: threads that run one model for many callers, each with its own workspace and its own team of threads."""

import atexit
import threading
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np

from stepwell.checks import is_flag, is_number, wrong
from stepwell.dialects.support.errors import ResourceError
from stepwell.runtime.context import Context
from stepwell.runtime.serving.requests import Queue, Request, Results, Runner, Statistics


class ContextRunner:
    """Runs a model in memory, with a context of its own."""

    def __init__(self, run: Callable[..., Results], threads: int, *, spins: bool, reset: Callable[[], None] | None = None) -> None:
        """`run` and `reset` are functions of a model, which nobody else uses if it has a state. `spins` is as in `Context`."""
        self._run, self._reset = run, reset
        self._context = Context(threads, spins=spins)

    def enter(self) -> None:
        """See `Runner`."""
        self._context.enter()

    def run(self, inputs: Mapping[str, np.ndarray], out: Mapping[str, np.ndarray] | None) -> Results:
        """See `Runner`."""
        return self._run(inputs) if out is None else self._run(inputs, out=out)

    def stop(self) -> None:
        """See `Runner`."""
        self._context.stopped = True

    def go_on(self) -> None:
        """See `Runner`."""
        self._context.stopped = False

    def reset(self) -> None:
        """See `Runner`."""
        if self._reset is not None:
            self._reset()

    def close(self) -> None:
        """See `Runner`."""
        self._context.workspaces.clear()

    @property
    def workspace_bytes(self) -> int:
        """See `Runner`."""
        return sum(self._context.workspaces.sizes)


@dataclass(frozen=True)
class Candidate:
    """A way to share the cores out."""

    streams: int
    threads: int
    """The threads of each stream."""
    requests_per_second: float | None = None
    """The measured throughput; None if it was not measured."""

    def __str__(self) -> str:
        """`2x1`: streams by threads."""
        return f"{self.streams}x{self.threads}"


@dataclass(frozen=True)
class Choice:
    """How streams share the cores out, and why."""

    streams: int
    threads: int
    candidates: tuple[Candidate, ...]
    """The ways that were compared."""
    why: str
    """The reason, as a sentence."""


class Streams:
    """Runs a model for many callers, made by the method `streams` of a model. Safe to use from several threads; a context manager that closes itself.

    Each stream is a thread with its own workspace and its own team of threads; code and weights are the model's. Requests wait in one queue, which
    is bounded, and fair to callers. For a model with a state, each stream has a state of its own, and serves one caller until `release`.
    """

    def __init__(self, runners: Sequence[Runner], choice: Choice, *, queue: int, pinned: bool) -> None:
        """One stream for each of `runners`, which it closes. `queue` is the number of requests that may wait.

        `pinned` is whether a caller keeps its stream. Raises ResourceError if the system has no threads left.
        """
        self.choice = choice
        """How it shares the cores out, and why."""
        self._runners = tuple(runners)
        self._queue = Queue(len(runners), queue, pinned=pinned)
        jobs = [(_serve, (self._queue, i if pinned else 0, runner)) for i, runner in enumerate(runners)]
        self._threads = [threading.Thread(target=job, args=given, name=f"stepwell stream {i}", daemon=True) for i, (job, given) in enumerate(jobs)]
        self._threads.append(threading.Thread(target=self._queue.watch, name="stepwell deadlines", daemon=True))
        # Without a reference to this object: what nobody uses any more ends when its requests have.
        self._shut = weakref.finalize(self, self._queue.shut)
        self._shut.atexit = False
        try:
            for thread in self._threads:
                thread.start()
        except RuntimeError as error:
            self._threads = [thread for thread in self._threads if thread.ident is not None]
            self.close()
            for runner in runners[len(self._threads) :]:
                runner.close()
            raise ResourceError(f"streams: the system starts no more threads: {error}") from error
        _running[self._queue] = self._threads

    def submit(
        self, inputs: Mapping[str, np.ndarray], *, deadline: float | None = None, caller: Hashable = None, block: bool = True,
        timeout: float | None = None, out: Mapping[str, np.ndarray] | None = None,
    ) -> Request:  # fmt: skip
        """Run the model on inputs by name, some time later; returns the future of its outputs by name, as the model's `run` gives them.

        `deadline` is in seconds from now: a request that still waits then fails with a DeadlineError, and one that runs ends as soon as it can, with
        the same error. Requests of one `caller`, by default of one thread, run in their order, and callers take turns. If the queue is full, `block`
        waits for room, at most `timeout` seconds. `out` is as in the model's `run`. The arrays must not change before the future is done.

        Raises QueueFullError if there is no room, InputError for a wrong argument, closed streams, or a forked process. What is wrong with the arrays
        is the exception of the future.
        """
        self._queue.check_process()
        for name, seconds in (("deadline", deadline), ("timeout", timeout)):
            if seconds is not None and not (is_number(seconds) and 0 <= seconds <= threading.TIMEOUT_MAX):
                raise wrong(name, "a number of seconds from 0, or None", seconds)
        if not is_flag(block):
            raise wrong("block", "True or False", block)
        try:
            hash(caller)
        except TypeError:
            raise wrong("caller", "a label that can be a key of a dict", caller) from None
        request = Request(self._queue, threading.get_ident() if caller is None else caller, inputs, out, deadline)
        self._queue.enter(request, block=block, timeout=timeout)
        return request

    def release(self, caller: Hashable) -> None:
        """Forget the state of a caller of a model with a state, so that its stream can serve another one; does nothing for other models.

        Raises InputError if the caller has requests that have not ended.
        """
        self._queue.check_process()
        self._queue.release(caller, self._runners)

    def close(self, cancel_pending: bool = False) -> None:
        """Accept no more requests, run those that wait, or cancel them with `cancel_pending`, and wait for the end of all.

        In a forked process it does nothing, and in a callback of a future it does not wait. Without a call, the same happens when the program ends,
        and streams that nobody refers to end by themselves when their requests have ended.
        """
        if self._queue.is_here():
            self._queue.close(cancel_pending=cancel_pending)
            _join(self._threads)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    @property
    def statistics(self) -> Statistics:
        """The numbers of requests until now."""
        self._queue.check_process()
        return self._queue.statistics

    @property
    def workspace_bytes(self) -> int:
        """The bytes of the workspaces of all streams that run nothing now; a stream makes its own when it first runs."""
        return sum(runner.workspace_bytes for runner in self._runners)


def _serve(queue: Queue, line: int, runner: Runner) -> None:
    """The thread of a stream."""
    queue.begin_work()
    try:
        runner.enter()
        while queue.work(line):
            _run_next(queue, line, runner)
    finally:
        runner.close()
        queue.leave_work()


def _run_next(queue: Queue, line: int, runner: Runner) -> None:
    """Run the next request, if there is one: a function, so that a stream that waits keeps no arrays alive."""
    request = queue.next(line, runner)
    if request is None:
        return
    result: Results = {}
    failure: BaseException | None = None
    try:
        result = runner.run(request.inputs, request.out)
    except BaseException as error:  # the caller's to handle, and no end of the stream
        failure = error
    try:
        queue.finish(request, runner, result, failure)
    finally:
        del request, failure  # an exception refers to this frame


def _join(threads: Sequence[threading.Thread]) -> None:
    """Wait for the end of threads, unless the current one is among them: a callback of a future runs in a stream's thread."""
    if threading.current_thread() not in threads:
        for thread in threads:
            thread.join()


_running: "weakref.WeakKeyDictionary[Queue, list[threading.Thread]]" = weakref.WeakKeyDictionary()
"""The threads of streams, also of those that nobody refers to any more."""


@atexit.register
def _end_all() -> None:
    """Run what waits when the program ends. The threads are daemons, because the interpreter would otherwise wait for them before it calls this."""
    for queue, threads in list(_running.items()):
        if queue.is_here():
            queue.close(cancel_pending=False)
            _join(threads)
