"""Processes that answer requests, from the side of their parent: several at once, with time limits; those that crash or hang are replaced."""

import contextlib
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

from stepwell import plugin_files
from stepwell.backends.llvm_cpu.lifetime import how_it_ended, in_lasting_thread
from stepwell.backends.llvm_cpu.worker import LENGTH
from stepwell.database.records import State
from stepwell.dialects.support.errors import ResourceError
from stepwell.dialects.support.files import nameless_file
from stepwell.dialects.support.processes import Lock, uninterrupted
from stepwell.tuning.blobs import Parcel
from stepwell.tuning.child import IDLE
from stepwell.tuning.device import Fault

# A child sees the modules of this process, wherever they come from, and not those of the current folder; __main__ is not imported.
_START = "import sys; sys.path[:] = {path!r}; from stepwell.tuning.child import main; main{arguments!r}"
_CHUNK = 1 << 20  # bytes to receive at once
_SPARE = 30.0  # seconds before a child without work ends by itself, from which on it gets no request


@dataclass(frozen=True)
class Plugins:
    """The plugins that the children load."""

    installed: bool
    """Whether plugins of installed packages are loaded."""
    files: tuple[str, ...]
    """The paths of other plugins."""

    @classmethod
    def loaded_here(cls) -> "Plugins":
        """The plugins that this process has loaded."""
        files = plugin_files.loaded_files()
        return cls(len(plugin_files.loaded()) > len(files), tuple(files))


@dataclass(frozen=True)
class Start:
    """How children are started."""

    store: Path
    """The folder of blobs."""
    plugins: Plugins
    unset: tuple[str, ...] = ()
    """Variables of the environment that they do not get."""


