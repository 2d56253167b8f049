"""Runs the commands in the tests' own process, or as processes of their own."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from command_server import started

from stepwell.cli import main as stepwell, opt

INPUTS = Path(__file__).resolve().parents[1] / "compiler" / "cli" / "Inputs"
DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.onnx"


@dataclass
class Ended:
    """How a command ended."""

    status: int
    out: str
    err: str

    def refused(self, status: int, *parts: str) -> None:
        """Check that it ended with `status` and one line of error (usage aside) that has all `parts` in it."""
        assert self.status == status, self.err
        assert "Traceback" not in self.err
        errors = [line for line in self.err.splitlines() if ": error: " in line]
        assert len(errors) == 1, self.err
        for part in parts:
            assert part in errors[0]


class Commands:
    """Calls of the two commands, with what they print captured."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self.capture = capture

    def stepwell(self, *arguments: str | Path) -> Ended:
        return self._call(stepwell.main, arguments)

    def opt(self, *arguments: str | Path) -> Ended:
        return self._call(opt.main, arguments)

    def _call(self, main, arguments) -> Ended:
        self.capture.readouterr()
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as end:  # argparse ends the process itself
            status = int(end.code or 0)
        out, err = self.capture.readouterr()
        return Ended(status, out, err)


def process(module: str, *arguments: str | Path, text: str | None = None, is_fork: bool = True, **environment: str) -> Ended:
    """Run a command as a process of its own; `text` is its standard input. See command_server.py for which must not be forks."""
    command = [sys.executable, "-m", f"stepwell.cli.{module}", *map(str, arguments)]
    ended = subprocess.run(
        started(command) if is_fork else command,
        input=text, capture_output=True, text=True, check=False, env={**os.environ, **environment}, timeout=300,
    )  # fmt: skip
    return Ended(ended.returncode, ended.stdout, ended.stderr)
