"""Rounds of measurements, in which checkouts take turns and the unit is measured again for each model."""

import compileall
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checkouts import linked

from .commands import Cost, run
from .subjects import Subject, commands

__all__ = ["UNIT", "Found", "Measurement", "Side", "measure", "sides"]

UNIT = "import torch_mlir.ir, onnx"
"""The part that every command that compiles a model includes: its CPU seconds are the unit."""
_PROGRAMS = Path(__file__).with_name("in_process.py")
# As the command that pip installs.
_COMMAND = "import sys; from {module} import main; sys.exit(main())"
_CONTROLLED = ("STEPWELL_", "OMP_", "KMP_", "PYTHON")


@dataclass(frozen=True)
class Side:
    """A checkout: a name, and the environment variables with which Python imports its package."""

    name: str
    environment: dict[str, str]


@dataclass(frozen=True)
class Measurement:
    """The cost of one command in one round. CPU seconds are in `cost`; `unit` has those of the unit around it."""

    round: int
    subject: str
    what: str
    """`cold`, `warm`, `onnxruntime`, `command`."""
    side: str
    cost: Cost
    unit: float


@dataclass
class Found:
    """All measurements."""

    costs: list[Measurement] = field(default_factory=list)
    parts: dict[tuple[str, str, str], list[dict[str, float]]] = field(default_factory=dict)
    """By subject, kind (`levels`, `onnxruntime` or `passes`) and side: the cost of each part in units, for each round."""
    counts: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """The number of runs of each pass, by subject, side and pass."""


def sides(checkouts: Mapping[str, Path], folder: Path) -> list[Side]:
    """The checkouts by name, copied to `folder`, so that edits made meanwhile do not count, and compiled to bytecode, as pip leaves a package.

    Raises FileNotFoundError for a folder that is no checkout.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_CONTROLLED)}
    found = []
    for name, root in checkouts.items():
        place = folder / name
        for part in ("compiler", "dialects", "passes"):
            if not (root / part).is_dir():
                raise FileNotFoundError(f"{root}: expected a checkout of stepwell, but it has no folder {part}")
            shutil.copytree(root / part, place / part, ignore=shutil.ignore_patterns("__pycache__"))
            compileall.compile_dir(place / part, quiet=1)
        found.append(Side(name, {**inherited, "PYTHONPATH": str(linked(place, place)), "STEPWELL_CACHE": "1"}))
    return found


def measure(
    subjects: Sequence[Subject], compared: Sequence[Side], rounds: int, folder: Path, *, with_commands: bool, peer: bool, levels: bool, passes: bool
) -> Iterator[Found]:
    """Measure all in each of the rounds; gives what was found so far after each. Raises CommandError if a command fails."""
    found = Found()
    bench = _Bench(compared, folder, found)
    bench.warm_up(subjects)
    for number in range(rounds):
        order = list(compared) if number % 2 == 0 else list(reversed(compared))
        for subject in subjects:
            bench.of_model(number, subject, order, peer=peer, levels=levels, passes=passes)
        if with_commands:
            bench.of_commands(number, order)
        yield found


class _Bench:
    def __init__(self, compared: Sequence[Side], folder: Path, found: Found) -> None:
        self.caches, self.found, self.number = folder / "caches", found, 0
        self.plain = compared[0].environment
        self.empty = folder / "empty"  # the current folder of all commands
        self.empty.mkdir()

    def warm_up(self, subjects: Sequence[Subject]) -> None:
        """Read files once that are read again and again."""
        self._unit()
        for subject in subjects:
            subject.path.read_bytes()

    def of_model(self, number: int, subject: Subject, order: Sequence[Side], *, peer: bool, levels: bool, passes: bool) -> None:
        """One round of one model."""
        costs: list[tuple[str, str, Cost]] = []
        parts: list[tuple[str, str, dict[str, Any]]] = []
        before = self._unit()
        for side in order:
            cache = self._cache(side)
            for what in ("cold", "warm"):
                costs.append((what, side.name, run(self._command("stepwell.cli.main", ["run", str(subject.path)]), cache, self.empty)))
            kinds = [kind for kind, wanted in (("levels", levels), ("passes", passes)) if wanted]
            parts += [(kind, side.name, json.loads(self._program(kind, subject, self._cache(side)).output)) for kind in kinds]
        if peer:
            costs.append(("onnxruntime", "", self._program("onnxruntime", subject, self.plain)))
            parts.append(("onnxruntime", "", json.loads(costs[-1][2].output)))
        unit = (before + self._unit()) / 2
        self.found.costs += [Measurement(number, subject.name, what, side, cost, unit) for what, side, cost in costs]
        for kind, name, seconds in parts:
            if kind == "passes":
                self.found.counts |= {(subject.name, name, step): count for step, (_, count) in seconds.items()}
                seconds = {step: spent for step, (spent, _) in seconds.items()}
            self.found.parts.setdefault((subject.name, kind, name), []).append({part: spent / unit for part, spent in seconds.items()})

    def of_commands(self, number: int, order: Sequence[Side]) -> None:
        """One round of the commands that compile nothing."""
        costs = []
        before = self._unit()
        for shown, (module, arguments) in commands().items():
            costs += [(shown, side.name, run(self._command(module, arguments), self._cache(side), self.empty)) for side in order]
        unit = (before + self._unit()) / 2
        self.found.costs += [Measurement(number, shown, "command", side, cost, unit) for shown, side, cost in costs]

    def _unit(self) -> float:
        return run([sys.executable, "-c", UNIT], self.plain, self.empty).cpu

    def _command(self, module: str, arguments: Sequence[str]) -> list[str]:
        return [sys.executable, "-c", _COMMAND.format(module=module), *arguments]

    def _program(self, name: str, subject: Subject, environment: Mapping[str, str]) -> Cost:
        return run([sys.executable, _PROGRAMS, name, subject.path], environment, self.empty)

    def _cache(self, side: Side) -> dict[str, str]:
        """The environment of a checkout with a new, empty folder for its cache; what the last one held is removed."""
        shutil.rmtree(self.caches, ignore_errors=True)
        self.number += 1
        return {**side.environment, "STEPWELL_CACHE_DIR": str(self.caches / str(self.number))}
