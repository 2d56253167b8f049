"""Streams of compiled models: equal bits, a workspace and a team of threads for each, runs that end when they are asked to."""

import threading
import time
from concurrent.futures import CancelledError
from pathlib import Path

import bundle_models as models
import numpy as np
import pytest
from bundle_models import plain_cases, with_weights
from processes import run_script
from together import together

import stepwell
from stepwell.dialects.support.errors import DeadlineError, IndexRangeError, InputError, ResourceError
from stepwell.runtime.openmp import openmp
from stepwell.runtime.serving.requests import Request
from stepwell.runtime.serving.streams import ContextRunner
from stepwell.runtime.workspaces import SMALL

SECONDS = 30.0
CASES = {case.name: case for case in plain_cases()}
WIDE = models.HEAD + """wide (float[n, 8] x) => (float[n, 8] y) {
  a = MatMul(x, out)
  b = Tanh(a)
  y = MatMul(b, back)
}"""
"""A model that needs a workspace of 1024 floats for each row."""


@pytest.fixture(scope="module")
def mlp() -> stepwell.CompiledModel:
    made = stepwell.compile(CASES["mlp"].model, threads=1)
    assert isinstance(made, stepwell.CompiledModel)
    return made


@pytest.fixture(scope="module")
def endless() -> stepwell.CompiledModel:
    made = stepwell.compile(with_weights(models.ENDLESS), threads=1)
    assert isinstance(made, stepwell.CompiledModel)
    return made


def for_ever(rounds: int = 1 << 39) -> dict[str, np.ndarray]:
    return {"x": np.ones(8, np.float32), "rounds": np.array(rounds)}


