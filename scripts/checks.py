"""The checks that scripts/test runs inside the environment, their counts and costs, and the final line."""

import argparse
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import make_stubs
import quick
from affected import SCRIPTS, Affected, affected, changed
from budget import Budget, measured_unit, spent_by_children

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "test" / "support"))

import costs  # noqa: E402  (found by the line above)

BUILD = ROOT / "build"
CASE_TIMEOUT = 900  # seconds; a hanging test must end the run, a slow machine must not
DEAREST = 20
NOTHING_CHOSEN = 5  # the exit status of pytest if -k selects no test


@dataclass
class Counts:
    """The results of one check; `skipped` holds a line for each case that did not run or is expected to fail."""

    passed: int = 0
    failed: int = 0
    skipped: list[str] = field(default_factory=list)

    def add(self, other: "Counts") -> "Counts":
        """Add the counts of another check; returns itself."""
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        return self


def workers(waiting: int = 0) -> str:
    """The number of processes that run tests in parallel: one for each available core, but at most 4, since each takes memory.

    `waiting` is the number of processes that typically wait for others, as in tests that start processes; as many more run.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return str(min(4, cores + waiting))


def run(tool: str, *arguments: str, more: Mapping[str, str] | None = None) -> int:
    """Run an installed tool of the same environment from the root of the checkout; returns its exit status."""
    # Test processes share the cores: a worker thread that spins while it waits slows down the others.
    environment = {"OMP_WAIT_POLICY": "passive", "OPENBLAS_NUM_THREADS": "1", **os.environ, **(more or {})}
    # With this variable, each start of pytest would rewrite all assertions, and each child process of a test would compile our package again.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.run([str(Path(sys.executable).parent / tool), *arguments], cwd=ROOT, env=environment, check=False).returncode


def whole(status: int) -> Counts:
    """The counts of a tool that passes or fails as a whole."""
    return Counts(passed=int(status == 0), failed=int(status != 0))


def ruff(files: Sequence[str] = (".", *SCRIPTS)) -> Counts:
    """Lint Python files, by default all."""
    return whole(run("ruff", "check", "--quiet", *files))


def mypy() -> Counts:
    """Type-check the package, then the scripts and examples."""
    make_stubs.make(BUILD)
    scripts = [str(p.relative_to(ROOT)) for folder in ("scripts", "examples") for p in sorted((ROOT / folder).rglob("*.py"))]
    package = run("mypy")
    return whole(package or run("mypy", *scripts))


def lit(files: Sequence[str] = ("test",)) -> Counts:
    """Run FileCheck tests, by default all."""
    report = fresh_report("lit.xml")
    more = {costs.VARIABLE: str(cost_file("lit"))}
    status = run("lit", "--quiet", "-v", "-j", workers(), "--xunit-xml-output", str(report), *files, more=more)
    return read_report(report, status)


def pytest(files: Sequence[str] = (), only: str = "", budget: float | None = None) -> Counts:
    """Run behaviour tests, by default all; a worker that crashes counts as a failed case and is replaced.

    `only` is an expression for -k; with a budget, in CPU seconds, the number of cases is limited accordingly.
    """
    report = fresh_report("pytest.xml")
    more = {costs.VARIABLE: str(cost_file("pytest")), **({} if budget is None else {quick.VARIABLE: str(budget)})}
    marks = "not nightly or page" if only else "not nightly"  # a page that changed is run, whatever it costs
    options = ["-q", "-m", marks, "-n", workers(waiting=1), "--dist", "worksteal", "--timeout", str(CASE_TIMEOUT), f"--junit-xml={report}"]
    status = run("pytest", *options, *(["-k", only] if only else []), *files, more=more)
    return Counts() if status == NOTHING_CHOSEN and only else read_report(report, status)


def cost_file(check: str) -> Path:
    """The file in which the tests of a check write their costs."""
    return BUILD / "test" / f"{check}.costs"


def fresh_report(name: str) -> Path:
    """The path for a report, where no old report exists."""
    report = BUILD / "test" / name
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    return report


def read_report(report: Path, status: int) -> Counts:
    """Count the cases of a JUnit report. A runner that failed without a failed case, or ran none, is one failure itself."""
    counts = Counts()
    if report.exists():
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            skipped = case.find("skipped")
            if case.find("failure") is not None or case.find("error") is not None:
                counts.failed += 1
            elif skipped is not None:
                kind = "expected failure" if skipped.get("type") == "pytest.xfail" else "skipped"
                counts.skipped.append(f"{kind}: {case.get('classname')} {case.get('name')}: {skipped.get('message', '')}")
            else:
                counts.passed += 1
    if not counts.failed and (status != 0 or not counts.passed):
        print(f"the runner ended with status {status} after {counts.passed} passed cases and no failed one: counted as a failure")
        counts.failed += 1
    return counts


CHECKS: dict[str, Callable[[], Counts]] = {"ruff": ruff, "mypy": mypy, "lit": lit, "pytest": pytest}


def checks_for(found: Affected) -> dict[str, Callable[[], Counts]]:
    """The checks for changed files."""

    def behaviour() -> Counts:
        counts = Counts()
        for only, files in found.pytest.items():
            counts.add(pytest(files, only))
        return counts

    needed: dict[str, tuple[object, Callable[[], Counts]]] = {
        "ruff": (found.lint, lambda: ruff(found.lint)),
        "mypy": (found.is_typed, mypy),
        "lit": (found.lit, lambda: lit(found.lit)),
        "pytest": (found.pytest, behaviour),
    }
    return {name: check for name, (is_needed, check) in needed.items() if is_needed}


def perform(checks: Mapping[str, Callable[[], Counts]]) -> tuple[Counts, list[str], float]:
    """Run checks; returns all counts together, a line for each check, and the CPU seconds of all."""
    total, lines, spent = Counts(), [], 0.0
    for name, check in checks.items():
        print(f"== {name}", flush=True)
        cost_file(name).unlink(missing_ok=True)
        start, before = time.monotonic(), spent_by_children()
        counts = check()
        cpu = spent_by_children() - before
        spent += cpu
        numbers = f"{counts.passed:6} passed {counts.failed:4} failed {len(counts.skipped):4} skipped"
        lines.append(f"{name:8} {numbers} {cpu:8.1f} CPU s {time.monotonic() - start:8.1f} s")
        total.add(counts)
    return total, lines, spent


def dearest(spent: Mapping[str, float]) -> list[str]:
    """A line for each of the most expensive tests."""
    found = sorted(spent.items(), key=lambda entry: -entry[1])[:DEAREST]
    return [f"{seconds:8.1f} CPU s  {test}" for test, seconds in found]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks given on the command line and print the totals; 0 if nothing failed, 2 for a wrong command line."""
    options = parse(arguments)
    budget = Budget.from_project(ROOT / "pyproject.toml")
    checks, kind = dict(CHECKS), "whole"
    if options.names:
        checks, kind = {name: CHECKS[name] for name in options.names}, ""
    elif options.fast:
        checks["pytest"], kind = lambda: pytest(budget=budget.fast_tests), "fast"
    elif options.files is not None:
        checks, kind = checks_for(affected(ROOT, options.files)), ""
        if not checks:
            print(f"no checks belong to {', '.join(options.files) or 'the working tree, which has no changes'}")
    unit = measured_unit() if kind else budget.unit
    total, lines, spent = perform(checks)
    found = {name: costs.read(cost_file(name)) for name in ("lit", "pytest") if name in checks}
    print("== summary")
    for line in total.skipped:
        print(line)
    print(f"the {DEAREST} dearest tests:", *dearest({t: s for tests in found.values() for t, s in tests.items()}), sep="\n")
    if kind == "whole":
        report_record({test: seconds * budget.unit / unit for test, seconds in found["pytest"].items()}, is_wanted=options.record)
    for line in lines:
        print(line)
    if kind:
        is_within, line = budget.verdict(kind, spent, unit)
        print(line)
        total.failed += not is_within
    print(f"{total.passed} passed, {total.failed} failed")
    return int(total.failed > 0)


