"""Makes runs of the benchmark cheap where no test looks at a time: engines are forks (command_server.py), and warm up without a while of waiting."""

import subprocess
from typing import Any

import pytest
from command_server import started

from benchmark.jobs import Turn
from benchmark.process import EngineProcess

TURN = EngineProcess.turn
"""As it is in the benchmark, for a test that wants it back."""


class _Subprocess:
    """The module `subprocess` as benchmark/process.py sees it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(subprocess, name)

    @staticmethod
    def Popen(program: list[str], **options: Any) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(started(program), **options)


def fork_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on. Engines of other checkouts and of peers with an environment of their own are still started as processes."""
    monkeypatch.setattr("benchmark.process.subprocess", _Subprocess())
    monkeypatch.setattr(EngineProcess, "turn", _turn)


def _turn(process: EngineProcess, warm_up: int, warm_seconds: float, runs: int) -> Turn:
    return TURN(process, warm_up, 0, runs)
