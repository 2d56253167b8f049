"""Requests to streams, and the queue in which they wait: bounded, fair to callers, with deadlines."""

import enum
import math
import os
import queue
import threading
import time
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from stepwell.dialects.support.errors import DeadlineError, InputError, QueueFullError, shown
from stepwell.dialects.support.processes import Lock
from stepwell.runtime.serving.line import FairLine

Results = dict[str, np.ndarray]


class Runner(Protocol):
    """Runs the requests of one stream: a model with a workspace and a team of threads."""

    def enter(self) -> None:
        """Prepare the thread that calls `run`, before its first call."""

    def run(self, inputs: Mapping[str, np.ndarray], out: Mapping[str, np.ndarray] | None) -> Results:
        """Run the model. Raises as its `run` does."""

    def stop(self) -> None:
        """Make the run that is going on end soon, if it is in a loop of compiled code. Called from any thread."""

    def go_on(self) -> None:
        """Take back `stop`, after a run."""

    def reset(self) -> None:
        """Forget the state that it keeps from run to run, if it does."""

    def close(self) -> None:
        """Free its memory and threads."""

    @property
    def workspace_bytes(self) -> int:
        """The bytes of its workspace."""


@dataclass(frozen=True)
class Statistics:
    """The numbers of requests to streams. Each submitted request is in exactly one of the states from `completed` to `running`."""

    submitted: int = 0
    """The requests that were accepted."""
    completed: int = 0
    """The requests with a result."""
    failed: int = 0
    """The requests whose run raised an exception."""
    cancelled: int = 0
    expired: int = 0
    """The requests whose deadline has passed."""
    rejected: int = 0
    """The requests that were not accepted, because the queue was full."""
    queued: int = 0
    """The requests that wait."""
    running: int = 0


class State(enum.Enum):
    """The state of a request."""

    BLOCKED = 0
    """Its caller waits for room in the queue."""
    WAITING = 1
    RUNNING = 2
    DONE = 3


class Request(Future[Results]):
    """The future of one request. `cancel` withdraws a request that waits.

    For one that runs, `cancel` returns False, but asks the run to end. If it is in a loop of compiled code, it ends within about a twentieth of a
    second, and the future has a CancelledError.
    """

    def __init__(
        self, waiting: "Queue", caller: Hashable, inputs: Mapping[str, np.ndarray], out: Mapping[str, np.ndarray] | None, deadline: float | None
    ) -> None:
        super().__init__()
        self.caller, self.inputs, self.out, self.deadline = caller, inputs, out, deadline
        self.until = None if deadline is None else time.monotonic() + deadline
        """The time of its deadline, by the monotonic clock."""
        self.state = State.BLOCKED
        self.line = 0
        """The number of the line that it waits in."""
        self.admitted = threading.Event()
        """Set when its caller need not wait for room any more."""
        self.runner: Runner | None = None
        """The runner of its stream, while it runs."""
        self.is_unwanted = False
        """Whether it was cancelled while it ran."""
        self._queue = waiting

    def cancel(self) -> bool:
        """Withdraw it if it waits; see the class."""
        if super().cancel():
            self._queue.withdraw(self)
            return True
        self._queue.stop(self)
        return False

    @property
    def left(self) -> float | None:
        """The seconds to its deadline, below 0 after it; None without a deadline."""
        return None if self.until is None else self.until - time.monotonic()

    def is_late(self) -> bool:
        """Whether its deadline has passed."""
        return self.until is not None and time.monotonic() >= self.until

    def lateness(self, state: str) -> DeadlineError:
        """The error for a deadline that passed while the request was in that state."""
        return DeadlineError(f"submit: the deadline of {self.deadline:g} s passed while the request {state}")

    def end(self) -> None:
        """Mark it as ended, and let its arrays go."""
        self.state, self.runner = State.DONE, None
        self.inputs, self.out = {}, None


