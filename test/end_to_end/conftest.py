"""What tests of whole models share: the machine code of kernels that are the same, with LLVM's optimisations where a test asks for them.

What an operator means does not depend on these, and they take a quarter of a test's time. The nets that go through all of the compiler as users do
ask for them, by the mark `optimised`: every op, random models and graphs, networks.
"""

import objects_once
import pytest

from stepwell.dialects.target.host import runs_here
from stepwell.dialects.target.registry import resolve


@pytest.fixture(autouse=True)
def _objects_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_units = objects_once.compile_units if request.node.get_closest_marker("optimised") else objects_once.compile_plainly
    monkeypatch.setattr("stepwell.backends.llvm_cpu.pool.compile_units", compile_units)


@pytest.fixture
def _runs_here(target: str) -> None:
    """Skip a test that is made for a target where the machine cannot run it, so that all machines have the same tests."""
    if not runs_here(resolve(target)):
        pytest.skip(f"this machine does not run code for {target}")
