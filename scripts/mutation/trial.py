"""Trying one fault: in a copy of the checkout, by the tests that should see it."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from checkouts import linked

from .edits import Edit
from .selection import FilesToRun

_COPIED = ("compiler", "dialects", "passes", "test", "scripts", "examples", "docs", "lit.cfg.py", "pyproject.toml", "README.md")
_COMPILED = ("compiler", "dialects", "passes")  # to bytecode
_SLOWER = 4.0  # how many times as long as when they saw no fault tests may take,
_STARTING = 20.0  # and how many seconds more
_WHOLE = 3600.0  # seconds that they may take the first time
_TEST = 300  # seconds that one test may take
_NOT_FOUND, _NONE_CHOSEN = 4, 5  # pytest's exit status: a file or test is not there; all tests were deselected
_NO_TEST = "ended with an error"
# The text after a test's name is the message. Names of parametrised tests may have any text in brackets.
_PYTEST_FAILS = re.compile(r"(?:FAILED|ERROR) ([^\s\[]+(?:\[.*?\])?)(?: - .*)?$")
_PYTEST_LACKS = re.compile(r"^ERROR: (?:not found:|found no collectors for|file or directory not found:) (.+)$", re.MULTILINE)
_LIT_FAILS = re.compile(r"FAIL: (?:\S+ :: )?(\S+)")


class FailsUnchangedError(Exception):
    """Tests fail where there is no fault: they cannot say anything about one."""

    def __init__(self, message: str, tests: FilesToRun) -> None:
        super().__init__(message)
        self.tests = tests


@dataclass(frozen=True)
class Outcome:
    """The outcome of a fault: `killed` by a test, out of `time` (which counts as killed), or `survived`."""

    path: str
    line: int
    what: str
    source: str
    """The line that was changed, as it is without the fault."""
    state: str
    by: str
    seconds: float

    def to_json(self) -> dict[str, object]:
        """The form in JSON."""
        return asdict(self)


class Copy:
    """A copy of the checkout that faults are planted in, so that the checkout itself is never wrong."""

    def __init__(self, root: Path, folder: Path, seconds: dict[str, float] | None = None) -> None:
        """`seconds` is what tests took that saw no fault, by their text."""
        self.folder = folder
        self.seconds = {} if seconds is None else seconds
        self._without_fault: dict[str, str] = {}
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in _COPIED:
            source = root / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
            elif source.exists():
                shutil.copy(source, folder / name)
        # A file with a fault is compiled in each process, as its time differs; all others once, here.
        subprocess.run([sys.executable, "-m", "compileall", "-qq", *(str(folder / name) for name in _COMPILED)], check=False)
        self.package = linked(folder, folder / "build")
        if (root / "build" / "zoo").is_dir():
            (folder / "build" / "zoo").symlink_to(root / "build" / "zoo")
        self.environment = {
            **os.environ, "PYTHONPATH": str(self.package), "PYTHONDONTWRITEBYTECODE": "1", "OMP_WAIT_POLICY": "passive", "STEPWELL_CACHE": "0",
        }  # fmt: skip

    @property
    def state(self) -> str:
        """A digest of all that is copied, by which to know whether it has changed."""
        return self.digest(_COPIED)

    def digest(self, names: Sequence[str]) -> str:
        """A digest of some of the files and folders."""
        digest = hashlib.sha256()
        for name in names:
            place = self.folder / name
            for file in sorted(place.rglob("*")) if place.is_dir() else [place]:
                if file.is_file() and file.parent.name != "__pycache__":
                    digest.update(f"{file.relative_to(self.folder)}\0".encode() + file.read_bytes())
        return digest.hexdigest()

    def ask(self, tests: FilesToRun, limit: float) -> tuple[str, str]:
        """Run the tests until one fails. Returns "survived", "killed", "time", or "absent" if there are no such tests, and the test that decided.

        `limit` is in seconds, for each runner.
        """
        tools = Path(sys.executable).parent
        runs = []
        if tests.lit:
            runs.append(("lit", [str(tools / "lit"), "-q", "-j1", "--max-failures=1", *tests.lit]))
        if tests.pytest:
            only = ["-k", tests.only] if tests.only else []
            options = ["-q", "-x", "-p", "no:cacheprovider", "-m", "not zoo and not nightly", "--tb=no", f"--timeout={_TEST}", *only]
            runs.append(("pytest", [str(tools / "pytest"), *options, *tests.pytest]))
        for name, command in runs:
            try:
                ended = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=limit, check=False)
            except subprocess.TimeoutExpired:
                return "time", name
            if name == "pytest" and ended.returncode == _NOT_FOUND:
                missing = _PYTEST_LACKS.search(ended.stdout + ended.stderr)
                return "absent", f"{name}: {missing[1].removeprefix(f'{self.folder}/') if missing else tests.pytest[0]}"
            if ended.returncode not in (0, _NONE_CHOSEN):
                return "killed", f"{name}: {first_failure(ended.stdout)}"
        return "survived", ""

    def seeing(self, by: str) -> FilesToRun | None:
        """The test that saw a fault before, by what `ask` said of it; its whole file if the test has another name now, None if that is gone."""
        runner, _, name = by.partition(": ")
        file = name.partition("::")[0]
        if not (self.folder / file).is_file():
            return None
        if runner == "lit":
            return FilesToRun((file,), ())
        for tests in (FilesToRun((), (name,)), FilesToRun((), (file,))):
            if self._unchanged(tests) == "survived":
                return tests
        return None

    def _unchanged(self, tests: FilesToRun) -> str:
        """The outcome of the tests without a fault; they run once."""
        if str(tests) not in self._without_fault:
            self._without_fault[str(tests)] = self.ask(tests, _WHOLE)[0]
        return self._without_fault[str(tests)]

    def _limit(self, tests: FilesToRun) -> float:
        """Seconds that the tests may take about a fault: what they took when they saw none, and some more."""
        return min(_WHOLE, _STARTING + _SLOWER * self.seconds.get(str(tests), _WHOLE))

    def attempt(self, edit: Edit, stages: Sequence[FilesToRun]) -> Outcome:
        """Plant the fault, ask the tests, one stage after another until one sees it, take it away again.

        Raises FailsUnchangedError if the test that saw it fails without the fault too.
        """
        path = self.folder / edit.path
        source = path.read_text()
        state, by, seconds = "survived", "", 0.0
        for tests in stages:
            begin = time.monotonic()
            path.write_text(edit.apply(source))
            try:
                state, by = self.ask(tests, self._limit(tests))
            finally:
                path.write_text(source)
            took = time.monotonic() - begin
            seconds += took
            if state == "survived":
                self.seconds[str(tests)] = round(max(took, self.seconds.get(str(tests), 0.0)), 1)
                continue
            if state == "absent":  # a name is no longer found since its module cannot be imported
                state = "killed"
            test = tests if state == "time" else failing(by) or tests
            if self._unchanged(test) != "survived":
                raise FailsUnchangedError(f"the tests fail without any fault: {by}", test)
            break
        line = source.splitlines()[edit.line - 1].strip()
        return Outcome(edit.path, edit.line, edit.what, line, state, by, round(seconds, 1))


def first_failure(text: str) -> str:
    """The test that failed, as its runner takes it for an argument."""
    for line in text.splitlines():
        if found := _LIT_FAILS.match(line) or _PYTEST_FAILS.match(line):
            return found[1]
    return _NO_TEST


def failing(by: str) -> FilesToRun | None:
    """The test that `ask` named; None if it named none."""
    runner, _, name = by.partition(": ")
    if name == _NO_TEST:
        return None
    return FilesToRun((name,), ()) if runner == "lit" else FilesToRun((), (name,))
