"""What all behaviour tests share: the zoo's files, hypothesis' settings, quiet OpenMP workers."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import hypothesis
import onnx
import pytest

import networks
from stepwell.cache import disk
from stepwell.codegen import pool

ROOT = Path(__file__).resolve().parent.parent

# Test processes share the cores: a worker that spins while it waits takes another's time. Read when libomp is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# What is tested is what the code does now, and nothing is to be left in the user's folders; the tests of the cache give their own folder.
os.environ["STEPWELL_CACHE"] = "0"

# Test processes compile by themselves: one for each core is enough. Child processes of tests do as they would elsewhere.
pool.work_alone()

# Compiling takes as long as it takes; a run must be repeatable.
hypothesis.settings.register_profile("stepwell", deadline=None, derandomize=True, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("stepwell")


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
    monkeypatch.setenv("STEPWELL_CACHE", "1")
    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("STEPWELL_CACHE_BYTES", raising=False)
    for name in ("_modules", "_generating"):  # what other tests have registered by now
        monkeypatch.setattr(f"stepwell.dialects.support.extensions.{name}", set())
    monkeypatch.setattr("stepwell.driver.plugins._loaded", {})
    disk._note.cache_clear()
    return tmp_path / "cache"
