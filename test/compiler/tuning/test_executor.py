"""Requests in child processes: everything that can happen to one is its own result; no process and no file is left behind."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from processes import gone, run_script
from tuning_requests import Ends, Modules, Noisy, Parental, Square, Summed, Times, Unpicklable

from stepwell import plugin_files
from stepwell.database.records import State
from stepwell.dialects.support.errors import InputError, ResourceError
from stepwell.tuning.blobs import Blob, BlobStore
from stepwell.tuning.child import IDLE
from stepwell.tuning.device import Fault
from stepwell.tuning.executor import LocalExecutor, results
from stepwell.tuning.work_folders import WorkFolder


@pytest.fixture(scope="module")
def executor() -> Iterator[LocalExecutor]:
    made = LocalExecutor(2)
    yield made
    made.close()


def kinds(results: list[object]) -> list[object]:
    """The states of faults, and `True` for answers."""
    return [result.state if isinstance(result, Fault) else True for result in results]


def test_each_result_is_its_own(executor: LocalExecutor) -> None:
    ends = [Ends("typed"), Ends("untyped"), Ends("exit"), Ends("segv"), Ends("answer"), Unpicklable()]
    requests = [Square(0), *(one for i, end in enumerate(ends, start=1) for one in (end, Square(i)))]
    seen: dict[int, object] = {}
    results = executor.build(requests, 60.0, seen.__setitem__)
    assert seen == dict(enumerate(results))
    assert [result[0] for result in results[::2] if isinstance(result, tuple)] == [i**2 for i in range(len(ends) + 1)]
    typed, untyped, ended, died, answer, unsent = [result for result in results[1::2] if isinstance(result, Fault)]
    assert typed == Fault(State.FAILED, "SW009 the tile exceeds the registers")
    assert (untyped.state, ended.state, died.state, answer.state) == (State.CRASHED,) * 4
    assert "with status 1" in untyped.message
    assert untyped.message.endswith("ValueError: nobody expected it")
    assert ended.message == "the process ended with status 3, having said:\n  on the way"
    assert "by SIGSEGV, having said:\n  Fatal Python error: Segmentation fault" in died.message
    assert "string_at" in died.message
    assert "pickle" in answer.message
    assert unsent == Fault(State.FAILED, "the request cannot be sent to another process: TypeError: it is tied to this process")
    assert executor.build([], 1.0) == []


def test_processes_are_warm_and_replaced(executor: LocalExecutor) -> None:
    (first,), (second,) = executor.build([Square(2)], 60.0), executor.build([Square(2)], 60.0)
    assert first == second, "the same process answers again"
    assert kinds(executor.build([Ends("hang")] * 3, 0.5)) == [State.TIMED_OUT] * 3
    ((number, pid),) = executor.build([Square(2)], 60.0)
    assert number == 4
    assert pid != first[1]
    os.kill(pid, signal.SIGKILL)  # while it is idle
    assert gone(pid)
    ((number, another),) = executor.build([Square(3)], 60.0)
    assert number == 9
    executor._builders._idle[-1]._rests_since -= IDLE  # it ends by itself about now
    ((number, last),) = executor.build([Square(3)], 60.0)
    assert len({pid, another, last}) == 3


def test_time_in_the_queue_does_not_count() -> None:
    one = LocalExecutor(1)
    assert kinds(one.build([Square(0)], 60.0)) == [True]
    assert kinds(one.build([Square(i, 0.4) for i in range(8)], 3.0)) == [True] * 8
    one.close()


def test_output_does_not_get_between_the_answers(executor: LocalExecutor) -> None:
    results = executor.build([Noisy(50 << 20), Noisy(1), Ends("exit")], 60.0)
    assert results[:2] == [bytes(50 << 20), bytes(1)]
    assert results[2] == Fault(State.CRASHED, "the process ended with status 3, having said:\n  on the way")
    assert executor.run(Noisy(3), 60.0) == bytes(3)


def test_a_run_has_a_fresh_process_with_few_modules(executor: LocalExecutor) -> None:
    first, second = executor.run(Square(2), 60.0), executor.run(Square(2), 60.0)
    assert isinstance(first, tuple)
    assert isinstance(second, tuple)
    assert first[1] != second[1]
    assert gone(first[1])
    assert kinds([executor.run(Ends(how), 60.0) for how in ("typed", "segv")]) == [State.FAILED, State.CRASHED]
    assert kinds([executor.run(Ends("hang"), 0.5)]) == [State.TIMED_OUT]
    modules = executor.run(Modules(), 60.0)
    assert isinstance(modules, list)
    assert not {"torch_mlir", "onnx", "lightgbm", "distributed", "stepwell.plugin"} & set(modules)


def test_runs_of_several_executors_do_not_overlap() -> None:
    executors = [LocalExecutor(1) for _ in range(2)]
    with ThreadPoolExecutor(2) as threads:
        runs = [run for run in threads.map(lambda one: one.run(Times(0.2), 60.0), executors) if isinstance(run, tuple)]
    (_, end, *_), (start, *_) = sorted(runs)
    assert end <= start
    for one in executors:
        one.close()


def test_children_load_the_plugins_of_their_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "plug.py"
    file.write_text("class Plugged:\n    def answer(self):\n        return __name__\n")
    monkeypatch.setattr(plugin_files, "_loaded", dict(plugin_files._loaded))
    plugin_files.load_file(file)
    (name,) = [plugin.module for plugin in plugin_files.loaded() if "plug_" in plugin.module]
    local = LocalExecutor(1)
    request = sys.modules[name].Plugged()
    assert local.build([request], 60.0) == [name]
    assert local.run(request, 60.0) == name
    local.close()
    file.write_text("raise SystemError('broken now')")
    broken = LocalExecutor(1)
    (fault,) = broken.build([request], 60.0)
    broken.close()
    assert isinstance(fault, Fault)
    assert "broken now" in fault.message


def test_blobs_are_mapped_and_checked(executor: LocalExecutor, tmp_path: Path) -> None:
    data = np.arange(100_000, dtype=np.int32).reshape(100, 1000)
    blob = executor.store.put(data)
    assert executor.store.put(data.copy()) == executor.store.put(data.tobytes()) == blob
    expected = int(data.view(np.uint8).sum())
    for total, twice in (*executor.build([Summed(blob)] * 3, 60.0), executor.run(Summed(blob), 60.0)):
        assert total == expected
        assert np.array_equal(executor.store.array(twice), np.repeat(data.reshape(-1).view(np.uint8), 2))
    empty = executor.store.put(b"")
    assert executor.build([Summed(empty)], 60.0) == [(0, empty)]
    (fault,) = executor.build([Summed(Blob("00", 7))], 60.0)
    assert isinstance(fault, Fault)
    assert "expected 7 bytes of data" in fault.message
    other = BlobStore(tmp_path)
    other.receive(blob, data.tobytes())
    with pytest.raises(ResourceError, match="with that digest"):
        other.receive(blob, b"other")
    with pytest.raises(ResourceError, match="cannot be stored"):
        BlobStore(tmp_path / "nowhere").put(b"x")
    with pytest.raises(ResourceError, match="no store"):
        blob.array()


def test_folders_without_a_process_are_removed() -> None:
    one = WorkFolder()
    two = WorkFolder(one.session)
    one.close()
    assert two.path.is_dir()
    two.close()
    assert not two.path.exists()
    left = two.path.parent / "0123"
    left.mkdir()
    (left / "file").write_text("")
    left.with_suffix(".lock").write_text("")  # as after a kill
    WorkFolder().close()
    assert not left.exists()
    assert not left.with_suffix(".lock").exists()


def test_numbers_of_jobs() -> None:
    with pytest.raises(InputError, match="jobs: expected a number of processes from 1, got 0"):
        LocalExecutor(0)


HANGING = """
import os, signal, threading, time
from pathlib import Path
from tuning_requests import Parental
from stepwell.tuning.executor import LocalExecutor, results

