"""What tests of graph passes share: the machine code of kernels that are the same, which need not be fast."""

import objects_once
import pytest


@pytest.fixture(autouse=True)
def _objects_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepwell.backends.llvm_cpu.pool.compile_units", objects_once.compile_plainly)
