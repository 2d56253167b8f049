"""CPU seconds: of this machine beside the one of reference, and the budgets that pyproject.toml sets for runs of scripts/test."""

import resource
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

UNIT = (sys.executable, "-c", "import torch_mlir.ir, onnx")
"""Work that does not change with our code: much Python, some loading of libraries."""
ROUNDS = 5


@dataclass(frozen=True)
class Budget:
    """The table `tool.stepwell.budget` of pyproject.toml; all in CPU seconds, user and system, of all processes."""

    unit: float
    """What `UNIT` takes on the machine where the others were measured."""
    whole: float
    """For scripts/test."""
    fast: float
    """For scripts/test --fast."""
    fast_tests: float
    """For the behaviour tests in it, by the costs that were recorded of them: it takes as many as that allows."""

    @staticmethod
    def from_project(project: Path) -> "Budget":
        """What a pyproject.toml says."""
        table: dict[str, Any] = tomllib.loads(project.read_text())["tool"]["stepwell"]["budget"]
        return Budget(**{name.replace("-", "_"): float(value) for name, value in table.items()})

    def verdict(self, kind: str, spent: float, unit: float) -> tuple[bool, str]:
        """Whether a run of a kind, "whole" or "fast", may take `spent` on a machine where `UNIT` takes `unit`, and a line about it."""
        speed = unit / self.unit
        allowed = (self.whole if kind == "whole" else self.fast) * speed
        line = f"budget   {spent:.0f} of {allowed:.0f} CPU s; the machine takes {speed:.2f} times what the one of reference does"
        return spent <= allowed, line if spent <= allowed else f"{line}: over budget, counted as a failure"


def spent_by_children() -> float:
    """CPU seconds of all processes that this one has waited for, and of those that they have."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measured_unit() -> float:
    """CPU seconds that `UNIT` takes here: the median, after a first time that loads files."""
    found = []
    for _ in range(ROUNDS + 1):
        before = spent_by_children()
        subprocess.run(UNIT, check=True)
        found.append(spent_by_children() - before)
    return statistics.median(found[1:])
