"""Trying one fault: in a copy of the checkout, by the tests that should see it."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from .edits import Edit
from .selection import FilesToRun

_COPIED = ("compiler", "dialects", "passes", "test", "scripts", "examples", "docs", "lit.cfg.py", "pyproject.toml", "README.md")


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

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in _COPIED:
            source = root / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
            elif source.exists():
                shutil.copy(source, folder / name)
        # The package as it is installed is mapped from three folders; links do the same for a copy (and win over the installed one).
        package = folder / "build" / "package" / "stepwell"
        package.mkdir(parents=True)
        for entry in (*(folder / "compiler").iterdir(), folder / "dialects", folder / "passes"):
            (package / entry.name).symlink_to(entry)
        if (root / "build" / "zoo").is_dir():
            (folder / "build" / "zoo").symlink_to(root / "build" / "zoo")
        self.environment = {
            **os.environ, "PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1", "OMP_WAIT_POLICY": "passive", "STEPWELL_CACHE": "0",
        }  # fmt: skip

    def ask(self, stages: Sequence[FilesToRun], limit: float) -> tuple[str, str]:
        """Run the tests until one fails: "survived", "killed" or "time", and which runner said so. `limit` is in seconds, for each runner."""
        tools = Path(sys.executable).parent
        runs = []
        for tests in stages:
            if tests.lit:
                runs.append(("lit", [str(tools / "lit"), "-q", "-j1", "--max-failures=1", *tests.lit]))
            if tests.pytest:
                runs.append(("pytest", [str(tools / "pytest"), "-q", "-x", "-p", "no:cacheprovider", "-m", "not zoo", *tests.pytest]))
        for name, command in runs:
            try:
                ended = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=limit, check=False)
            except subprocess.TimeoutExpired:
                return "time", name
            if ended.returncode not in (0, 5):  # 5: pytest has deselected them all
                return "killed", f"{name}: {_first_failure(ended.stdout)}"
        return "survived", ""

    def attempt(self, edit: Edit, stages: Sequence[FilesToRun], limit: float) -> Outcome:
        """Plant the fault, ask the tests, take it away again."""
        path = self.folder / edit.path
        source = path.read_text()
        begin = time.monotonic()
        path.write_text(edit.apply(source))
        try:
            state, by = self.ask(stages, limit)
        finally:
            path.write_text(source)
        line = source.splitlines()[edit.line - 1].strip()
        return Outcome(edit.path, edit.line, edit.what, line, state, by, round(time.monotonic() - begin, 1))


def _first_failure(text: str) -> str:
    for line in text.splitlines():
        if line.startswith(("FAILED ", "ERROR ", "FAIL: ")):
            return line.split(" - ")[0].removeprefix("FAILED ").removeprefix("FAIL: ")[:160]
    return "ended with an error"
