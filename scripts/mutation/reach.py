"""Finds the tests that reach each fault, by running them once with a probe before the statement of each fault. Others cannot see it."""

import ast
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .edits import Edit
from .selection import FilesToRun

__all__ = ["Reach", "probed", "traverse"]

_TOGETHER = 8  # files of behaviour tests in one process
_PROBE = '''"""Records which test runs which probe: in the process of the tests as pytest's plugin, in others by a file that says which test runs."""

import json
import os
import time

FOLDER = {folder!r}
_seen, _test, _tells, _next = set(), "", False, 0.0


def switch(test):
    global _test, _tells
    _tells, _test = True, test
    _seen.clear()
    with open(f"{{FOLDER}}/test.new", "w") as file:
        file.write(test)
    os.replace(f"{{FOLDER}}/test.new", f"{{FOLDER}}/test")


def hit(number):
    global _test, _next
    if not _tells and time.monotonic() >= _next:
        _next = time.monotonic() + 0.005
        with open(f"{{FOLDER}}/test") as file:
            test = file.read()
        if test != _test:
            _test = test
            _seen.clear()
    if number not in _seen:
        _seen.add(number)
        with open(f"{{FOLDER}}/hits", "a") as file:
            file.write(json.dumps([_test, number]) + "\\n")


def pytest_runtest_logstart(nodeid, location):
    switch(nodeid.partition("::")[0])  # what fixtures run may serve other tests of the file too
    _seconds[nodeid] = 0.0


def pytest_runtest_call(item):
    switch(item.nodeid)


def pytest_runtest_logreport(report):
    if report.failed:
        _seconds.pop(report.nodeid, None)  # it cannot tell a fault
    elif report.nodeid in _seconds:
        _seconds[report.nodeid] += report.duration


def pytest_runtest_logfinish(nodeid, location):
    switch("")
    if nodeid in _seconds:
        with open(f"{{FOLDER}}/tests", "a") as file:
            file.write(json.dumps([nodeid, _seconds.pop(nodeid)]) + "\\n")


_seconds = {{}}
'''


@dataclass
class Reach:
    """The results of a run with probes."""

    seconds: dict[str, float] = field(default_factory=dict)
    """The seconds that each test took, keyed by its argument for the runner."""
    by_fault: dict[int, set[str]] = field(default_factory=dict)
    """The tests that reach each fault. Faults that are reached when modules are imported are absent: any test may see these."""

    def stages(self, fault: int, files: Collection[str], first: Collection[str]) -> list[FilesToRun]:
        """The tests in `files` to ask about a fault: FileCheck tests in `first`, behaviour tests, other FileCheck tests, each the quickest first."""
        tests = sorted((t for t in self.by_fault[fault] if t.partition("::")[0] in files), key=lambda test: self.seconds[test])
        lit = [test for test in tests if test.endswith(".mlir")]
        near, far = [t for t in lit if t in first], [t for t in lit if t not in first]
        found = [FilesToRun(tuple(near), ()), FilesToRun((), tuple(t for t in tests if t not in lit)), FilesToRun(tuple(far), ())]
        return [stage for stage in found if stage.lit or stage.pytest]

    def time_of(self, tests: FilesToRun) -> float:
        """The seconds that tests of `stages` take together."""
        return sum(self.seconds[test] for test in (*tests.lit, *tests.pytest))


def probed(source: str, faults: Mapping[int, Edit]) -> tuple[str, set[int]]:
    """The source with a probe before the statement of each fault, and the faults that have none since they lie outside functions."""
    lines = source.splitlines(keepends=True)
    places = _statements(ast.parse(source))
    without, inserted = set(), []
    for number, edit in faults.items():
        # The innermost statement inside a function that a line can be put before; an `elif` begins with another word than its statement.
        inside = [
            (first, indent) for first, last, indent in places
            if first <= edit.line <= last and lines[first - 1][:indent].strip() == "" and not lines[first - 1].lstrip().startswith("elif")
        ]  # fmt: skip
        if inside:
            line, indent = max(inside)
            inserted.append((line, f"{' ' * indent}__import__('stepwell_probe').hit({number})\n"))
        else:
            without.add(number)
    for line, text in sorted(inserted, reverse=True):
        lines.insert(line - 1, text)
    return "".join(lines), without


