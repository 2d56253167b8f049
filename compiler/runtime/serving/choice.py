"""Chooses how streams share the cores out: as many streams and threads as the caller says, or what a short measurement finds fastest."""

import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from stepwell.checks import is_whole, wrong
from stepwell.dialects.support.errors import InputError, shown
from stepwell.dialects.target.cores import MAX_THREADS, available_cores, thread_count
from stepwell.runtime.serving.requests import Request, Runner
from stepwell.runtime.serving.streams import Candidate, Choice, Streams
from stepwell.signature import TensorInfo

SECONDS = 0.9
"""The time for all measurements together, so that they take less than a second."""
LEAST_GAIN = 1.03
"""How much faster more streams must be than fewer, which need less memory and answer a single request sooner."""


class Served(Protocol):
    """A model that streams can run."""

    inputs: tuple[TensorInfo, ...]

    @property
    def keeps_state(self) -> bool:
        """Whether it keeps a state from run to run."""

    def stream_runner(self, threads: int, *, spins: bool) -> Runner:
        """The runner for one stream of so many threads. With `spins`, idle threads may keep their cores busy for a moment."""


def open_streams(
    model: Served, count: int | str, *, threads: int | None, queue: int, callers: int | None, example: Mapping[str, np.ndarray] | None
) -> Streams:
    """The streams of a model: see `InMemory.streams`."""
    if not is_whole(queue, 1):
        raise wrong("queue", "a whole number from 1", queue)
    if callers is not None and not is_whole(callers, 1):
        raise wrong("callers", "a whole number from 1, or None", callers)
    cores = available_cores()
    if isinstance(count, str):
        if count != "auto":
            raise wrong("streams", f"a whole number from 1 to {MAX_THREADS}, or 'auto'", count)
        if threads is not None:
            raise InputError(f"threads: expected None, since streams='auto' chooses them, got {shown(threads)}")
        choice = _chosen(model, cores, cores if callers is None else int(callers), example)
    else:
        if not (is_whole(count, 1) and count <= MAX_THREADS):
            raise wrong("streams", f"a whole number from 1 to {MAX_THREADS}, or 'auto'", count)
        each = max(cores // int(count), 1) if threads is None else thread_count(threads)
        if count * each > MAX_THREADS:
            raise InputError(f"threads: expected at most {MAX_THREADS} threads in all streams together, got {count} streams of {each}")
        shared = f"{cores} cores are shared out evenly" if threads is None else "both numbers were given"
        choice = Choice(int(count), each, (), f"{_named(int(count), each)}: {shared}.")
    return _opened(model, choice, int(queue))


def _opened(model: Served, choice: Choice, queue: int) -> Streams:
    """Streams as chosen. Idle threads only keep cores busy that no other stream needs."""
    runners: list[Runner] = []
    try:
        spins = choice.streams * choice.threads <= available_cores()
        runners += (model.stream_runner(choice.threads, spins=spins) for _ in range(choice.streams))
        return Streams(runners, choice, queue=queue, pinned=model.keeps_state)
    except BaseException:
        for runner in runners:
            runner.close()
        raise


def _chosen(model: Served, cores: int, callers: int, example: Mapping[str, np.ndarray] | None) -> Choice:
    """The fastest way to share out `cores` among as many callers, as far as that can be measured within a second."""
    if model.keeps_state:
        each = max(cores // callers, 1)
        return Choice(callers, each, (), f"{_named(callers, each)}: each of the {callers} callers needs a stream for its state.")
    ways = [Candidate(streams, cores // streams) for streams in _splits(cores) if streams <= callers]
    if len(ways) == 1:
        reason = "there is one core" if cores == 1 else "one caller has at most one request at a time"
        return Choice(ways[0].streams, ways[0].threads, tuple(ways), f"{_named(ways[0].streams, ways[0].threads)}: {reason}.")
    inputs = example_inputs(model.inputs) if example is None else example
    ends = [time.monotonic() + SECONDS * (i + 1) / len(ways) for i in range(len(ways))]
    measured: list[Candidate] = []
    for way, end in zip(ways, ends, strict=True):
        rate = _throughput(model, way, inputs, callers, end)
        if rate is None:
            best = ways[-1]
            seconds = f"{SECONDS:g} s are too short to measure {len(ways)} ways to share out {cores} cores"
            why = f"{_named(best.streams, best.threads)}: {seconds}, and streams that do not share their work wait for nobody."
            return Choice(best.streams, best.threads, (*measured, *ways[len(measured) :]), why)
        measured.append(Candidate(way.streams, way.threads, rate))
    return decided(measured, callers)


def decided(measured: Sequence[Candidate], callers: int) -> Choice:
    """The choice among measured candidates, in the order of their streams: more streams have to be faster by `LEAST_GAIN`."""
    best = measured[0]
    for other in measured[1:]:
        if (other.requests_per_second or 0) >= LEAST_GAIN * (best.requests_per_second or 0):
            best = other
    rates = ", ".join(f"{candidate} {candidate.requests_per_second:.3g}" for candidate in measured)
    fastest = max(candidate.requests_per_second or 0 for candidate in measured)
    is_fastest = best.requests_per_second == fastest
    reason = "it answers most requests a second" if is_fastest else f"more streams are faster by less than {LEAST_GAIN - 1:.0%}, and need more memory"
    many = f"{callers} caller{'s' if callers > 1 else ''}"
    why = f"{_named(best.streams, best.threads)}: {reason} ({many}; streams x threads: {rates})."
    return Choice(best.streams, best.threads, tuple(measured), why)


def _named(streams: int, threads: int) -> str:
    return f"{streams} stream{'s' if streams > 1 else ''} of {threads} thread{'s' if threads > 1 else ''}"


def _splits(cores: int) -> list[int]:
    """The numbers of streams that are compared: powers of two, and one for each core."""
    return sorted({*(1 << i for i in range(cores.bit_length())), cores})


def _throughput(model: Served, way: Candidate, inputs: Mapping[str, np.ndarray], callers: int, end: float) -> float | None:
    """Requests a second of `callers` that each wait for an answer before the next request; None if there is no time to measure until `end`.

    Raises like a run of the model.
    """
    with _opened(model, Choice(way.streams, way.threads, (), ""), callers) as streams:
        _round(streams, inputs, way.streams, callers)  # makes workspaces and threads
        first = time.monotonic()
        if first >= end:
            return None
        _round(streams, inputs, way.streams, callers)
        start = time.monotonic()
        # Whole rounds, so that no stream is idle at the end while others run their last request.
        rounds = int((end - start) / max(start - first, 1e-6))
        if rounds == 0:
            return way.streams / (start - first)
        _round(streams, inputs, rounds * way.streams, callers, end)
        done = streams.statistics.completed - 2 * way.streams
        return done / (time.monotonic() - start)


def _round(streams: Streams, inputs: Mapping[str, np.ndarray], requests: int, callers: int, end: float = math.inf) -> None:
    """Run that many requests, but begin none after `end`. Each of the callers submits its next request when the last one is answered."""
    pending: deque[Request] = deque()
    for i in range(requests):
        if time.monotonic() >= end:
            break
        if len(pending) == callers:
            pending.popleft().result()
        pending.append(streams.submit(inputs, caller=i % callers))
    for request in pending:
        request.result()


def example_inputs(infos: Sequence[TensorInfo]) -> dict[str, np.ndarray]:
    """Arrays for inputs: small random numbers for floats, zeros for other types.

    Raises InputError for inputs whose sizes are not known: then the caller has to give an example.
    """
    random = np.random.default_rng(0)
    made = {}
    for info in infos:
        if info.form or not info.is_static:
            raise InputError(f"example: expected arrays for all inputs, as in `run`, since input '{info.name}' {info} has no known size; got none")
        shape = [int(size) for size in info.shape if isinstance(size, int)]
        is_float = np.issubdtype(info.dtype, np.floating)
        made[info.name] = random.standard_normal(shape).astype(info.dtype) if is_float else np.zeros(shape, info.dtype)
    return made
