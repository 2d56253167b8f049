"""How streams share the cores out: what is compared, what decides, and what is said about it."""

import time
from collections.abc import Mapping

import bundle_models as models
import numpy as np
import pytest
from bundle_models import plain_cases, with_weights

import stepwell
from stepwell.dialects.support.errors import InputError
from stepwell.runtime.about import InMemory
from stepwell.runtime.serving import choice as module
from stepwell.runtime.serving.choice import decided, example_inputs
from stepwell.runtime.serving.streams import Candidate
from stepwell.signature import TensorInfo

CASES = {case.name: case for case in plain_cases()}


class Sleeper(InMemory):
    """A model whose runs take so many seconds with one thread, and that much less with several."""

    inputs = (TensorInfo("x", (2,), np.dtype(np.float32)),)

    def __init__(self, seconds: float, speedup: float = 1.0, *, state: bool = False) -> None:
        self._seconds, self._speedup, self.keeps_state = seconds, speedup, state

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        from stepwell.runtime.context import current

        assert current.context is not None
        time.sleep(self._seconds / (1 if current.context.threads == 1 else self._speedup))
        return {}


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "available_cores", lambda: 2)
    monkeypatch.setattr(module, "SECONDS", 0.2)


@pytest.mark.parametrize(("speedup", "expected"), [(1.0, (2, 1)), (8.0, (1, 2))])
def test_the_fastest_way_is_taken(speedup: float, expected: tuple[int, int]) -> None:
    begun = time.monotonic()
    with Sleeper(0.004, speedup).streams("auto", callers=4) as streams:
        assert time.monotonic() - begun < 1
        choice = streams.choice
        assert (choice.streams, choice.threads) == expected
        assert [str(candidate) for candidate in choice.candidates] == ["1x2", "2x1"]
        rates = [candidate.requests_per_second or 0 for candidate in choice.candidates]
        assert rates[expected[0] - 1] == max(rates)
        assert rates[1] <= 2.05 / 0.004
        name = "2 streams of 1 thread" if expected == (2, 1) else "1 stream of 2 threads"
        assert choice.why == f"{name}: it answers most requests a second (4 callers; streams x threads: 1x2 {rates[0]:.3g}, 2x1 {rates[1]:.3g})."
        assert len(streams._runners) == expected[0]


def test_what_cannot_be_measured_is_said() -> None:
    begun = time.monotonic()
    with Sleeper(0.15).streams("auto", callers=4) as streams:
        assert time.monotonic() - begun < 1
        assert (streams.choice.streams, streams.choice.threads) == (2, 1)
        assert streams.choice.why.startswith("2 streams of 1 thread: 0.2 s are too short to measure 2 ways to share out 2 cores")


def test_where_there_is_nothing_to_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    with Sleeper(0.0).streams("auto", callers=1) as streams:
        assert streams.choice.why == "1 stream of 2 threads: one caller has at most one request at a time."
    with Sleeper(0.0, state=True).streams("auto", callers=3) as streams:
        assert streams.choice.why == "3 streams of 1 thread: each of the 3 callers needs a stream for its state."
    monkeypatch.setattr(module, "available_cores", lambda: 1)
    with Sleeper(0.0).streams("auto", callers=3) as streams:
        assert streams.choice.why == "1 stream of 1 thread: there is one core."


def test_numbers_that_are_given() -> None:
    for given, threads in (((1, None), 2), ((2, None), 1), ((5, None), 1), ((2, 3), 3)):
        with Sleeper(0.0).streams(given[0], threads=given[1]) as streams:
            assert (streams.choice.streams, streams.choice.threads, len(streams._runners)) == (given[0], threads, given[0])
            assert ("shared out evenly" if given[1] is None else "both numbers were given") in streams.choice.why


def test_more_streams_have_to_be_faster() -> None:
    def taken(*rates: float) -> str:
        found = decided([Candidate(1 << i, 8 >> i, rate) for i, rate in enumerate(rates)], 8)
        return f"{found.streams} {found.why}"

    rates = "(8 callers; streams x threads: 1x8 100, 2x4 102)"
    assert taken(100, 102) == f"1 1 stream of 8 threads: more streams are faster by less than 3%, and need more memory {rates}."
    assert taken(100, 104).startswith("2 2 streams of 4 threads: it answers most")
    assert taken(100, 90, 104, 105).startswith("4 4 streams of 2 threads: more streams")
    assert taken(100, 90, 80, 50).startswith("1 1 stream of 8 threads: it answers most")


def test_what_is_compared() -> None:
    assert [module._splits(cores) for cores in (1, 2, 6, 16)] == [[1], [1, 2], [1, 2, 4, 6], [1, 2, 4, 8, 16]]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (((0,), {}), "streams: expected a whole number from 1 to 1024, or 'auto', got 0"),
        (((5000,), {}), "streams: expected a whole number from 1 to 1024"),
        ((("many",), {}), "streams: expected a whole number from 1 to 1024, or 'auto', got 'many'"),
        (((None,), {}), "streams: expected a whole number from 1 to 1024, or 'auto', got None"),
        (((2,), {"threads": 0}), "threads: expected a whole number from 1"),
        (((40,), {"threads": 40}), "threads: expected at most 1024 threads in all streams together, got 40 streams of 40"),
        (((2,), {"queue": 0}), "queue: expected a whole number from 1, got 0"),
        (((2,), {"callers": "8"}), "callers: expected a whole number from 1, or None, got '8'"),
        ((("auto",), {"threads": 2}), "threads: expected None, since streams='auto' chooses them, got 2"),
        ((("auto",), {"example": {"y": 1}}), "missing input 'x'"),
    ],
)
def test_arguments(given: tuple[tuple[object, ...], dict[str, object]], message: str) -> None:
    model = stepwell.compile(CASES["mlp"].model, threads=1)
    with pytest.raises(InputError, match=message):
        model.streams(*given[0], **given[1])  # type: ignore[arg-type]


def test_inputs_of_its_own() -> None:
    infos = [TensorInfo("a", (3,), np.dtype(np.float16)), TensorInfo("b", (), np.dtype(np.int64)), TensorInfo("c", (2,), np.dtype(bool))]
    made = example_inputs(infos)
    assert {name: (array.dtype, array.shape) for name, array in made.items()} == {info.name: (info.dtype, info.shape) for info in infos}
    assert made["a"].any()
    assert not made["b"].any()


def test_models_of_free_sizes_need_an_example() -> None:
    model = stepwell.compile(with_weights(models.FREE, w=models.WEIGHTS), threads=1, specialise="never")
    with pytest.raises(InputError, match=r"example: expected arrays for all inputs, as in `run`, since input 'x' .* has no known size; got none"):
        model.streams("auto", callers=2)
    with model.streams("auto", callers=2, example=CASES["free"].feeds[1]) as streams:
        assert [candidate.requests_per_second is not None for candidate in streams.choice.candidates] == [True, True]
