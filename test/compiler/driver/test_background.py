"""specialise="auto": calls are answered by the program for all sizes until code for sizes that come often is there, whatever happens meanwhile."""

import copy
import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from command_server import started
from interrupted import interrupted
from onnx import TensorProto, helper, numpy_helper

import stepwell
from stepwell.dialects.support.errors import InputError
from stepwell.driver import background
from stepwell.driver.combinations import AFTER, REMEMBERED
from stepwell.driver.dynamic import DynamicModel

PATH = [str(Path(__file__).parent), *sys.path]  # for programs that import this file
PATIENCE = 120.0  # seconds that code in the background may take on a busy machine


def network(seed: int = 0, *nodes: onnx.NodeProto) -> onnx.ModelProto:
    """`max(x @ w, 0) @ v` for any number of rows."""
    rng = np.random.default_rng(seed)
    weights = {"w": rng.standard_normal((24, 16), np.float32), "v": rng.standard_normal((16, 8), np.float32)}
    made = [
        helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["r"]), helper.make_node("MatMul", ["r", "v"], ["y"]),
    ]  # fmt: skip
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [*made, *nodes], "often", [value("x", TensorProto.FLOAT, ["n", 24])], [value("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def rows(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, n]).standard_normal((n, 24), np.float32)


def right(x: np.ndarray, seed: int = 0) -> np.ndarray:
    w, v = (numpy_helper.to_array(t).astype(np.float64) for t in network(seed).graph.initializer)
    return np.asarray(np.maximum(x.astype(np.float64) @ w, 0) @ v)


def check(model: DynamicModel, n: int, seed: int = 0) -> None:
    x = rows(n, seed)
    np.testing.assert_allclose(model(x)[0], right(x, seed), rtol=1e-4, atol=1e-4)


def auto(source: Any = None, **options: Any) -> DynamicModel:
    model = stepwell.compile(network() if source is None else source, threads=1, **options)
    assert isinstance(model, DynamicModel)
    return model


def states(model: DynamicModel) -> dict[int, str]:
    return {made.shapes[0][0]: made.state for made in model.specialisations}


@pytest.mark.parametrize("cache", [True, False])
def test_sizes_that_come_often_get_code_of_their_own(cache_folder: Path, cache: bool) -> None:
    model = auto(cache=cache)
    assert model.general
    assert not model.why_not_general
    for n in (5, 9, 5):
        check(model, n)
    assert states(model) == {5: "general", 9: "general"}
    check(model, 5)  # the third one
    assert AFTER == 3
    assert states(model)[5] in ("compiling", "specialised")
    for n in (5, 7, 9):  # calls go on
        check(model, n)
    assert model.settle(PATIENCE)
    assert states(model)[5] == "specialised"
    assert states(model)[7] == "general"
    assert "tensor<5x8xf32>" in model.specialise({"x": (5, 24)}).ir("graph-opt")
    for n in (5, 7, 5):
        check(model, n)


def test_never_and_always() -> None:
    model = auto(specialise="never")
    for _ in range(2 * AFTER):
        check(model, 5)
    assert states(model) == {5: "general"}
    assert model.settle(0)
    model = auto(specialise="always")
    check(model, 5)
    assert states(model) == {5: "specialised"}
    assert not model.general


def test_the_program_is_told_of_before_it_runs() -> None:
    model = auto(specialise="never")
    assert 'tensor<?x8xf32, "n">' in model.ir("graph-opt")
    assert model.kernels > 0
    assert list(model.timings)
    with pytest.raises(InputError, match=r"not known before a run, as the inputs have free dimensions \('x' float32\[nx24\]\)"):
        _ = model.memory
    with pytest.raises(InputError, match="unknown level 'affin'"):
        model.ir("affin")
    check(model, 5)
    assert model.memory.weights_bytes > 0
    with pytest.raises(InputError, match="nothing is compiled yet"):
        auto(specialise="always").ir("graph-opt")


def test_one_that_was_asked_for_is_there_at_once() -> None:
    model = auto()
    special = model.specialise({"x": (6, 24)})
    assert special.inputs[0].shape == (6, 24)
    assert states(model) == {6: "specialised"}
    check(model, 6)


def test_threads_during_the_swap() -> None:
    model, wrong, swapped = auto(), [], threading.Event()

    def work(number: int) -> None:
        try:
            end = time.monotonic() + PATIENCE
            while not swapped.is_set() and time.monotonic() < end:
                for n in (4, 11, 3 + number):
                    check(model, n)
            check(model, 4)
        except BaseException as error:  # to be raised where pytest sees it
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + PATIENCE
    while states(model).get(11) != "specialised" and time.monotonic() < end and not wrong:
        time.sleep(0.01)
    swapped.set()
    for thread in threads:
        thread.join()
    if wrong:
        raise wrong[0]
    assert states(model)[11] == "specialised"


def test_a_bounded_number_is_kept() -> None:
    model = auto(cache=False)
    model.capacity = 2
    for n in range(1, REMEMBERED + 20):
        check(model, n)
    assert len(model.specialisations) == REMEMBERED
    for n in (3, 4, 5):
        model.specialise({"x": (n, 24)})
    assert [n for n, state in states(model).items() if state == "specialised"] == [4, 5]
    for _ in range(2 * AFTER - 1):
        check(model, 3)  # by the general program again
    assert states(model)[3] == "general"
    check(model, 3)  # twice as often as the first time
    assert states(model)[3] in ("compiling", "specialised")
    assert model.settle(PATIENCE)
    assert states(model)[3] == "specialised"


def test_those_that_come_again_are_kept() -> None:
    """Which have gone is seen by the order in which the others are listed."""
    model = auto(specialise="never")
    for n in (5, 7, 9, 5, 7):
        check(model, n)
    assert list(states(model)) == [9, 5, 7]
    own = auto(specialise="always")
    for n in (5, 7, 5):
        check(own, n)
    assert list(states(own)) == [7, 5]


def test_processes_share_what_was_compiled(cache_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "net.onnx"
    onnx.save(network(), file)
    program = f"""
import sys; sys.path[:0] = {PATH!r}
from test_background import *
model = auto({str(file)!r})
for _ in range(AFTER):
    check(model, 5)
assert model.settle({PATIENCE})
assert states(model) == {{5: "specialised"}}, model.specialisations
print(list(model.timings))
"""
    command = started([sys.executable, "-c", program])
    said = [subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout for _ in range(2)]
    assert said == ["['cache']\n"] * 2  # the process in the background compiled it
    levels: list[str] = []
    stepwell.compile(file, shapes={"x": (5, 24)}, specialise="always", threads=1, on_level=lambda level, seconds: levels.append(level))
    assert levels == ["cache"]


def test_a_failure_is_kept_and_calls_go_on(monkeypatch: pytest.MonkeyPatch, cache_folder: Path) -> None:
    model = auto()
    monkeypatch.setattr(background.CompileRequest, "__reduce__", lambda self: (os._exit, (3,)))  # what reads the request ends
    for _ in range(AFTER + 2):
        check(model, 5)
    assert model.settle(PATIENCE)
    (made,) = model.specialisations
    assert made.state == "failed"
    assert isinstance(made.error, stepwell.CodegenError)
    assert "ended with status 3" in str(made.error)
    for _ in range(2 * AFTER):
        check(model, 5)
    assert states(model) == {5: "failed"}  # it is not tried again
    monkeypatch.undo()
    for _ in range(AFTER):
        check(model, 8)
    assert model.settle(PATIENCE)
    assert states(model)[8] == "specialised"


def test_a_file_that_changed_is_not_taken(tmp_path: Path) -> None:
    file = tmp_path / "net.onnx"
    onnx.save(network(), file)
    model = auto(file)
    onnx.save(network(1), file)
    os.utime(file, ns=(1, 1))
    for _ in range(AFTER + 1):
        check(model, 5)
    assert model.settle(PATIENCE)
    (made,) = model.specialisations
    assert made.state == "failed"
    assert "has changed since the model was compiled" in str(made.error)
    check(model, 5)


def test_an_exception_at_any_moment_leaves_no_job_that_is_waited_for() -> None:
    """As a handler of a signal raises it in the call that asks for code."""
    whole, x, models = auto(), rows(5), []
    made = whole.specialise({"x": x.shape})

    def at_once(shapes: Any, values: Any, done: Any, failed: Any) -> background.Job:
        return background.Job(None, lambda reached: done(made), failed)

    def prepare() -> None:
        models.append(copy.copy(whole))
        models[-1]._background = at_once
        models[-1]._models.clear()
        for _ in range(AFTER - 1):
            check(models[-1], 5)

    for moment in interrupted(lambda: models[-1](x), prepare):
        assert models[-1].settle(PATIENCE), moment
        for _ in range(2 * AFTER):
            check(models[-1], 5)
        assert models[-1].settle(PATIENCE), moment
        assert states(models[-1]) == {5: "specialised"}


def test_nothing_outlives_the_model() -> None:
    model = auto(network(7))
    for _ in range(AFTER):
        check(model, 5, 7)
    gone = weakref.ref(model)
    jobs = list(model._jobs.values())
    del model
    gc.collect()
    assert gone() is None
    assert jobs
    assert all(job.wait(PATIENCE) for job in jobs)


def test_a_forked_child_makes_its_own() -> None:
    program = f"""
import os, sys; sys.path[:0] = {PATH!r}
from test_background import *
model = auto()
for _ in range(AFTER):
    check(model, 5)  # the background is at work now
child = os.fork()
for n in (5, 6):
    for _ in range(AFTER):
        check(model, n)
ready = model.settle({PATIENCE}) and states(model) == {{5: "specialised", 6: "specialised"}}
print("child" if child == 0 else "parent", ready, flush=True)
if child == 0:
    sys.exit(0)
print(os.waitpid(child, 0)[1])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert (done.returncode, sorted(done.stdout.split("\n"))) == (0, ["", "0", "child True", "parent True"]), done.stdout + done.stderr


@pytest.mark.parametrize("cache", [True, False])
def test_a_program_that_ends_meanwhile_ends_well(cache: bool) -> None:
    program = f"""
import sys; sys.path[:0] = {PATH!r}
from test_background import *
model = auto(network(11), cache={cache})
for _ in range(AFTER):
    check(model, 5, 11)
print("done")
"""
    begin = time.monotonic()
    command = [sys.executable, "-c", program]
    done = subprocess.run(started(command) if cache else command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    assert time.monotonic() - begin < 60


def test_a_model_without_such_a_program_says_why() -> None:
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"])]  # of a free number of channels
    value = helper.make_tensor_value_info
    inputs = [value("x", TensorProto.FLOAT, [1, "c", 2, 2]), value("w", TensorProto.FLOAT, [1, "c", 1, 1])]
    graph = helper.make_graph(nodes, "open", inputs, [value("y", TensorProto.FLOAT, None)])
    for _ in range(2):  # the second time from the cache
        model = auto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9))
        assert not model.general
        assert "supported" in model.why_not_general
        x, w = np.arange(12, dtype=np.float32).reshape(1, 3, 2, 2), np.array([1, 2, 4], np.float32).reshape(1, 3, 1, 1)
        np.testing.assert_array_equal(model(x, w)[0], (x * w).sum(axis=1, keepdims=True))
