"""What all behaviour tests share: the zoo's files, hypothesis' settings, quiet OpenMP workers."""

import hashlib
import os
from collections.abc import Callable, Generator
from pathlib import Path

import costs
import hypothesis
import onnx
import pytest
import quick
from kept_kernels import switch_on_cache

import networks
from stepwell.backends.llvm_cpu import pool
from stepwell.cache import disk

ROOT = Path(__file__).resolve().parent.parent

# Test processes share the cores: a worker that spins while it waits takes another's time. Read when libomp is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # for child processes, as for commands

# What is tested is what the code does now, and nothing is to be left in the user's folders; the tests of the cache give their own folder.
os.environ["STEPWELL_CACHE"] = "0"
os.environ["STEPWELL_TUNING"] = "0"

# Test processes compile by themselves: one for each core is enough. Child processes of tests do as they would elsewhere.
pool.compile_in_process()

# Compiling takes as long as it takes; a run must be repeatable.
hypothesis.settings.register_profile("stepwell", deadline=None, derandomize=True, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("stepwell")


_METER = costs.Meter()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Of what -m leaves, leave out what `scripts/test --fast` does not run, and begin with what takes long."""
    yield
    record = quick.read_record()
    if quick.VARIABLE in os.environ:
        runs = quick.chosen([item.nodeid for item in items], record, float(os.environ[quick.VARIABLE]))
        config.hook.pytest_deselected(items=[item for item, does_run in zip(items, runs, strict=True) if not does_run])
        items[:] = [item for item, does_run in zip(items, runs, strict=True) if does_run]
    items[:] = [items[place] for place in quick.long_first((item.nodeid for item in items), record)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Write what a test costs, if `scripts/test` wants to know. Fixtures of several tests count for the first."""
    if not costs.is_wanted():
        return (yield)
    _METER.restart()
    try:
        return (yield)
    finally:
        _METER.write(item.nodeid)


@pytest.fixture(scope="session")
def zoo() -> Callable[[str], Path]:
    """Gives the path of a network of the zoo by name; the files stay in build/zoo until the code that makes them changes."""
    digest = hashlib.sha256(onnx.__version__.encode())
    for source in sorted(Path(networks.__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    folder = ROOT / "build" / "zoo" / digest.hexdigest()[:16]

    def path(name: str) -> Path:
        target = folder / f"{name}.onnx"
        if not target.exists():
            folder.mkdir(parents=True, exist_ok=True)
            partial = folder / f"{name}.{os.getpid()}.tmp"  # another worker may be writing the same
            onnx.save(networks.build(name), partial)
            partial.replace(target)
        return target

    return path


@pytest.fixture
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test alone, switched on, here and in child processes."""
    switch_on_cache(monkeypatch, tmp_path / "cache")
    monkeypatch.delenv("STEPWELL_CACHE_BYTES", raising=False)
    disk._note.cache_clear()
    return tmp_path / "cache"
