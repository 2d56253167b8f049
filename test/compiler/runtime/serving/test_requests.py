"""The queue of streams, with runs that wait until a test lets them go on: turns, room, deadlines, cancellation, the end."""

import asyncio
import gc
import math
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError

import numpy as np
import pytest
from together import together

from stepwell.dialects.support.errors import DeadlineError, InputError, QueueFullError
from stepwell.runtime.serving.requests import Request, Results
from stepwell.runtime.serving.streams import Choice, Streams

SECONDS = 30.0
"""The longest time that a test waits for what has to happen."""
X = np.zeros(1)


class Gate:
    """A runner whose runs wait for `goes`, and that notes whose they were."""

    workspace_bytes = 0

    def __init__(self) -> None:
        self.begun, self.goes = threading.Semaphore(0), threading.Semaphore(0)
        self.order: list[str] = []
        self.resets = self.closed = 0
        self.stopped = threading.Event()
        self.error: BaseException | None = None
        self.result: Callable[[], Results] = dict

    def enter(self) -> None:
        pass

    def run(self, inputs: Mapping[str, np.ndarray], out: Mapping[str, np.ndarray] | None) -> Results:
        self.order += inputs
        self.begun.release()
        assert self.goes.acquire(timeout=SECONDS)
        if self.error is not None:
            raise self.error
        return self.result()

    def stop(self) -> None:
        self.stopped.set()

    def go_on(self) -> None:
        self.stopped.clear()

    def reset(self) -> None:
        self.resets += 1

    def close(self) -> None:
        self.closed += 1

    def let(self, runs: int = 100) -> None:
        """Let so many runs go on."""
        self.goes.release(runs)


def streams_of(*gates: Gate, queue: int = 64, pinned: bool = False) -> Streams:
    return Streams(gates, Choice(len(gates), 1, (), ""), queue=queue, pinned=pinned)


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.let()  # a test that fails leaves no thread behind


def begun(streams: Streams, gate: Gate, name: str = "first") -> Request:
    """A request that runs."""
    request = streams.submit({name: X})
    assert gate.begun.acquire(timeout=SECONDS)
    return request


def blocked_callers(streams: Streams, number: int) -> None:
    """Wait until so many callers wait for room."""
    ends = time.monotonic() + SECONDS
    while sum(1 for _ in streams._queue._blocked) < number:
        assert time.monotonic() < ends
        time.sleep(0.001)


def counts(streams: Streams) -> dict[str, int]:
    """The numbers that are not 0, which have to fit each other."""
    found = vars(streams.statistics)
    states = ("completed", "failed", "cancelled", "expired", "queued", "running")
    assert found["submitted"] == sum(found[state] for state in states)
    return {name: number for name, number in found.items() if number}


def test_callers_take_turns_and_each_is_served_in_order(gate: Gate) -> None:
    with streams_of(gate) as streams:
        first = begun(streams, gate)
        greedy = [streams.submit({f"greedy {i}": X}, caller="greedy") for i in range(6)]
        others = [streams.submit({f"{caller} {i}": X}, caller=caller) for i in range(2) for caller in ("b", "c")]
        assert counts(streams) == {"submitted": 11, "queued": 10, "running": 1}
        gate.let()
        assert [future.result(SECONDS) for future in (first, *greedy, *others)] == [{}] * 11
    turns = ["greedy 0", "b 0", "c 0", "greedy 1", "b 1", "c 1", "greedy 2", "greedy 3", "greedy 4", "greedy 5"]
    assert gate.order == ["first", *turns]
    assert counts(streams) == {"submitted": 11, "completed": 11}
    assert gate.closed == 1


def test_a_full_queue_makes_callers_wait_or_refuses_them(gate: Gate) -> None:
    with streams_of(gate, queue=2) as streams:
        begun(streams, gate)
        for name in ("a", "b"):
            streams.submit({name: X})
        with pytest.raises(QueueFullError, match=r"^SW013 submit: expected room in the queue, got 2 requests that wait, as many as it may hold$"):
            streams.submit({"c": X}, block=False)
        with pytest.raises(QueueFullError, match=r"after 0\.01 s$"):
            streams.submit({"c": X}, timeout=0.01)
        late = streams.submit({"c": X}, deadline=0.01)
        with pytest.raises(DeadlineError, match=r"^SW014 submit: the deadline of 0\.01 s passed while the request waited for room in the queue$"):
            late.result(0)
        assert counts(streams) == {"submitted": 4, "expired": 1, "queued": 2, "running": 1, "rejected": 2}
        gate.let()
    assert gate.order == ["first", "a", "b"]


