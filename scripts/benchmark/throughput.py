"""Throughput: callers that each wait for an answer before their next request, and the ways in which engines share the cores out among them."""

import gc
import queue
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from benchmark.jobs import Contestant, Failure, Feed, Turn

__all__ = ["Done", "closed_loop", "sharing"]

Done = Callable[[BaseException | None], None]
"""A function to call at the end of a request, in any thread, with its error."""
LONGEST = 300.0
"""Seconds after which a request counts as lost."""

SPLIT, WHOLE = "1 thread each", "1 stream"
"""The labels of as many streams as cores, of one thread each, and of one stream with a thread for each core."""


def sharing(plain: Sequence[Contestant]) -> list[Contestant]:
    """The contestants for some engines: Stepwell as it chooses and in both ways, ONNX Runtime in both ways, OpenVINO with its hint THROUGHPUT."""
    found = []
    for contestant in plain:
        chooses = contestant.engine != "onnxruntime"
        found += [replace(contestant, sharing="auto")] if chooses else []
        if contestant.engine != "openvino" and not contestant.bundled:
            found += [replace(contestant, sharing="split", variant=SPLIT), replace(contestant, sharing="whole", variant=WHOLE)]
    return found


def closed_loop(
    start: Callable[[Feed, Done], None], feeds: Sequence[Feed], callers: int, warm_up: int, warm_seconds: float, requests: int
) -> Turn:
    """Have `callers` callers send requests, each the next one when the last one is answered, and time that many `requests`.

    `start` begins a request, and has the function called at its end; it may wait until there is room for the request. All callers are busy from the
    beginning to the end of the timed part; at least `warm_up` requests and `warm_seconds` go before it. Raises what a request raised, or Failure.
    """
    ended: queue.SimpleQueue[tuple[int, float, BaseException | None]] = queue.SimpleQueue()
    clock = time.perf_counter
    latencies: list[float] = []

    def begin(caller: int, number: int) -> None:
        start(feeds[number % len(feeds)], lambda error: ended.put((caller, clock(), error)))

    def end() -> tuple[int, float]:
        """The caller whose request ended next, and the time."""
        try:
            caller, at, error = ended.get(timeout=LONGEST)
        except queue.Empty:
            raise Failure(f"a request had no answer within {LONGEST:g} s") from None
        if error is not None:
            raise error
        return caller, at

    gc.collect()
    gc.disable()
    try:
        cpu, first = time.process_time(), clock()
        begun = [clock()] * callers
        for caller in range(callers):
            begin(caller, caller)
        number, done, since, last = callers, 0, None, first
        while len(latencies) < requests:
            caller, last = end()
            done += 1
            if since is not None:
                latencies.append(last - begun[caller])
            elif done >= warm_up and last - first >= warm_seconds:
                since = last
            begun[caller] = last
            begin(caller, number)
            number += 1
        assert since is not None
        used = time.process_time() - cpu
        for _ in range(callers):
            end()
        return Turn([(last - since) / requests], used, latencies)
    finally:
        gc.enable()
