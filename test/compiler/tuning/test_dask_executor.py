"""Requests in dask pools: the results of child processes here, whatever happens to the pool's processes."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import doc_examples
import numpy as np
import pytest
from processes import gone
from tuned_lists import ListedSubject, PooledDevice, simulated
from tuning_requests import Ends, Parental, Summed, Times, Variable, Weighed

from stepwell.cli.common import Parser, UsageError
from stepwell.cli.pool_options import add_pool_options, executor_of
from stepwell.database.records import Provenance, Run, State
from stepwell.dialects.support.errors import InputError, ResourceError
from stepwell.tuning import dask_executor, dask_tasks
from stepwell.tuning.blobs import pack
from stepwell.tuning.children import Plugins
from stepwell.tuning.dask_executor import DaskExecutor, embedded_pool
from stepwell.tuning.device import Fault
from stepwell.tuning.executor import Executor, LocalExecutor
from stepwell.tuning.recorder import Recorder
from stepwell.tuning.tuner import Settings, Tuner

NOWHERE = Provenance("t", "simulated", (), (), 2, "", "")
ROOT = Path(__file__).resolve().parents[3]
NAMES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "MALLOC_TRIM_THRESHOLD_")
BEFORE = [os.environ.get(name) for name in NAMES]
PAGE = ROOT / "docs" / "tuning-pool.md"


def decisions(executor: Executor, after: object = None) -> list[object]:
    """The results of a batch that does not depend on processes, with faults as states; `after` is called for each."""
    requests = [Ends("segv") if i == 3 else Ends("typed") if i == 5 else Weighed(i, 0.05) for i in range(16)]
    results = executor.build(requests, 60.0, lambda number, result: after(number) if callable(after) else None)
    return [result.state if isinstance(result, Fault) else result for result in (*results, executor.run(Weighed(99, 0.0), 60.0))]


@pytest.fixture(scope="module")
def undisturbed() -> list[object]:
    executor = LocalExecutor(2)
    results = decisions(executor)
    executor.close()
    assert results[3:6] == [State.CRASHED, Weighed(4, 0.0).answer(), State.FAILED]
    return results


@pytest.fixture(scope="module")
def embedded() -> Iterator[DaskExecutor]:
    before = set(Path.cwd().iterdir())
    pool = embedded_pool(2)
    workers = processes(pool)
    yield pool
    pool.close()
    assert all(gone(pid) for pid in workers)
    assert set(Path.cwd().iterdir()) == before


def processes(pool: DaskExecutor) -> list[int]:
    """The numbers of the pool's processes."""
    return list(pool._client.run(os.getpid).values())


def runner_of(pool: DaskExecutor) -> int:
    """The number of the one process that measures."""
    (address,) = pool._workers(fresh=True)
    return int(pool._client.run(os.getpid, workers=[address])[address])


def test_an_embedded_pool_loses_a_process_and_nothing_else(embedded: DaskExecutor, undisturbed: list[object]) -> None:
    workers = processes(embedded)
    assert decisions(embedded) == undisturbed
    assert processes(embedded) == workers, "a request that crashes ends no process of the pool"
    runner = runner_of(embedded)
    done: list[int] = []

    def kill(number: int) -> None:
        done.append(number)
        if len(done) == 2:
            os.kill(runner, signal.SIGKILL)

    assert decisions(embedded, kill) == undisturbed
    assert sorted(done) == list(range(16))
    assert gone(runner)


def test_a_pool_that_loses_a_process_decides_like_an_undisturbed_device(embedded: DaskExecutor) -> None:
    device = simulated(1, {"k0": {"n=3": -0.2}, "k1": {"n=5": -0.1}, "k2": {}})
    settings = Settings(1e6, rounds=1, processes=2, confirmations=1, strategy="exhaustive")
    lost = []

    def kill(number: int) -> None:
        if number == 3:
            lost.append(runner_of(embedded))
            os.kill(lost[0], signal.SIGKILL)

    plans = []
    for used in (device, PooledDevice(device, embedded, kill)):
        recorder = Recorder(None, Run("simulated", "c", "t", 1, 0, 1e6), NOWHERE)
        plans.append(Tuner(ListedSubject(device), used, settings, recorder, NOWHERE, clock=lambda: 0.0).run().plan)
    assert gone(*lost)
    assert plans[0] is not None
    assert plans[1] is not None
    assert plans[0].choices == {"schedule": {"k0": "n=3", "k1": "n=5"}}
    assert plans[0].text == plans[1].text


