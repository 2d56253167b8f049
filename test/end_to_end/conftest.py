"""What tests of whole models share: the machine code of kernels that are the same."""

import objects_once
import pytest

from stepwell.dialects.target.host import runs_here
from stepwell.dialects.target.registry import resolve


@pytest.fixture(autouse=True)
def _objects_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepwell.backends.llvm_cpu.pool.compile_units", objects_once.compile_units)


@pytest.fixture
def _runs_here(target: str) -> None:
    """Skip a test that is made for a target where the machine cannot run it, so that all machines have the same tests."""
    if not runs_here(resolve(target)):
        pytest.skip(f"this machine does not run code for {target}")