def traverse(
    folder: Path, package: Path, environment: Mapping[str, str], faults: Mapping[int, Edit], tests: FilesToRun, record: Path, state: str
) -> Reach:  # fmt: skip
    """Run all tests once in the checkout at `folder` with probes in it. Its code is restored at the end.

    What is found is appended to files in the folder `record`; tests that were run before on the same `state` with the same faults are not run again.
    """
    if not faults:
        return Reach()
    about = json.dumps([state, {number: asdict(edit) for number, edit in faults.items()}])
    if not (record / "about").is_file() or (record / "about").read_text() != about:
        shutil.rmtree(record, ignore_errors=True)
        record.mkdir(parents=True)
        for name in ("test", "hits", "tests", "done"):
            (record / name).write_text("")
        (record / "about").write_text(about)
    (package / "stepwell_probe.py").write_text(_PROBE.format(folder=str(record)))
    originals = {path: (folder / path).read_text() for path in {edit.path for edit in faults.values()}}
    everywhere: set[int] = set()
    try:
        for path, source in originals.items():
            text, without = probed(source, {number: edit for number, edit in faults.items() if edit.path == path})
            (folder / path).write_text(text)
            everywhere |= without
        _run(folder, record, environment, tests.without(FilesToRun.from_names((record / "done").read_text().splitlines())))
    finally:
        for path, source in originals.items():
            (folder / path).write_text(source)
    reach = Reach(dict(map(json.loads, (record / "tests").read_text().splitlines())), {n: set() for n in faults})
    for test, number in map(json.loads, (record / "hits").read_text().splitlines()):
        if test == "":
            everywhere.add(number)
        reach.by_fault[number] |= {test} & reach.seconds.keys() or {other for other in reach.seconds if test and other.startswith(f"{test}::")}
    for number in everywhere:
        del reach.by_fault[number]
    return reach


def _run(folder: Path, record: Path, environment: Mapping[str, str], tests: FilesToRun) -> None:
    """Run the tests. Passing FileCheck tests are recorded here, the others by the plugin."""
    tools = Path(sys.executable).parent
    for file in tests.lit:
        (record / "test").write_text(file)
        begin = time.monotonic()
        command = [str(tools / "lit"), "-q", "-j1", file]
        if subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False).returncode == 0:
            _append(record / "tests", json.dumps([file, round(time.monotonic() - begin, 2)]))
        _append(record / "done", file)
    (record / "test").write_text("")
    options = ["-q", "-p", "no:cacheprovider", "-p", "stepwell_probe", "-m", "not zoo and not nightly", "--tb=no", "--timeout=600"]
    for start in range(0, len(tests.pytest), _TOGETHER):
        files = tests.pytest[start : start + _TOGETHER]
        subprocess.run([str(tools / "pytest"), *options, *files], cwd=folder, env=environment, capture_output=True, check=False)
        _append(record / "done", *files)


def _append(file: Path, *lines: str) -> None:
    with file.open("a") as out:
        out.writelines(f"{line}\n" for line in lines)


def _statements(tree: ast.Module) -> list[tuple[int, int, int]]:
    """The first line, the last line and the indentation of each statement inside a function, its docstring aside."""
    found = []
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for node in (inner for top in function.body for inner in ast.walk(top)):
                if isinstance(node, ast.stmt) and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
                    first = min((d.lineno for d in getattr(node, "decorator_list", [])), default=node.lineno)
                    found.append((first, node.end_lineno or first, node.col_offset))
    return found