def test_a_greedy_caller_does_not_keep_others_out(gate: Gate) -> None:
    """Of the callers that wait for room, each is let in when it is its turn, however many of one wait."""
    with streams_of(gate, queue=1) as streams:
        begun(streams, gate)
        streams.submit({"waiting": X}, caller="greedy")
        blocked = [threading.Thread(target=streams.submit, args=({f"greedy {i}": X},), kwargs={"caller": "greedy"}) for i in range(4)]
        for thread in blocked:
            thread.start()
        blocked_callers(streams, 4)
        modest = threading.Thread(target=streams.submit, args=({"modest": X},), kwargs={"caller": "modest"})
        modest.start()
        blocked_callers(streams, 5)
        gate.let()
        for thread in (*blocked, modest):
            thread.join(SECONDS)
    assert gate.order.index("modest") <= 3
    assert counts(streams) == {"submitted": 7, "completed": 7}


def test_deadlines_of_requests_that_wait(gate: Gate) -> None:
    with streams_of(gate, queue=2) as streams:
        begun(streams, gate)
        soon, sooner = streams.submit({"soon": X}, deadline=0.05), streams.submit({"sooner": X}, deadline=0.02)
        admitted = streams.submit({"admitted": X}, timeout=SECONDS)  # there is room as soon as one has expired
        for future in (soon, sooner):
            assert isinstance(future.exception(SECONDS), DeadlineError)
        assert counts(streams) == {"submitted": 4, "expired": 2, "queued": 1, "running": 1}
        gate.let()
        assert admitted.result(SECONDS) == {}
        in_time = streams.submit({"in time": X}, deadline=SECONDS)
        assert in_time.result(SECONDS) == {}
    assert gate.order == ["first", "admitted", "in time"]


def test_deadlines_of_requests_that_run(gate: Gate) -> None:
    """The run is asked to stop. Its result, if it has one, comes too late. The arrays are in use until then, so the future is not done before."""
    with streams_of(gate) as streams:
        late = streams.submit({"late": X}, deadline=0.02)
        assert gate.stopped.wait(SECONDS)
        assert not late.done()
        gate.let(1)
        with pytest.raises(DeadlineError, match=r"the deadline of 0\.02 s passed while the request ran"):
            late.result(SECONDS)
        gate.let(1)
        assert streams.submit({"next": X}).result(SECONDS) == {}
        assert not gate.stopped.is_set()
    assert counts(streams) == {"submitted": 2, "expired": 1, "completed": 1}


def test_cancellation(gate: Gate) -> None:
    with streams_of(gate) as streams:
        running = begun(streams, gate)
        waiting, last = streams.submit({"waiting": X}, deadline=SECONDS), streams.submit({"last": X})
        assert waiting.cancel()
        assert waiting.cancel()
        assert waiting.cancelled()
        assert counts(streams) == {"submitted": 3, "cancelled": 1, "queued": 1, "running": 1}
        assert not running.cancel()  # it has begun, but is asked to end
        assert gate.stopped.is_set()
        gate.error = RuntimeError("it was stopped")
        gate.let(1)
        with pytest.raises(CancelledError):
            running.result(SECONDS)
        assert gate.begun.acquire(timeout=SECONDS)
        assert not last.cancel()  # this one runs to its end all the same
        gate.error = None
        gate.let(1)
        assert last.result(SECONDS) == {}
        assert not last.cancel()
    assert gate.order == ["first", "last"]
    assert counts(streams) == {"submitted": 3, "cancelled": 2, "completed": 1}


