"""The benchmark of several callers: who is compared, that all callers are busy all the time, and what is shown. No test looks at a time."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import bench
import bundle_models as models
import numpy as np
import onnx
import pytest
from forked_engines import fork_engines

from benchmark.jobs import Contestant, Feed, Job
from benchmark.throughput import Done, closed_loop, sharing
from stepwell.dialects.target.cores import available_cores


def test_who_is_compared() -> None:
    engines = [Contestant("stepwell"), Contestant("onnxruntime"), Contestant("openvino"), Contestant("stepwell", variant="a bundle", bundled=True)]
    found = sharing(engines)
    assert [(contestant.label, contestant.sharing) for contestant in found] == [
        ("stepwell", "auto"), ("stepwell with 1 thread each", "split"), ("stepwell with 1 stream", "whole"),
        ("onnxruntime with 1 thread each", "split"), ("onnxruntime with 1 stream", "whole"), ("openvino", "auto"), ("stepwell with a bundle", "auto"),
    ]  # fmt: skip
    assert [contestant.is_ours for contestant in found] == [True, *[False] * 6]
    assert [Job(contestant, "", 4, spin=True).streams for contestant in found[1:5]] == [4, 1, 4, 1]


def test_all_callers_are_busy_and_each_has_one_request_at_a_time() -> None:
    feeds: list[Feed] = [{"x": np.full(1, i)} for i in range(3)]
    lock, going, most, seen = threading.Lock(), [0], [0], []

    def start(feed: Feed, done: Done) -> None:
        with lock:
            going[0] += 1
            most[0] = max(most[0], going[0])
            seen.append(int(feed["x"][0]))

        def run() -> None:
            with lock:
                going[0] -= 1
            done(None)

        pool.submit(run)

    with ThreadPoolExecutor(2) as pool:
        turn = closed_loop(start, feeds, 4, 5, 0.0, 40)
    assert len(turn.latencies) == 40
    assert len(turn.seconds) == 1
    assert all(seconds > 0 for seconds in (*turn.seconds, *turn.latencies))
    assert going == [0]
    assert most[0] <= 4
    assert len(seen) == 5 + 40 + 4
    assert seen[:6] == [0, 1, 2, 0, 1, 2]


def test_a_request_that_fails_is_the_failure_of_the_turn() -> None:
    with pytest.raises(ValueError, match="no"):
        closed_loop(lambda feed, done: done(ValueError("no")), [{}], 2, 1, 0.0, 10)


def test_throughput_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    fork_engines(monkeypatch)
    file, table = tmp_path / "mlp.onnx", tmp_path / "run.json"
    onnx.save(next(case.model for case in models.plain_cases() if case.name == "mlp"), file)
    quick = ["--rounds", "2", "--runs", "3", "--repeats", "0", "--pause", "0", "--warm-up", "1", "--json", str(table)]
    status = bench.main([str(file), "--throughput", "--callers", "3", "--engines", "stepwell,onnxruntime", *quick])
    shown = capsys.readouterr().out
    assert status == 0, shown
    cores = available_cores()
    assert f"{cores} core{'s' * (cores > 1)}, 3 callers: images a second (ms to the answer: median, 99th percentile)" in shown
    assert "mlp: stepwell " in shown
    cells = json.loads(table.read_text())["cells"]
    labels = ["stepwell", *(f"{engine} with {how}" for engine in ("stepwell", "onnxruntime") for how in ("1 thread each", "1 stream"))]
    assert [(cell["engine"], cell["threads"]) for cell in cells] == [(label, cores) for label in labels]
    for cell in cells:
        assert [len(turn) for turn in cell["rounds"]] == [1, 1]
        assert len(cell["latencies"]) == 2 * 3 * 3
        assert cell["error"] < 1e-5


@pytest.mark.parametrize("given", [["--throughput", "--operators"], ["--throughput", "--engines", "stepwell,mnn"], ["--callers", "2"]])
def test_what_does_not_go_together(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        bench.main(given)
    assert "--throughput" in capsys.readouterr().err
