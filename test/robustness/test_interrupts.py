"""Ctrl-C at any moment of the first use, after which everything must still work."""

import os
import random
import signal
import threading
from collections.abc import Iterator

import pytest
from watchdog import Watchdog

from stepwell.dialects.support.processes import Lock, uninterrupted

ROUNDS = int(os.environ.get("STEPWELL_TEST_ROUNDS", "2"))


def test_a_first_compilation_that_is_interrupted_can_be_repeated() -> None:
    draw = random.Random(ROUNDS)
    moments = [(i + draw.random()) / ROUNDS for i in range(ROUNDS)]
    with Watchdog() as dog:
        outcome = dog.call("robustness_programs:interrupt_imports", moments, seconds=60 + 30 * ROUNDS)
    assert outcome.kind == "returned", str(outcome)
    assert "failed" not in outcome.value, str(outcome)
    assert outcome.value.count("interrupted") >= ROUNDS // 2, str(outcome)


def test_a_first_compilation_that_is_interrupted_in_any_function_can_be_repeated() -> None:
    """Beside moments in time: what takes little time is rarely hit, and what native code calls may turn an interrupt into another error."""
    draw = random.Random(ROUNDS)
    count = 3 * ROUNDS
    with Watchdog() as dog:
        outcome = dog.call("robustness_programs:interrupt_functions", [(i + draw.random()) / count for i in range(count)], seconds=60 + 10 * count)
    assert outcome.kind == "returned", str(outcome)
    assert not [function for function, end in outcome.value if end == "failed"], str(outcome)
    assert sum(end == "interrupted" for _, end in outcome.value) >= count // 2, str(outcome)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C as in a terminal: what a shell starts in the background ignores it from birth."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_waits_until_the_end_of_a_block() -> None:
    done = []

    def work() -> None:
        with uninterrupted():
            with uninterrupted():
                signal.raise_signal(signal.SIGINT)
                done.append("inside")
            done.append("outside")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["inside", "outside"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_leave_signals_alone() -> None:
    seen = []

    def work() -> None:
        with uninterrupted():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]


def test_a_lock_is_free_in_a_forked_child() -> None:
    lock = Lock()
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    pid = os.fork()
    if pid == 0:
        os._exit(0 if lock.acquire(blocking=False) else 1)
    status = os.waitpid(pid, 0)[1]
    assert not lock.acquire(blocking=False)
    done.set()
    holder.join()
    assert status == 0