def test_time_limits_and_one_run_at_a_time(embedded: DaskExecutor) -> None:
    with ThreadPoolExecutor(4) as threads:
        runs = list(threads.map(lambda _: embedded.run(Times(0.1), 60.0), range(4)))
    times = sorted(run for run in runs if isinstance(run, tuple))
    assert len(times) == 4
    assert all(before[1] <= after[0] for before, after in pairwise(times))
    assert len({pid for *_, pid, _ in times}) == 4
    assert {parent for *_, parent in times} == {runner_of(embedded)}
    fault = embedded.run(Ends("hang"), 0.5)
    assert isinstance(fault, Fault)
    assert fault.state is State.TIMED_OUT


def test_children_have_the_environment_of_a_tuning_without_a_pool(embedded: DaskExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask limits the threads of its processes and lets them give memory back, which would change times."""
    assert [os.environ.get(name) for name in NAMES] == BEFORE, "nor does this process get dask's variables"
    assert [embedded.run(Variable(name), 60.0) for name in NAMES] == BEFORE
    for name, value in zip(NAMES, ("1", "3", "65536"), strict=True):  # as in a process of `dask worker`, whose user wants three threads
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    dask_tasks._set_by_dask.cache_clear()
    assert set(dask_tasks._set_by_dask()) == {"OMP_NUM_THREADS", "MALLOC_TRIM_THRESHOLD_"}
    dask_tasks._set_by_dask.cache_clear()


def test_an_interrupt_ends_the_children_and_not_the_pool(embedded: DaskExecutor, tmp_path: Path) -> None:
    """As Ctrl-C in the middle of a batch: the exception comes while the other requests are at work."""

    def interrupt(number: int, result: object) -> None:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("*.pids")) and time.monotonic() < deadline:
            time.sleep(0.01)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embedded.build([Weighed(1, 0.0), Parental(tmp_path), Parental(tmp_path)], 600.0, interrupt)
    children = [int(pid) for file in tmp_path.glob("*.pids") for pid in file.read_text().split()]
    assert children
    assert all(gone(pid) for pid in children)
    assert embedded.build([Weighed(1, 0.0)], 60.0) == [Weighed(1, 0.0).answer()]


def test_a_process_of_other_versions_refuses_requests(tmp_path: Path) -> None:
    """One that joined the pool after the check."""
    plugin = tmp_path / "plugin.py"
    plugin.write_text("")
    session = dask_tasks.Session("old", Plugins(False, (str(plugin),)), dask_tasks.versions((str(plugin),)))
    plugin.write_text("changed = True")
    refused = dask_tasks.answer(session, "call", pack(Weighed(1, 0.0)), 60.0, False)
    assert isinstance(refused, dask_tasks.Refused)
    assert refused.versions.stepwell == session.versions.stepwell
    assert refused.versions.plugins != session.versions.plugins
    assert f"plugin {plugin} (" in str(refused.versions)


# -- A pool of processes that are started by the commands of the page.


class Commands:
    """The shell commands of the page, with an address and files of this test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = str(free.getsockname()[1])
        self.address = f"tls://127.0.0.1:{self.port}"
        _, snippets = doc_examples.read(PAGE)
        texts = [snippet.text for snippet in snippets if snippet.language == "sh"]
        self.certificate, self.scheduler, self.runner, self.builder, self.tune = map(self._adapted, texts)
        self.started: list[subprocess.Popen[bytes]] = []

    def _adapted(self, text: str) -> list[str]:
        text = text.replace("192.0.2.1", "127.0.0.1").replace("8786", self.port).replace(" --nworkers 7", " --nworkers 1")
        program, *arguments = text.split()
        if arguments[0] == "worker":
            arguments.append("--no-nanny")  # a process less, which would only restart the other
        return [str(Path(sys.executable).parent / program) if program == "dask" else program, *arguments]

    def start(self, command: list[str], machine: str) -> "subprocess.Popen[bytes]":
        """Start a command on a machine, which has a folder for temporary files of its own."""
        (self.folder / machine).mkdir(exist_ok=True)
        path = os.pathsep.join([str(ROOT / "test" / "support"), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": path, "TMPDIR": str(self.folder / machine), "DASK_LOGGING__DISTRIBUTED": "error"}
        process = subprocess.Popen(command, cwd=self.folder, env=environment, start_new_session=True)
        self.started.append(process)
        return process


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_the_page_starts_a_pool(tmp_path: Path, undisturbed: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    commands = Commands(tmp_path)
    monkeypatch.chdir(tmp_path)
    subprocess.run(commands.certificate, cwd=tmp_path, check=True, capture_output=True)
    parser = Parser()
    add_pool_options(parser)
    options = parser.parse_args([word for word in commands.tune[3:] if word not in ("-o", "net.plan.json")])
    try:
        commands.start(commands.scheduler, "one")
        builder = commands.start(commands.builder, "two")
        monkeypatch.setattr(dask_executor, "_ARRIVAL", 0.0)
        with pytest.raises(InputError, match="no worker can measure"), executor_of(options):
            pass
        monkeypatch.undo()
        monkeypatch.chdir(tmp_path)
        commands.start(commands.runner, "one")
        data = np.arange(1 << 20, dtype=np.uint8)
        with executor_of(options) as pool:
            assert isinstance(pool, DaskExecutor)
            pool._client.wait_for_workers(2)
            blob, scatter, sent = pool.store.put(data), pool._client.scatter, []
            monkeypatch.setattr(pool._client, "scatter", lambda values, **how: sent.append(how) or scatter(values, **how))
            for result in (*pool.build([Summed(blob)] * 4, 60.0), pool.run(Summed(blob), 60.0)):
                assert isinstance(result, tuple), result
                assert result[0] == int(data.sum())
                assert np.array_equal(pool.store.array(result[1]), np.repeat(data, 2))
            assert len(list(tmp_path.glob(f"*/stepwell-tuning-*/*/{blob.digest}"))) == len(sent) == 2, "each machine got it once"
            assert decisions(pool, lambda number: number == 4 and os.killpg(builder.pid, signal.SIGKILL)) == undisturbed
            builder.wait()
        assert not list(tmp_path.glob("one/stepwell-tuning-*/*/")), "the files of the run are gone"
        real = dask_tasks.versions
        monkeypatch.setattr(dask_tasks, "versions", lambda plugins: dask_tasks.Versions("0.0.9 (sources 12ab)", real(plugins).bindings, ()))
        expected = r"on \S+ has stepwell \S+ \(sources \w{12}\), torch-mlir \d+; this process has stepwell 0.0.9 \(sources 12ab\)"
        with pytest.raises(InputError, match=expected), executor_of(options):
            pass
    finally:
        for process in commands.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def test_options_that_exclude_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    parser = Parser()
    add_pool_options(parser)
    wrong = {
        "--pool --scheduler tcp://h:1": "expected one of them",
        "--jobs 2 --scheduler tcp://h:1": "--jobs goes without --scheduler",
        "--dashboard :8787": "--dashboard goes with --pool",
        "--tls-key k": "--tls-key goes with",
        "--pool --tls-ca-file no.pem": "--tls-ca-file no.pem: there is no such file",
    }
    for line, message in wrong.items():
        with pytest.raises(UsageError, match=message), executor_of(parser.parse_args(line.split())):
            pass
    with executor_of(parser.parse_args(["--jobs", "1"])) as executor:
        assert isinstance(executor, LocalExecutor)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ResourceError, match=r"dask.distributed is not installed: pip install 'stepwell\[tune\]'"):
        embedded_pool(1)
    with pytest.raises(ResourceError, match="is not installed"):
        dask_executor.joined_pool("tcp://127.0.0.1:1")
