"""Process-level helpers: locks that survive a fork, sections that Ctrl-C does not interrupt, and the time the package was loaded."""

import os
import signal
import sys
import threading
import time
import weakref
from _thread import RLock
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

LOADED_AT = time.time()
"""The time when this package was loaded, in seconds since the epoch: files changed later are not the code that is running."""

_locks: "weakref.WeakSet[Lock]" = weakref.WeakSet()


class Lock(RLock):  # type: ignore[misc]  # that class may be inherited from
    """A re-entrant lock that is free in a forked child, in which the thread that held it does not exist.

    Use it by `with`. Signal handlers run between any two steps of Python code and may raise: a lock taken by `acquire`, or by an `__enter__` in
    Python, would then be held for ever. `with` of a lock in C has no such steps.
    """

    def __init__(self) -> None:
        _locks.add(self)


def _renew_locks() -> None:
    for lock in list(_locks):
        lock._at_fork_reinit()  # type: ignore[attr-defined]  # as the standard library's modules do with theirs


R = TypeVar("R")


class Turn:
    """Lets one caller in at a time and refuses others, including those from a signal handler in the same thread.

    It is free in a forked child. An exception of such a handler, whenever it comes, leaves it free.
    """

    def __init__(self) -> None:
        self._holders: dict[int, object] = {}
        """By process."""

    def alone(self, call: Callable[[], R], refusal: Exception) -> R:
        """The result of `call`. Raises `refusal` while another call goes on."""
        process, token = os.getpid(), object()
        try:
            if self._holders.setdefault(process, token) is not token:
                raise refusal
            return call()
        finally:
            # Without a function call, after which a handler could run: no step of this can be the last one.
            if process in self._holders and self._holders[process] is token:
                del self._holders[process]


os.register_at_fork(after_in_child=_renew_locks)


def frames(frame: FrameType | None) -> Iterator[FrameType]:
    """A frame and those around it."""
    while frame is not None:
        yield frame
        frame = frame.f_back


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block: for imports, which cannot be repeated if native code is half initialised.

    Python delivers it only to the main thread, so elsewhere there is nothing to do.
    """
    before = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if not callable(before):  # ignored, the system's own, or one that was not set from Python
        yield
        return
    received: list[FrameType | None] = []
    is_over = False
    around = sys._getframe(2)  # the function that contains the block

    def note(number: int, frame: FrameType | None) -> None:
        if is_over or not any(outer is around for outer in frames(frame)):  # what another signal's handler raised has kept us from being replaced
            signal.signal(signal.SIGINT, before)
            before(number, frame)
        else:
            received.append(frame)

    try:
        signal.signal(signal.SIGINT, note)
        yield
    finally:
        is_over = True
        if signal.getsignal(signal.SIGINT) is note:  # a handler set in the block stays
            signal.signal(signal.SIGINT, before)
        if received:
            before(signal.SIGINT, received[0])
