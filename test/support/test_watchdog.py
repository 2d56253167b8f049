"""The watchdog itself: it tells calls that return, raise, hang, grow and crash from each other, and goes on after each."""

import os
import time

from watchdog import GIB, Watchdog


def answer(x: int) -> int:
    return x + 1


def hang() -> None:
    time.sleep(60)


def grow() -> None:
    bytearray(3 * GIB)


def crash() -> None:
    os.abort()


def test_every_end() -> None:
    with Watchdog() as dog:
        first = dog.pid
        returned = dog.call("test_watchdog:answer", 1)
        assert (returned.kind, returned.value) == ("returned", 2)
        assert returned.peak > 0
        grown = dog.call("test_watchdog:grow", memory=GIB)
        assert grown.kind == "raised"
        assert "MemoryError" in grown.value
        assert dog.call("test_watchdog:answer", 2).value == 3
        assert dog.pid == first
        died = dog.call("test_watchdog:crash")
        assert died.kind == "died"
        assert "-6" in died.value
        assert "in crash" in died.said
        hung = dog.call("test_watchdog:hang", seconds=2)
        assert hung.kind == "timeout"
        assert "in hang" in hung.said
        assert hung.seconds < 10
        assert dog.call("test_watchdog:answer", 3).value == 4
        assert dog.pid != first