here = Path.cwd()
executor = LocalExecutor(2)

def when_they_run():
    while len(list(here.glob("*.pids"))) < COUNT:
        time.sleep(0.01)
    print(*(file.read_text() for file in here.glob("*.pids")), flush=True)
    os.kill(os.getpid(), signal.NUMBER)

threading.Thread(target=when_they_run).start()
"""


def test_ctrl_c_ends_the_children_at_once(tmp_path: Path) -> None:
    for call, count in (("build([Parental(here)] * 3, 600.0)", 2), ("run(Parental(here), 600.0)", 1)):
        folder = tmp_path / str(count)
        folder.mkdir()
        script = HANGING.replace("COUNT", str(count)).replace("NUMBER", "SIGINT")
        script += f"""
try:
    executor.{call}
except KeyboardInterrupt:
    gone = [not os.path.exists(f"/proc/{{file.stem}}") for file in here.glob("*.pids")]
    print(gone, executor.build([], 1.0))
executor.close()
"""
        pids, end = run_script(script, folder).splitlines()
        assert end == f"{[True] * count} []"
        assert len(pids.split()) == 2 * count
        assert all(gone(int(pid)) for pid in pids.split())


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="elsewhere a process ends when Python gets to it")
def test_children_end_with_a_killed_parent(tmp_path: Path) -> None:
    script = HANGING.replace("COUNT", "2").replace("NUMBER", "SIGKILL") + "executor.build([Parental(here)] * 2, 600.0)"
    pids = [int(file) for file in run_script(script, tmp_path, status=-signal.SIGKILL).split()]
    children = [int(file.stem) for file in tmp_path.glob("*.pids")]
    assert set(children) < set(pids)
    assert all(gone(pid) for pid in children)
    for pid in set(pids) - set(children):
        os.kill(pid, signal.SIGKILL)  # a process of the request's own, which nobody can end any more


def test_another_thread_can_kill_the_processes_at_work(tmp_path: Path) -> None:
    executor = LocalExecutor(1)

    def kill() -> None:
        while not list(tmp_path.glob("*.pids")):
            time.sleep(0.01)
        executor.kill()

    threading.Thread(target=kill, daemon=True).start()
    (fault,) = executor.build([Parental(tmp_path)], 60.0)
    (stopped,) = results([Square(1)], lambda packed, report: executor.answer(packed, 60.0, report, is_stopped=lambda: True), None)
    executor.close()
    assert isinstance(stopped, Fault)
    assert isinstance(fault, Fault)
    assert "by SIGKILL" in fault.message