class Child:
    """One process and the connection to it, whose ends never block here."""

    def __init__(self, start: Start) -> None:
        """Start it. Raises ResourceError if the system refuses."""
        self._log = nameless_file()
        self._lock = Lock()
        self._connection, far = socket.socketpair()
        self._connection.setblocking(False)
        self._unsent, self._received = memoryview(b""), bytearray()
        self._is_over = False
        self._rests_since = time.monotonic()
        self.deadline = 0.0
        """When its request is to be stopped, by `time.monotonic`."""
        arguments = (os.getpid(), far.fileno(), str(start.store), start.plugins.installed, start.plugins.files)
        code = _START.format(path=sys.path, arguments=arguments)
        # OpenBLAS: starting threads takes longer than the rest of numpy's import.
        environment = {"OPENBLAS_NUM_THREADS": "1", **{name: value for name, value in os.environ.items() if name not in start.unset}}

        def run() -> "subprocess.Popen[bytes]":
            return subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=[far.fileno()],
                env=environment,
                start_new_session=True,  # Ctrl-C in the terminal is for us, and the child ends with all processes that it started
            )

        try:
            self._process = in_lasting_thread(run)
        except OSError as error:
            self._connection.close()
            self._log.close()
            raise ResourceError(f"{sys.executable}: no process can be started: {error.strerror or error}") from None
        finally:
            far.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_ready(self) -> bool:
        """Whether it can get a request: it runs, and will not end soon for lack of work."""
        ended = select.poll()
        ended.register(self._connection, select.POLLIN)  # an idle process says nothing, so this is the end
        return not self._is_over and time.monotonic() - self._rests_since < IDLE - _SPARE and not ended.poll(0)

    def ask(self, request: bytes, timeout: float) -> None:
        """Begin to send a pickled request, to be answered within so many seconds."""
        self._unsent = memoryview(LENGTH.pack(len(request)) + request)
        self.deadline = time.monotonic() + timeout

    def register(self, poll: select.poll) -> int:
        """Let `poll` report when `proceed` can do something; returns the descriptor by which it reports that."""
        poll.register(self._connection, select.POLLIN | (select.POLLOUT if self._unsent else 0))
        return self._connection.fileno()

    def proceed(self) -> Parcel | Fault | None:
        """Send and receive without waiting; returns the reply once it is complete, or a fault if the process is gone."""
        try:
            while self._unsent:
                self._unsent = self._unsent[self._connection.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:  # the end of the process, which receiving reports
            self._unsent = memoryview(b"")
        try:
            while part := self._connection.recv(_CHUNK):
                self._received += part
        except BlockingIOError:
            return self._reply()
        except ConnectionError:
            pass  # like the end of the stream
        return Fault(State.CRASHED, f"the process ended {self._end()}")

    def _reply(self) -> Parcel | Fault | None:
        if len(self._received) < LENGTH.size or len(self._received) < LENGTH.size + LENGTH.unpack_from(self._received)[0]:
            return None
        reply: Parcel | Fault = pickle.loads(memoryview(self._received)[LENGTH.size :])
        self._received = bytearray()
        # Both processes share this file offset: the log is truncated when the process has answered, and not before, as it may have ended.
        self._log.seek(0)
        self._log.truncate()
        self._rests_since = time.monotonic()
        return reply

    def _end(self) -> str:
        """Reap the process, which has closed its connection, as it does when it ends; returns how it ended, in words."""
        self.kill()
        with self._lock:
            self._is_over = True
            code = self._process.wait()
        self._log.seek(0)
        return how_it_ended(code, self._log.read())

    def kill(self) -> None:
        """Kill the process and all processes that it started, without waiting; any thread may call it."""
        with self._lock, contextlib.suppress(ProcessLookupError, PermissionError):  # the latter on macOS if it has just ended
            if not self._is_over:  # not reaped yet, so that nobody else has its number
                os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Kill the process, wait for its end and close the connection."""
        self.kill()
        with self._lock:
            self._is_over = True
            self._process.wait()
        self._connection.close()
        self._log.close()


class Children:
    """Up to `jobs` processes, which are started when they are needed and kept warm."""

    def __init__(self, start: Start, jobs: int) -> None:
        self._start = start
        self._jobs = jobs
        self._idle: list[Child] = []
        self._busy: dict[Child, int] = {}
        """The number of the request that each child answers."""

    def ask(self, requests: Sequence[bytes], timeout: float, is_stopped: Callable[[], bool] = lambda: False) -> Generator[tuple[int, Parcel | Fault]]:
        """The replies to pickled requests with their numbers, in the order in which they come.

        Each has `timeout` seconds from when a process begins with it, or, if the process is new, from its start. If the iteration ends early, by an
        exception such as Ctrl-C or because the caller stops, the processes at work are killed at once. Another thread that wants to end it makes
        `is_stopped` true, then calls `kill`: then no process escapes that is started meanwhile.
        Raises ResourceError if no process can be started.
        """
        waiting = deque(range(len(requests)))
        try:
            while waiting or self._busy:
                while waiting and len(self._busy) < self._jobs:
                    child = self._ready()
                    number = waiting.popleft()
                    self._busy[child] = number
                    child.ask(requests[number], timeout)
                    if is_stopped():
                        child.kill()
                for child, reply in self._replies():
                    number = self._busy[child]
                    if isinstance(reply, Fault) and reply.state is not State.FAILED:
                        self._end([child])
                    else:
                        self._idle.append(child)
                        del self._busy[child]
                    yield number, reply
        finally:
            self._end([*self._busy])

    def _ready(self) -> Child:
        """A child without work, started if there is none. It is recorded from the first moment, so that Ctrl-C leaves none behind."""
        while self._idle:
            child = self._idle[-1]
            self._busy[child] = -1
            self._idle.pop()
            if child.is_ready:
                return child
            self._end([child])
        with uninterrupted():
            child = Child(self._start)
            self._busy[child] = -1
        return child

    def _replies(self) -> list[tuple[Child, Parcel | Fault]]:
        """Wait for the next replies: those that are complete and those of children whose time is over."""
        poll = select.poll()
        children = {child.register(poll): child for child in self._busy}
        left = min(child.deadline for child in self._busy) - time.monotonic()
        ready = {children[descriptor] for descriptor, _ in poll.poll(max(0.0, left) * 1000 + 1)}
        found: list[tuple[Child, Parcel | Fault]] = []
        for child in self._busy:
            reply = child.proceed() if child in ready else None
            if reply is None and time.monotonic() >= child.deadline:
                reply = Fault(State.TIMED_OUT, "the process was stopped: it was not done in time")
            if reply is not None:
                found.append((child, reply))
        return found

    def kill(self) -> None:
        """Kill the processes at work, without waiting; `ask`, in another thread, reports them as crashed."""
        for child in list(self._busy):
            child.kill()

    def close(self) -> None:
        """End all processes."""
        self._end([*self._busy, *self._idle])

    def _end(self, children: Sequence[Child]) -> None:
        for child in children:
            child.kill()  # all of them, before waiting for the first
        for child in children:
            child.close()
            self._busy.pop(child, None)
            if child in self._idle:
                self._idle.remove(child)
