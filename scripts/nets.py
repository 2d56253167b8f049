"""The nets that scripts/nightly runs: every full net of docs/testing.md, with fixed counts, and one report with the trend."""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from budget import measured_unit, spent_by_children
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stepwell.dialects.support.files import write_atomically
from stepwell.dialects.support.names import printable_lines

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / "build" / "nightly"
JOBS = str(max(1, min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)))
TAIL = 30
"""The number of lines printed from the output of a failed net."""
_PYTEST = ("pytest", "-q", "-n", JOBS, "--dist", "worksteal", "--timeout", "3600")
_OF_PYTEST = r"(?m)(?:^|[ ,])(\d+) (?:passed|failed|error|xfailed)"


@dataclass(frozen=True)
class Net:
    """A command, and a way to read the number of its cases from its output."""

    name: str
    command: tuple[str, ...]
    """A script of this folder or an installed tool, with arguments."""
    cases: str
    """A pattern; the numbers matched by its groups are added, or its matches are counted if it has no groups."""
    environment: Mapping[str, str] = field(default_factory=dict)
    none: int | None = None
    """The exit status for no cases, if that is not a failure."""

    def count(self, output: str) -> int:
        """The number of cases."""
        found = list(re.finditer(self.cases, output))
        return sum(sum(map(int, match.groups())) if match.groups() else 1 for match in found)


