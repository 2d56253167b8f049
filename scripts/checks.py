"""What scripts/test runs, inside the environment: the checks, their counts, the closing line."""

import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import make_stubs

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
WORKERS = str(min(4, os.cpu_count() or 1))
CASE_TIMEOUT = 900  # seconds; a hang must end the run, a slow machine must not


@dataclass
class Counts:
    """What one check found; `skipped` holds a line for each case that did not run or is expected to fail."""

    passed: int = 0
    failed: int = 0
    skipped: list[str] = field(default_factory=list)


def run(tool: str, *arguments: str) -> int:
    """Run the tool of that name that is installed beside this Python, from the root of the checkout; its exit status."""
    # Two test processes share two cores: a worker that spins while it waits takes the other's time.
    environment = {"OMP_WAIT_POLICY": "passive", **os.environ}
    return subprocess.run([str(Path(sys.executable).parent / tool), *arguments], cwd=ROOT, env=environment, check=False).returncode


def whole(status: int) -> Counts:
    """The counts of a tool that passes or fails as a whole."""
    return Counts(passed=int(status == 0), failed=int(status != 0))


def ruff() -> Counts:
    """Lint all Python files."""
    return whole(run("ruff", "check", "--quiet", ".", "scripts/demo", "scripts/test"))


def mypy() -> Counts:
    """Type-check the package, then the scripts and examples."""
    make_stubs.make(BUILD)
    scripts = [str(p.relative_to(ROOT)) for folder in ("scripts", "examples") for p in sorted((ROOT / folder).rglob("*.py"))]
    package = run("mypy")
    return whole(package or run("mypy", *scripts))


def lit() -> Counts:
    """Run the FileCheck tests."""
    report = fresh_report("lit.xml")
    status = run("lit", "--quiet", "-v", "-j", WORKERS, "--xunit-xml-output", str(report), "test")
    return read_report(report, status)


def pytest() -> Counts:
    """Run the behaviour tests; a worker that crashes counts as a failed case and is replaced."""
    report = fresh_report("pytest.xml")
    status = run("pytest", "-q", "-n", WORKERS, "--dist", "worksteal", "--timeout", str(CASE_TIMEOUT), f"--junit-xml={report}")
    return read_report(report, status)


def fresh_report(name: str) -> Path:
    """The path for a report, with no old report there."""
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


def main(names: list[str]) -> int:
    """Run the named checks (all if none is named), print the totals; 0 if nothing failed, 2 for an unknown name."""
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        print(f"no check named {', '.join(unknown)}; there are {', '.join(CHECKS)}", file=sys.stderr)
        return 2
    total, lines = Counts(), []
    for name in names or CHECKS:
        print(f"== {name}", flush=True)
        start = time.monotonic()
        counts = CHECKS[name]()
        lines.append(
            f"{name:8} {counts.passed:6} passed {counts.failed:4} failed {len(counts.skipped):4} skipped {time.monotonic() - start:8.1f} s"
        )
        total.passed += counts.passed
        total.failed += counts.failed
        total.skipped += counts.skipped
    print("== summary")
    for line in [*total.skipped, *lines]:
        print(line)
    print(f"{total.passed} passed, {total.failed} failed")
    return int(total.failed > 0)