def report_record(spent: Mapping[str, float], *, is_wanted: bool) -> None:
    """Write the record of test costs, on the reference machine, or report the tests whose recorded cost is far too low."""
    if is_wanted:
        quick.write_record(spent)
        print(f"wrote {quick.RECORD.relative_to(ROOT)}")
        return
    outdated = quick.outdated(spent, quick.read_record())
    if outdated:
        print(f"{len(outdated)} tests cost more than {quick.RECORD.relative_to(ROOT)} says (scripts/test --record writes it):")
        print(*outdated[:DEAREST], sep="\n")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line; ends the process if it is wrong. `files` is None, or the files after --for, relative to the checkout."""
    parser = argparse.ArgumentParser(prog="scripts/test", description="Run the checks of the project.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"checks: {', '.join(CHECKS)} (default: all)")
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--fast", action="store_true", help="all but the dear ones of the behaviour tests, and of these a few cases")
    way.add_argument("--for", dest="files", nargs="*", metavar="FILE", help="what belongs to files; to those that differ from HEAD if none is named")
    way.add_argument("--record", action="store_true", help="write what each test costs to test/costs.json, by which --fast chooses")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in CHECKS]
    if unknown:
        parser.error(f"no check named {', '.join(unknown)}; there are {', '.join(CHECKS)}")
    if options.names and (options.fast or options.files is not None or options.record):
        parser.error("--fast, --for and --record say themselves which checks run: name none")
    if options.files is not None:
        options.files = [relative(parser, file) for file in options.files] or changed(ROOT)
    return options


def relative(parser: argparse.ArgumentParser, file: str) -> str:
    """The path of a file in the checkout relative to its root, for any working directory."""
    place = Path(file).resolve()
    if not place.is_relative_to(ROOT):
        parser.error(f"--for {file}: expected a file of {ROOT}")
    if not place.exists():
        parser.error(f"--for {file}: there is no such file")
    return str(place.relative_to(ROOT))