NETS = (
    Net("onnx-suite", ("onnx_suite.py", "--jobs", JOBS), r"(?m)^(?:given|constants|plain|one|two) +(\d+) +(\d+) +(\d+)$"),
    Net("onnx-sizes", ("onnx_suite.py", "--way", "free", "--way", "auto", "--jobs", JOBS), r"(?m)^(?:free|auto) +(\d+) +(\d+) +(\d+)$"),
    Net("ops", ("check_ops.py",), r"(?m)^(\d+) cases of"),
    Net("patterns", ("check_patterns.py",), r"(?m)^(\d+) comparisons of"),
    Net("nodes", ("check_nodes.py", "--rounds", "2", "--jobs", JOBS), r"(?m)(?:^|, )(\d+) [a-z ]+?(?=, \d| in \d+ s$)"),
    Net("fuzz", ("fuzz.py", "build/nightly/fuzz", "--rounds", "10"), r"(?m)^ran (\d+) graphs and (\d+) nets"),
    Net("faults", ("mutate.py", "--replay"), r"(?m)^of (\d+) faults that a test saw before"),
    Net("hostile", ("hostile.py",), r"(?m)^(?:fine|WRONG) "),
    Net("chains", ("hostile.py", "--chains", "5000", "--seconds", "600"), r"(?m)^(?:fine|WRONG) "),
    Net("scaling", ("scaling.py", "--nodes", "100,1000,5000,20000"), r"(?m)^ +\d+ +[\d.]+ "),
    Net("bundles", ("bundle_bounds.py",), r"(?m)^(?:vgg19|digits|resnet50v1): "),
    Net("memory", ("memory.py",), r"(?m)^(?:cold|cached) "),
    Net("free-sizes", ("free_sizes.py", "mobilenetv2", "squeezenet", "gpt", "--rounds", "2"), r"(?m)^ *\S+ .* \d\.\de[-+]\d+$"),
    Net("vector-math", ("check_vector_math.py", "--stride", "7"), r" ulp of at most "),
    Net("robustness", (*_PYTEST, "test/robustness"), _OF_PYTEST, {"STEPWELL_TEST_ROUNDS": "20"}),
    Net("nightly-tests", (*_PYTEST, "-m", "nightly"), _OF_PYTEST, none=5),
)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a net."""

    name: str
    command: tuple[str, ...]
    status: int
    has_passed: bool
    cases: int
    cpu_seconds: float
    wall_seconds: float


def run(net: Net, folder: Path) -> Outcome:
    """Run a net to its end; its output goes to `folder`/NAME.log."""
    tool, *arguments = net.command
    start = [sys.executable, str(ROOT / "scripts" / tool)] if tool.endswith(".py") else [str(Path(sys.executable).parent / tool)]
    environment = {"OMP_WAIT_POLICY": "passive", "OPENBLAS_NUM_THREADS": "1", "STEPWELL_CACHE": "0", **os.environ, **net.environment}
    log = folder / f"{net.name}.log"
    before, begin = spent_by_children(), time.monotonic()
    with log.open("wb") as output:
        status = subprocess.run([*start, *arguments], cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
    cases = net.count(log.read_text(errors="replace"))
    has_passed = (status == 0 and cases > 0) or status == net.none
    return Outcome(net.name, net.command, status, has_passed, cases, round(spent_by_children() - before, 1), round(time.monotonic() - begin, 1))


def earlier(folder: Path) -> dict[str, list[float]]:
    """The times of each net in the reports of a folder, oldest first, in units of the machine on which each ran."""
    found: dict[str, list[float]] = {}
    for file in sorted(folder.glob("*.json")):
        report = json.loads(file.read_text())
        for net in report["nets"]:
            if net["has_passed"]:
                found.setdefault(net["name"], []).append(net["cpu_seconds"] / report["unit"])
    return found


def table(outcomes: Sequence[Outcome], before: Mapping[str, Sequence[float]], unit: float) -> Table:
    """The outcomes, next to those of the same nets in earlier reports."""
    shown = Table(box=box.SIMPLE)
    for title in ("net", "", "cases", "CPU s", "wall s", "to the last", "to the median of", ""):
        shown.add_column(title, justify="left" if title in ("net", "") else "right")
    for outcome in outcomes:
        known, now = before.get(outcome.name, ()), outcome.cpu_seconds / unit
        trend = (f"{now / known[-1]:.2f}", f"{now / statistics.median(known):.2f}", f"{len(known)}") if known and min(known) > 0 else ("", "", "")
        word = "passed" if outcome.has_passed else f"FAILED, status {outcome.status}"
        shown.add_row(outcome.name, word, str(outcome.cases), f"{outcome.cpu_seconds:.1f}", f"{outcome.wall_seconds:.1f}", *trend)
    return shown


def revision() -> str:
    """The checked-out commit, as described by git; empty outside a git checkout."""
    ended = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False)
    return ended.stdout.strip()


def main(arguments: Sequence[str] | None = None, nets: Sequence[Net] = NETS, folder: Path = REPORTS) -> int:
    """Run the nets given on the command line (by default all) and write the report; 0 if all passed, 2 for a wrong command line."""
    known = {net.name: net for net in nets}
    parser = argparse.ArgumentParser(prog="scripts/nightly", description="Run every net of docs/testing.md as a whole.")
    parser.add_argument("--only", action="append", metavar="NAME", choices=list(known), help=f"{', '.join(known)}; may be repeated (default: all)")
    parser.add_argument("--list", action="store_true", help="show what would run, and exit")
    options = parser.parse_args(arguments)
    chosen = [net for name, net in known.items() if options.only is None or name in options.only]
    if options.list:
        for net in chosen:
            print(f"{net.name:14}", " ".join([*(f"{name}={value}" for name, value in net.environment.items()), *net.command]))
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    console = Console(width=120 if not sys.stdout.isatty() else None, highlight=False)
    before, started, unit = earlier(folder), datetime.now(UTC), measured_unit()
    report = folder / f"{started:%Y%m%dT%H%M%SZ}.json"
    outcomes: list[Outcome] = []
    for net in chosen:
        console.print(f"== {net.name}: {escape(' '.join(net.command))}", soft_wrap=True)
        outcomes.append(run(net, folder))
        if not outcomes[-1].has_passed:
            lines = (folder / f"{net.name}.log").read_text(errors="replace").splitlines()
            console.print(escape(printable_lines("\n".join(lines[-TAIL:]))), soft_wrap=True)
        found = {"revision": revision(), "started": started.isoformat(), "unit": unit, "nets": [asdict(outcome) for outcome in outcomes]}
        write_atomically(report, json.dumps(found, indent=1) + "\n")  # after each net, so that an interrupted run has reported its results
    console.print(table(outcomes, before, unit))
    print(f"the report is {report}; what the nets said is beside it")
    failed = sum(not outcome.has_passed for outcome in outcomes)
    print(f"{len(outcomes) - failed} passed, {failed} failed")
    return int(failed > 0)
