"""Ctrl-C at any moment of the first use, after which everything must still work."""

import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from types import FrameType
from typing import Any

import numpy as np
import pytest
from every import every
from interrupted import interrupted
from onnx import TensorProto, helper, numpy_helper
from watchdog import Watchdog

import stepwell
from stepwell.dialects.support.processes import Lock, Turn, uninterrupted
from stepwell.runtime.late_sizes import running

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
    count = 2 * ROUNDS
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


def test_an_exception_at_any_moment_leaves_locks_and_turns_free() -> None:
    lock, turn = Lock(), Turn()

    def work() -> None:
        with lock:
            turn.alone(lambda: Lock(), AssertionError("it is taken"))

    def is_free() -> bool:
        return bool(lock.acquire(blocking=False)) and lock.release() is None

    with ThreadPoolExecutor(1) as another:
        for _ in interrupted(work, lambda: None):
            assert another.submit(is_free).result()
            assert turn.alone(lambda: 1, AssertionError("it is taken")) == 1


def test_a_turn_refuses_who_comes_meanwhile_and_is_free_in_a_forked_child() -> None:
    turn = Turn()

    def fork() -> int:
        with pytest.raises(ValueError, match="taken"):
            turn.alone(lambda: None, ValueError("taken"))
        pid = os.fork()
        if pid == 0:
            os._exit(turn.alone(lambda: 0, ValueError("taken")))
        return os.waitpid(pid, 0)[1]

    assert turn.alone(fork, AssertionError("it is taken")) == 0


@pytest.mark.usefixtures("interruptible")
def test_an_exception_at_any_moment_leaves_ctrl_c_working() -> None:
    def work() -> None:
        with uninterrupted():
            pass

    for _ in interrupted(work, lambda: None):
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.default_int_handler)


class Own(BaseException):
    """An exception that nobody expects."""


@cache
def rounds() -> Any:
    """`x` and as many ones as an input says, one added in each round of a loop."""
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Add", ["a", "one"], ["ao"]), helper.make_node("Identity", ["c"], ["co"])]
    before = [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, [])]
    after = [value("co", TensorProto.BOOL, []), value("ao", TensorProto.FLOAT, [2])]
    one = numpy_helper.from_array(np.float32(1), "one")
    body = helper.make_graph(nodes, "body", [*before, value("a", TensorProto.FLOAT, [2])], after, [one])
    sides = [value("x", TensorProto.FLOAT, [2]), value("m", TensorProto.INT64, [])], [value("y", TensorProto.FLOAT, [2])]
    graph = helper.make_graph([helper.make_node("Loop", ["m", "", "x"], ["y"], body=body)], "g", *sides)
    return stepwell.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), threads=1)


@contextmanager
def alarms(handler: Callable[[int, FrameType | None], None], interval: float = 0.0) -> Iterator[None]:
    """Handles an alarm in 5 ms, then more of them."""
    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.005, interval)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@every("error", [TimeoutError, KeyboardInterrupt, SystemExit, Own, stepwell.InputError])
def test_what_a_handler_raises_comes_out_of_a_loop_as_it_is(error: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing else is said. A handler may run a model itself."""
    said: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    calls = []
    rounds()  # compiled before there are alarms

    def handler(number: int, frame: FrameType | None) -> None:
        calls.append(float(rounds()(np.zeros(2, np.float32), np.array(3))[0][0]))
        if len(calls) % 3 == 0:
            raise error("mine")

    for _ in range(3):
        with pytest.raises(error, match="mine"), alarms(handler, 0.002):
            rounds()(np.zeros(2, np.float32), np.array(2**40))
        assert not running
    assert not said
    assert len(calls) >= 9
    assert set(calls) == {3}
