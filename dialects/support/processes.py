"""Process-level helpers: locks that survive a fork, sections that Ctrl-C does not interrupt, and the time the package was loaded."""

import os
import signal
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

LOADED_AT = time.time()
"""When this package was loaded, in seconds since the epoch: files changed after this time are not the code that is running."""

_locks: "weakref.WeakSet[Lock]" = weakref.WeakSet()


class Lock:
    """A re-entrant lock that is free in a forked child, in which the thread that held it does not exist."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _locks.add(self)

    def acquire(self, *, blocking: bool = True) -> bool:
        """Take the lock; returns whether it was taken."""
        return self._lock.acquire(blocking)

    def release(self) -> None:
        """Give the lock back."""
        self._lock.release()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._lock.release()

    def _renew(self) -> None:
        self._lock = threading.RLock()


def _renew_locks() -> None:
    for lock in list(_locks):
        lock._renew()


os.register_at_fork(after_in_child=_renew_locks)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block: for imports, which cannot be repeated if native code is half initialised.

    Python delivers it to the main thread only, so elsewhere there is nothing to do.
    """
    before = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if not callable(before):  # ignored, the system's own, or one that was not set from Python
        yield
        return
    received: list[FrameType | None] = []

    def note(number: int, frame: FrameType | None) -> None:
        received.append(frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is note:  # who set another one in the block keeps it
            signal.signal(signal.SIGINT, before)
        if received:
            before(signal.SIGINT, received[0])