class Queue:
    """The requests of all callers of some streams, which run them. Safe to use from several threads.

    Streams wait for tokens, one for each admitted request: `SimpleQueue.put` may be called at any time, even by the garbage collector. With `pinned`,
    all requests of a caller go to the same stream, and each stream serves one caller.
    """

    def __init__(self, streams: int, capacity: int, *, pinned: bool) -> None:
        self._process = os.getpid()
        self.is_closed = False
        self._workers: set[int] = set()
        """The identifiers of the streams' threads."""
        self._streams, self._capacity = streams, capacity
        self._lines: list[FairLine[Request]] = [FairLine() for _ in range(streams if pinned else 1)]
        self._tokens: list[queue.SimpleQueue[bool]] = [queue.SimpleQueue() for _ in self._lines]
        self._owners: dict[int, Hashable] | None = {} if pinned else None
        """The caller that each stream serves, if callers are pinned."""
        self._blocked: FairLine[Request] = FairLine()
        self._running: set[Request] = set()
        self._timed: set[Request] = set()
        """The requests with a deadline that wait or run."""
        self._alarm: queue.SimpleQueue[bool] = queue.SimpleQueue()
        """Wakes the thread that watches deadlines: True to look again, False to end."""
        self._next_alarm = math.inf
        self._ended = 0
        """The number of streams that have ended."""
        self._counts: Counter[str] = Counter()
        self._lock = Lock()

    @property
    def statistics(self) -> Statistics:
        """The numbers of requests now."""
        with self._lock:
            return Statistics(**self._counts)

    def is_here(self) -> bool:
        """Whether this is the process of the streams: a forked one has none of their threads."""
        return os.getpid() == self._process

    def check_process(self) -> None:
        """Raise InputError in a forked process."""
        if not self.is_here():
            raise InputError(f"streams: expected use in process {self._process}, which made them, got use in process {os.getpid()}, forked from it")

    # --- the side of callers

    def enter(self, request: Request, *, block: bool, timeout: float | None) -> None:
        """Admit a request, or with `block` wait for room, at most `timeout` seconds.

        Raises QueueFullError if there is no room, InputError if the streams are closed. A request whose deadline passes meanwhile gets its error.
        """
        with self._lock:
            self._check_open()
            request.line = self._line_of(request.caller)
            if self._counts["queued"] < self._capacity:
                self._admit(request)
                return
            if not block or threading.get_ident() in self._workers:  # a stream that waited for itself would wait for ever
                raise self._rejection(0)
            self._blocked.add(request.caller, request)
        waits = [seconds for seconds in (timeout, request.left) if seconds is not None]
        try:
            request.admitted.wait(max(min(waits), 0) if waits else None)
        finally:
            with self._lock:
                is_left_out = request.state is State.BLOCKED
                if is_left_out:
                    request.state = State.DONE
                    if not self.is_closed:
                        self._blocked.remove(request.caller, request)
        if not is_left_out:
            return
        with self._lock:
            self._check_open()
            if not request.is_late():
                raise self._rejection(timeout or 0)
            self._counts.update(submitted=1, expired=1)
        request.set_running_or_notify_cancel()
        request.set_exception(request.lateness("waited for room in the queue"))

    def withdraw(self, request: Request) -> None:
        """Take a cancelled request out, unless a stream has taken it meanwhile, which then drops it."""
        with self._lock:
            if request.state is State.WAITING:
                self._leave(request)
                self._drop(request)

    def stop(self, request: Request) -> None:
        """Ask the run of a request to end, if it runs."""
        with self._lock:
            if request.state is State.RUNNING and request.runner is not None:
                request.is_unwanted = True
                request.runner.stop()

    def release(self, caller: Hashable, runners: Sequence[Runner]) -> None:
        """Free the stream of a caller, if it has one, and reset its runner. Raises InputError if the caller has requests that wait or run."""
        with self._lock:
            number = next((number for number, owner in (self._owners or {}).items() if owner == caller), None)
            if self._owners is None or number is None:
                return
            if any(request.line == number for line in (self._running, self._lines[number], self._blocked) for request in line):
                raise InputError(f"release: expected a caller all of whose requests have ended, got {shown(caller)}, which has some that have not")
            runners[number].reset()
            del self._owners[number]

    def shut(self) -> None:
        """Admit no more requests, and let streams end once they have run those that wait. It takes no lock, so it may be called at any time."""
        if not self.is_closed:
            self.is_closed = True
            for tokens in self._tokens:
                for _ in range(self._streams // len(self._tokens)):
                    tokens.put(False)

    def close(self, *, cancel_pending: bool) -> None:
        """The same, and send back the callers that wait for room; with `cancel_pending`, cancel the requests that wait."""
        with self._lock:
            self.shut()
            for request in self._blocked:
                request.admitted.set()
            self._blocked = FairLine()
            waiting = [request for line in self._lines for request in line]
        for request in waiting if cancel_pending else ():
            request.cancel()

    def _check_open(self) -> None:
        if self.is_closed:
            raise InputError("submit: expected open streams, got streams that were closed")

    def _rejection(self, seconds: float) -> QueueFullError:
        self._counts["rejected"] += 1
        waited = f" after {seconds:g} s" if seconds else ""
        return QueueFullError(f"submit: expected room in the queue, got {self._capacity} requests that wait, as many as it may hold{waited}")

    def _line_of(self, caller: Hashable) -> int:
        """The line for a caller's requests. Raises InputError if callers are pinned and no stream is left."""
        owners = self._owners
        if owners is None:
            return 0
        number = next((number for number, owner in owners.items() if owner == caller), None)
        if number is None:
            number = next((number for number in range(self._streams) if number not in owners), None)
            if number is None:
                most = f"at most {self._streams} callers, since each stream keeps the state of one"
                raise InputError(f"submit: expected {most} (`release` frees a stream), got another one, {shown(caller)}")
            owners[number] = caller
        return number

    def _admit(self, request: Request) -> None:
        request.state = State.WAITING
        self._counts.update(submitted=1, queued=1)
        self._lines[request.line].add(request.caller, request)
        self._tokens[request.line].put(True)
        request.admitted.set()
        if request.until is not None:
            self._timed.add(request)
            if request.until < self._next_alarm:
                self._next_alarm = request.until
                self._alarm.put(True)

    def _leave(self, request: Request) -> None:
        """Take a request out of its line."""
        self._lines[request.line].remove(request.caller, request)
        self._make_room()

    def _make_room(self) -> None:
        """Admit a caller that waits for the room that a request has left."""
        self._counts["queued"] -= 1
        after = None if self.is_closed else self._blocked.next()
        if after is not None:
            self._admit(after)

    def _drop(self, request: Request) -> None:
        """Note that a request which has left its line was cancelled."""
        request.end()
        self._timed.discard(request)
        self._counts["cancelled"] += 1

    # --- the side of streams

    def begin_work(self) -> None:
        """Note that the current thread is a stream's."""
        with self._lock:
            self._workers.add(threading.get_ident())

    def work(self, line: int) -> bool:
        """Wait for a request in a line; returns False if there will be none."""
        return self._tokens[line].get()

    def next(self, line: int, runner: Runner) -> Request | None:
        """Take the next request, to be run by `runner`, and then passed to `finish`. None if it was withdrawn."""
        with self._lock:
            request = self._lines[line].next()
            if request is None:
                return None
            self._make_room()
            if not request.set_running_or_notify_cancel():  # it was cancelled a moment ago
                self._drop(request)
                return None
            request.state, request.runner = State.RUNNING, runner
            self._running.add(request)
            self._counts["running"] += 1
            return request

    def finish(self, request: Request, runner: Runner, result: Results, error: BaseException | None) -> None:
        """Give a request that has run its result, or its error."""
        with self._lock:
            is_late = request.is_late()
            is_cancelled = not is_late and request.is_unwanted and error is not None
            if is_late:
                error = request.lateness("ran")
            elif is_cancelled:
                error = CancelledError()
            request.end()
            runner.go_on()
            self._running.discard(request)
            self._timed.discard(request)
            end = "expired" if is_late else "cancelled" if is_cancelled else "completed" if error is None else "failed"
            self._counts.update({"running": -1, end: 1})
        if error is None:
            request.set_result(result)
        else:
            request.set_exception(error)

    def leave_work(self) -> None:
        """Note that the thread of a stream ends; with the last one, deadlines need not be watched any more."""
        with self._lock:
            self._workers.discard(threading.get_ident())
            self._ended += 1
            if self._ended == self._streams:
                self._alarm.put(False)

    def watch(self) -> None:
        """Watch deadlines until the streams have ended."""
        while True:
            try:
                if not self._alarm.get(timeout=self._expire()):
                    return
            except queue.Empty:
                pass  # a deadline has passed

    def _expire(self) -> float | None:
        """Fail the requests that wait and are late, and stop those that run; returns the seconds to the next deadline, None if there is none."""
        with self._lock:
            late = [request for request in self._timed if request.is_late()]
            self._timed.difference_update(late)
            waiting = [request for request in late if request.state is State.WAITING]
            for request in waiting:
                self._leave(request)
            cancelled = [request for request in waiting if not request.set_running_or_notify_cancel()]
            for request in cancelled:
                self._drop(request)
            expired = [request for request in waiting if request not in cancelled]
            for request in expired:
                request.end()
                self._counts["expired"] += 1
            for request in late:
                if request.runner is not None:
                    request.runner.stop()
            self._next_alarm = min((request.until for request in self._timed if request.until is not None), default=math.inf)
        for request in expired:
            request.set_exception(request.lateness("waited"))
        return None if math.isinf(self._next_alarm) else max(self._next_alarm - time.monotonic(), 0)
