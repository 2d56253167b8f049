"""What tests of passes over whole models share: the machine code of kernels that are the same."""

import objects_once
import pytest


@pytest.fixture(autouse=True)
def _objects_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepwell.backends.llvm_cpu.pool.compile_units", objects_once.compile_units)
