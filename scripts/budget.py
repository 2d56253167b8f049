"""CPU seconds: the speed of this machine relative to the reference machine, and the budgets in pyproject.toml for runs of scripts/test."""

import resource
import statistics
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

UNIT = (sys.executable, "-c", "import torch_mlir.ir, onnx")
"""Work that does not depend on our code: mostly Python, and some loading of libraries."""
ROUNDS = 5


@dataclass(frozen=True)
class Budget:
    """The table `tool.stepwell.budget` of pyproject.toml; all in CPU seconds, user and system, of all processes."""

    unit: float
    """The time of `UNIT` on the reference machine, where the others were measured."""
    whole: float
    """The budget of scripts/test."""
    fast: float
    """The budget of scripts/test --fast."""
    fast_tests: float
    """The budget of the behaviour tests in scripts/test --fast, by their recorded costs; it determines how many run."""

    @staticmethod
    def from_project(project: Path) -> "Budget":
        """Read the budget from a pyproject.toml."""
        table: dict[str, Any] = tomllib.loads(project.read_text())["tool"]["stepwell"]["budget"]
        return Budget(**{name.replace("-", "_"): float(value) for name, value in table.items()})

    def verdict(self, kind: str, spent: float, unit: float) -> tuple[bool, str]:
        """Whether `spent` is within the budget for a run of a kind, "whole" or "fast", and a line about it; `unit` is the time of `UNIT` here."""
        speed = unit / self.unit
        allowed = (self.whole if kind == "whole" else self.fast) * speed
        line = f"budget   {spent:.0f} of {allowed:.0f} CPU s; the machine takes {speed:.2f} times what the one of reference does"
        return spent <= allowed, line if spent <= allowed else f"{line}: over budget, counted as a failure"


def spent_by_children() -> float:
    """CPU seconds of all child processes that have ended, including their children."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measured_unit() -> float:
    """CPU seconds of `UNIT` on this machine: the median, after a first run that loads files."""
    found = []
    for _ in range(ROUNDS + 1):
        before = spent_by_children()
        subprocess.run(UNIT, check=True)
        found.append(spent_by_children() - before)
    return statistics.median(found[1:])