def test_a_stream_may_take_a_request_that_was_just_cancelled(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the two steps of `cancel`, or when its deadline passes there."""
    with streams_of(gate) as streams:
        begun(streams, gate)
        monkeypatch.setattr(type(streams._queue), "withdraw", lambda queue, request: None)
        taken, late = streams.submit({"taken": X}), streams.submit({"late": X}, deadline=0.02)
        assert taken.cancel()
        assert late.cancel()
        ends = time.monotonic() + SECONDS
        while streams.statistics.cancelled < 1:
            assert time.monotonic() < ends
            time.sleep(0.001)
        assert counts(streams) == {"submitted": 3, "cancelled": 1, "queued": 1, "running": 1}
        gate.let()
        assert streams.submit({"last": X}).result(SECONDS) == {}
        assert counts(streams) == {"submitted": 4, "cancelled": 2, "completed": 2}
    assert gate.order == ["first", "last"]


def test_exceptions_of_runs_and_of_callbacks_end_no_stream(gate: Gate) -> None:
    with streams_of(gate) as streams:
        for error in (ValueError("a"), KeyboardInterrupt(), SystemExit(3)):
            gate.error = error
            request = begun(streams, gate)
            request.add_done_callback(lambda _: 1 / 0)
            gate.let(1)
            assert request.exception(SECONDS) is error
        gate.error = None
        gate.let(1)
        assert streams.submit({"after": X}).result(SECONDS) == {}
    assert counts(streams) == {"submitted": 4, "failed": 3, "completed": 1}


def test_a_callback_cannot_wait_for_its_own_stream(gate: Gate) -> None:
    """It runs in the stream's thread, which would wait for itself for ever."""
    with streams_of(gate, queue=1) as streams:
        request, refused = begun(streams, gate), threading.Event()

        def submit(_: object) -> None:
            try:
                streams.submit({"from the callback": X})
            except QueueFullError:
                refused.set()
            streams.close()  # nor for its end

        request.add_done_callback(submit)
        last = streams.submit({"last": X})
        gate.let()
        assert refused.wait(SECONDS)
        assert last.result(SECONDS) == {}


def test_the_end_runs_what_waits(gate: Gate) -> None:
    streams = streams_of(gate, queue=2)
    first = begun(streams, gate)
    waiting = [streams.submit({f"{i}": X}) for i in range(2)]
    refused = []

    def submit() -> None:
        with pytest.raises(InputError, match="submit: expected open streams, got streams that were closed"):
            streams.submit({"blocked": X})
        refused.append(1)

    blocked = threading.Thread(target=submit)
    blocked.start()
    blocked_callers(streams, 1)
    closing = threading.Thread(target=streams.close)
    closing.start()
    blocked.join(SECONDS)
    assert refused
    gate.let()
    closing.join(SECONDS)
    assert [future.result(0) for future in (first, *waiting)] == [{}] * 3
    with pytest.raises(InputError, match="closed"):
        streams.submit({"late": X})
    streams.close()
    assert counts(streams) == {"submitted": 3, "completed": 3}
    assert not any(thread.is_alive() for thread in streams._threads)


def test_the_end_cancels_what_waits(gate: Gate) -> None:
    streams = streams_of(gate)
    first, waiting = begun(streams, gate), [streams.submit({f"{i}": X}) for i in range(2)]
    closing = threading.Thread(target=streams.close, kwargs={"cancel_pending": True})
    closing.start()
    for future in waiting:
        with pytest.raises(CancelledError):
            future.result(SECONDS)
    gate.let(1)
    closing.join(SECONDS)
    assert first.result(0) == {}
    assert counts(streams) == {"submitted": 3, "completed": 1, "cancelled": 2}


def test_streams_that_nobody_refers_to_end_when_their_requests_have(gate: Gate) -> None:
    streams = streams_of(gate)
    first, waiting = begun(streams, gate), streams.submit({"waiting": X})
    threads, kept = streams._threads, weakref.ref(streams)
    del streams
    gc.collect()
    assert kept() is None
    gate.let()
    assert [first.result(SECONDS), waiting.result(SECONDS)] == [{}, {}]
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive()
    assert gate.closed == 1


def test_an_idle_stream_keeps_no_arrays(gate: Gate) -> None:
    with streams_of(gate) as streams:
        x, y = np.ones(3), np.ones(3)
        kept = weakref.ref(x), weakref.ref(y)
        gate.result, results = lambda: {"y": results.pop()}, [y]
        future = streams.submit({"x": x}, deadline=SECONDS)
        gate.let(1)
        assert future.result(SECONDS)["y"] is y
        del x, y, future
        gate.let(1)
        gate.result = dict
        streams.submit({"z": X}).result(SECONDS)  # the stream has put the last request aside
        assert [reference() for reference in kept] == [None, None]


def test_callers_of_a_model_with_a_state_keep_their_stream() -> None:
    gates = Gate(), Gate()
    with streams_of(*gates, pinned=True) as streams:
        for gate in gates:
            gate.let()
        for caller in "abab":
            streams.submit({caller: X}, caller=caller).result(SECONDS)
        assert sorted(gate.order for gate in gates) == [["a", "a"], ["b", "b"]]
        with pytest.raises(InputError, match=r"expected at most 2 callers, since each stream keeps the state of one .* got another one, 'c'"):
            streams.submit({"c": X}, caller="c")
        of_a = next(gate for gate in gates if "a" in gate.order)
        streams.release("nobody")
        streams.release("a")
        assert sorted(gate.resets for gate in gates) == [0, 1]
        streams.submit({"c": X}, caller="c").result(SECONDS)
        assert of_a.order == ["a", "a", "c"]
        of_a.goes = threading.Semaphore(0)
        last = streams.submit({"c": X}, caller="c")
        with pytest.raises(InputError, match="release: expected a caller all of whose requests have ended, got 'c'"):
            streams.release("c")
        of_a.let()
        last.result(SECONDS)


def test_asyncio_waits_for_a_request_and_withdraws_it(gate: Gate) -> None:
    async def run() -> tuple[Results, bool]:
        running = asyncio.wrap_future(streams.submit({"first": X}))
        waiting = streams.submit({"waiting": X})
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.wrap_future(waiting), 0.01)
        gate.let()
        return await running, waiting.cancelled()

    with streams_of(gate) as streams:
        assert asyncio.run(run()) == ({}, True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"deadline": -1}, "deadline: expected a number of seconds from 0, or None, got -1"),
        ({"deadline": math.nan}, "deadline: expected a number of seconds"),
        ({"timeout": "1"}, "timeout: expected a number of seconds from 0, or None, got '1'"),
        ({"block": 1}, "block: expected True or False, got 1"),
        ({"caller": []}, r"caller: expected a label that can be a key of a dict, got \[\]"),
    ],
)
def test_arguments(gate: Gate, given: dict[str, object], message: str) -> None:
    with streams_of(gate) as streams:
        with pytest.raises(InputError, match=message):
            streams.submit({"x": X}, **given)  # type: ignore[arg-type]
        assert counts(streams) == {}