def same(got: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> bool:
    return list(got) == list(expected) and all(got[name].tobytes() == array.tobytes() for name, array in expected.items())


def test_eight_callers_share_three_streams(mlp: stepwell.CompiledModel) -> None:
    """With cancellations and deadlines: every result has the bits of a run alone, and every future ends once."""
    feeds = [{"x": models.floats(3, models.WIDTH)} for _ in range(8)]
    expected = [mlp.run(feed) for feed in feeds]
    ends: list[Request] = []
    results = [0] * 8
    with mlp.streams(3, threads=1, queue=5) as streams:

        def call(number: int) -> None:
            random = np.random.default_rng(number)
            for _ in range(50):
                kind = random.integers(4)
                request = streams.submit(feeds[number], deadline=[None, SECONDS, 2e-4, None][kind])
                request.add_done_callback(ends.append)  # type: ignore[arg-type]
                is_cancelled = kind == 3 and request.cancel()
                assert is_cancelled == request.cancelled()
                if not is_cancelled:
                    error = request.exception(SECONDS)
                    assert error is None or (isinstance(error, DeadlineError) and kind == 2)
                    assert error is not None or same(request.result(), expected[number])
                    results[number] += error is None

        together(*(lambda number=number: call(number) for number in range(8)))  # type: ignore[misc]
        statistics = streams.statistics
    assert len(set(map(id, ends))) == len(ends) == statistics.submitted == 400
    assert (statistics.queued, statistics.running, statistics.failed, statistics.completed) == (0, 0, 0, sum(results))
    assert statistics.completed + statistics.cancelled + statistics.expired == 400
    assert min(results) >= 20


def test_a_request_is_what_a_run_is(mlp: stepwell.CompiledModel) -> None:
    """Outputs to write to, errors in arrays, and indices out of range."""
    feed = CASES["mlp"].feeds[0]
    expected, y = mlp.run(feed), np.empty((3, models.WIDTH), np.float32)
    index = stepwell.compile(CASES["index"].model, threads=1)
    with mlp.streams(1) as streams, index.streams(1) as indices:
        assert streams.submit(feed, out={"y": y}).result(SECONDS)["y"] is y
        assert y.tobytes() == expected["y"].tobytes()
        wrong = streams.submit({"x": y[:2]})
        with pytest.raises(InputError, match=r"input 'x': expected float32\[3x8\], got shape 2x8"):
            wrong.result(SECONDS)
        outside = indices.submit({"x": models.floats(5, 6), "at": np.array([5])})
        with pytest.raises(IndexRangeError, match="index 5 is out of range"):
            outside.result(SECONDS)
        assert same(streams.submit(feed).result(SECONDS), expected)


def test_every_kind_of_model_has_streams() -> None:
    for name in ("valued", "late", "loop"):
        case = CASES[name]
        model = stepwell.compile(case.model, threads=1, specialise="never")
        with model.streams(2) as streams:
            futures = [streams.submit(feed, caller=i) for i, feed in enumerate((*case.feeds, *case.feeds))]
            assert all(same(future.result(SECONDS), model.run(feed)) for future, feed in zip(futures, (*case.feeds, *case.feeds), strict=True)), name


def test_a_stream_runs_while_another_one_runs_code(endless: stepwell.CompiledModel) -> None:
    """Native code does not hold the interpreter's lock. A run in a loop ends when it is cancelled, or late, and its stream goes on."""
    begun = time.monotonic()
    with endless.streams(2) as streams:
        long, late = streams.submit(for_ever()), streams.submit(for_ever(), deadline=0.1)
        assert isinstance(late.exception(SECONDS), DeadlineError)
        assert [float(streams.submit(for_ever(i)).result(SECONDS)["y"].sum()) for i in range(3)] == [8.0] * 3
        assert long.running()
        assert not long.cancel()
        assert isinstance(long.exception(SECONDS), CancelledError)
        assert not long.cancelled()
        assert streams.submit(for_ever(1)).result(SECONDS)["y"].shape == (8,)
        statistics = streams.statistics
    assert (statistics.completed, statistics.cancelled, statistics.expired) == (4, 1, 1)
    assert time.monotonic() - begun < SECONDS


def test_a_stream_has_one_workspace_for_all_versions_of_a_model() -> None:
    """However many shapes it runs, compiled specially or not, and however many callers there are."""
    weights = {"out": np.ones((8, 1024), np.float32), "back": np.ones((1024, 8), np.float32)}
    model = stepwell.compile(with_weights(WIDE, **weights), threads=1)
    rows = (40, 100, 256)
    own = [model.specialise({"x": (n, 8)}) for n in rows[:2]]
    most = max(made.memory.workspace_bytes for made in own)
    assert most > SMALL
    feeds = [{"x": np.ones((n, 8), np.float32)} for n in rows]
    with model.streams(2) as streams:
        futures = [streams.submit(feeds[i % 3], caller=i) for i in range(60)]
        assert len({float(value) for future in futures for value in np.unique(future.result(SECONDS)["y"])}) == 1
        largest = 256 * 1024 * 4
        assert largest <= streams.workspace_bytes <= 2 * 1.3 * largest
    assert streams.workspace_bytes == 0
    assert [len(made.executable.workspaces) for made in own] == [0, 0]
    model.run(feeds[0])
    assert [len(made.executable.workspaces) for made in own] == [1, 0]


def test_each_stream_has_its_number_of_threads() -> None:
    """Whatever the model's own number is, and without a trace in threads that call the model."""
    from stepwell.runtime.context import current

    runtime = openmp()
    assert runtime is not None
    seen: list[tuple[int, int]] = []
    contexts = []

    def run(inputs: object) -> dict[str, np.ndarray]:
        contexts.append(current.context)
        seen.append((threading.get_ident(), runtime.get_threads()))
        return {}

    class Model(stepwell.CompiledModel):
        def __init__(self) -> None:
            self.run = run  # type: ignore[assignment]

    before = runtime.get_threads()
    with Model().streams(2, threads=3) as streams:
        for i in range(8):
            streams.submit({}, caller=i).result(SECONDS)
    assert {threads for _, threads in seen} == {3}
    assert threading.get_ident() not in {thread for thread, _ in seen}
    assert (current.context, runtime.get_threads()) == (None, before)
    assert len({id(context) for context in contexts}) <= 2


IDLE = """
import os, time
for name in ("OMP_WAIT_POLICY", "KMP_BLOCKTIME"):
    os.environ.pop(name, None)
import numpy as np, stepwell
from bundle_models import with_weights

weights = {"out": np.ones((8, 1024), np.float32), "back": np.ones((1024, 8), np.float32)}
model = stepwell.compile(with_weights(open("model.txt").read(), **weights), shapes={"x": (2048, 8)}, threads=2)
x = {"x": np.ones((2048, 8), np.float32)}

def cpu_seconds_after(run):
    for _ in range(3):
        run()
    before = time.process_time()
    time.sleep(0.15)
    return time.process_time() - before

for count, threads in ((1, 2), (2, 4)):
    with model.streams(count, threads=threads) as streams:
        print(cpu_seconds_after(lambda: streams.submit(x).result()))
"""


def test_idle_threads_of_a_stream_leave_the_cores_to_others(tmp_path: Path) -> None:
    """OpenMP's threads would spin for 200 ms after a run, on a machine without other work."""
    (tmp_path / "model.txt").write_text(WIDE)
    assert max(map(float, run_script(IDLE, tmp_path).split())) < 0.02


def test_threads_of_closed_streams_are_used_again(mlp: stepwell.CompiledModel) -> None:
    def threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    seen = []
    for _ in range(12):
        with mlp.streams(2, threads=2) as streams:
            for future in [streams.submit(CASES["mlp"].feeds[0]) for _ in range(4)]:
                future.result(SECONDS)
        seen.append(threads())
    assert seen[-1] <= seen[2] + 2


def test_a_state_belongs_to_a_stream() -> None:
    case = models.cache_case()
    model = stepwell.compile(case.model, threads=1, specialise="never")
    alone = {caller: model.bind({"past": "present"}) for caller in "ab"}
    with model.bind({"past": "present"}).streams(2) as streams:
        for feed in case.feeds[:10]:
            for caller, other in alone.items():
                x = {"x": feed["x"] * np.float32(1 + (caller == "b"))}
                assert same(streams.submit(x, caller=caller).result(SECONDS), other.run(x))
        with pytest.raises(InputError, match="expected at most 2 callers"):
            streams.submit(case.feeds[0], caller="c")
        streams.release("a")
        alone["a"].reset()
        assert same(streams.submit(case.feeds[0], caller="c").result(SECONDS), alone["a"].run(case.feeds[0]))


def test_threads_that_the_system_does_not_start(mlp: stepwell.CompiledModel, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[threading.Thread] = []
    closed: list[ContextRunner] = []
    start, close = threading.Thread.start, ContextRunner.close

    def limited(thread: threading.Thread) -> None:
        if len(started) == 1:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    monkeypatch.setattr(ContextRunner, "close", lambda runner: (closed.append(runner), close(runner)))
    with pytest.raises(ResourceError, match="streams: the system starts no more threads: can't start new thread"):
        mlp.streams(3)
    assert not started[0].is_alive()
    assert len(set(map(id, closed))) == 3


EXIT = r"""
import os, sys
import numpy as np, stepwell
from bundle_models import plain_cases

mlp = {case.name: case for case in plain_cases()}["mlp"]
model = stepwell.compile(mlp.model)
kept, streams = model.streams(1), model.streams(2)
print("whole" if len(streams.submit(mlp.feeds[0]).result()) == 2 else "?", flush=True)
child = os.fork()
if child == 0:
    for call in (lambda: streams.submit(mlp.feeds[0]), lambda: streams.statistics):
        try:
            call()
        except stepwell.InputError as error:
            print("refused" if "which made them" in str(error) and "forked from it" in str(error) else error, flush=True)
    streams.close()
    print(len(model.run(mlp.feeds[0])), "outputs in the child", flush=True)
    sys.exit(5)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
for caller in range(40):
    for each in (kept, streams):
        each.submit(mlp.feeds[0], caller=caller).add_done_callback(lambda future: os.write(1, b"done\n" if len(future.result()) == 2 else b"?"))
del streams
"""


def test_nothing_is_lost_when_the_program_ends_and_a_fork_is_refused(tmp_path: Path) -> None:
    lines = run_script(EXIT, tmp_path).splitlines()
    assert lines[:5] == ["whole", "refused", "refused", "2 outputs in the child", "5"]
    assert lines[5:] == ["done"] * 80
