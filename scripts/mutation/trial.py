"""Trying one fault: in a copy of the checkout, by the tests that should see it."""

import hashlib
import os
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
_SLOWER = 4.0  # how many times as long as without the fault tests may take,
_STARTING = 20.0  # and how many seconds more
_WHOLE = 3600.0  # seconds that they may take without one


class FailsUnchangedError(Exception):
    """Tests fail where there is no fault: they cannot say anything about one."""


@dataclass(frozen=True)
class Outcome:
    """What became of a fault: `killed` by a test, out of `time` (which counts as killed), or `survived`."""

    path: str
    line: int
    what: str
    source: str
    """The line that was changed, as it is without the fault."""
    state: str
    by: str
    seconds: float

    def to_json(self) -> dict[str, object]:
        """As JSON has it."""
        return asdict(self)


class Copy:
    """A copy of the checkout that faults are planted in, so that the checkout itself is never wrong."""

    def __init__(self, root: Path, folder: Path, seconds: dict[str, float] | None = None) -> None:
        """`seconds` is what tests are known to take without a fault, by their text."""
        self.folder = folder
        self.seconds = {} if seconds is None else seconds
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in _COPIED:
            source = root / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
            elif source.exists():
                shutil.copy(source, folder / name)
        package = linked(folder, folder / "build")
        if (root / "build" / "zoo").is_dir():
            (folder / "build" / "zoo").symlink_to(root / "build" / "zoo")
        self.environment = {
            **os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1", "OMP_WAIT_POLICY": "passive", "STEPWELL_CACHE": "0",
        }  # fmt: skip

    @property
    def state(self) -> str:
        """A digest of all that is copied, by which to know whether it has changed."""
        digest = hashlib.sha256()
        for name in _COPIED:
            place = self.folder / name
            for file in sorted(place.rglob("*")) if place.is_dir() else [place]:
                if file.is_file():
                    digest.update(f"{file.relative_to(self.folder)}\0".encode() + file.read_bytes())
        return digest.hexdigest()

    def ask(self, tests: FilesToRun, limit: float) -> tuple[str, str]:
        """Run the tests until one fails: "survived", "killed" or "time", and which runner said so. `limit` is in seconds, for each runner."""
        tools = Path(sys.executable).parent
        runs = []
        if tests.lit:
            runs.append(("lit", [str(tools / "lit"), "-q", "-j1", "--max-failures=1", *tests.lit]))
        if tests.pytest:
            only = ["-k", tests.only] if tests.only else []
            runs.append(("pytest", [str(tools / "pytest"), "-q", "-x", "-p", "no:cacheprovider", "-m", "not zoo", *only, *tests.pytest]))
        for name, command in runs:
            try:
                ended = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=limit, check=False)
            except subprocess.TimeoutExpired:
                return "time", name
            if ended.returncode not in (0, 5):  # 5: pytest has deselected them all
                return "killed", f"{name}: {_first_failure(ended.stdout)}"
        return "survived", ""

    def limit(self, tests: FilesToRun) -> float:
        """Seconds that the tests may take about a fault. Raises FailsUnchangedError where they fail without one; they are asked once."""
        if str(tests) not in self.seconds:
            begin = time.monotonic()
            state, by = self.ask(tests, _WHOLE)
            if state != "survived":
                raise FailsUnchangedError(f"the tests fail without any fault: {by}")
            self.seconds[str(tests)] = round(time.monotonic() - begin, 1)
        return _STARTING + _SLOWER * self.seconds[str(tests)]

    def attempt(self, edit: Edit, stages: Sequence[FilesToRun]) -> Outcome:
        """Plant the fault, ask the tests, one stage after another until one sees it, take it away again."""
        path = self.folder / edit.path
        source = path.read_text()
        state, by, seconds = "survived", "", 0.0
        for tests in stages:
            limit = self.limit(tests)
            begin = time.monotonic()
            path.write_text(edit.apply(source))
            try:
                state, by = self.ask(tests, limit)
            finally:
                path.write_text(source)
            seconds += time.monotonic() - begin
            if state != "survived":
                break
        line = source.splitlines()[edit.line - 1].strip()
        return Outcome(edit.path, edit.line, edit.what, line, state, by, round(seconds, 1))


def _first_failure(text: str) -> str:
    for line in text.splitlines():
        if line.startswith(("FAILED ", "ERROR ", "FAIL: ")):
            return line.split(" - ")[0].removeprefix("FAILED ").removeprefix("FAIL: ")[:160]
    return "ended with an error"