def test_each_request_ends_once_whatever_comes_together(gate: Gate) -> None:
    """Cancellation, deadlines and the end of runs at the same moment: each future has one end, and the numbers fit."""
    ends: list[Request] = []
    gate.let(10_000)
    with streams_of(gate, Gate(), queue=8) as streams:
        streams._runners[1].goes = gate.goes  # type: ignore[attr-defined]
        made: list[list[Request]] = [[] for _ in range(4)]

        def call(number: int) -> None:
            random = np.random.default_rng(number)
            for i in range(100):
                request = streams.submit({"x": X}, caller=number, deadline=(None, 0.0, 1e-4, SECONDS)[i % 4])
                request.add_done_callback(ends.append)
                made[number].append(request)
                if random.random() < 0.5:
                    made[number][random.integers(len(made[number]))].cancel()

        together(*(lambda number=number: call(number) for number in range(4)))  # type: ignore[misc]
    every = [request for requests in made for request in requests]
    assert all(request.done() for request in every)
    assert sorted(map(id, ends)) == sorted(map(id, every))
    found = counts(streams)
    cancelled = sum(request.cancelled() for request in every)
    expired = sum(isinstance(request.exception(), DeadlineError) for request in every if not request.cancelled())
    assert (found["submitted"], found.get("cancelled", 0), found["expired"]) == (400, cancelled, expired)
    assert found["completed"] == 400 - cancelled - expired
