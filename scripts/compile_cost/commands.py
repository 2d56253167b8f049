"""Run a command to its end and account for the CPU seconds of every process that it started. Linux."""

import ctypes
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CommandError", "Cost", "adopt_orphans", "run"]

_PR_SET_CHILD_SUBREAPER = 36
_TICKS = os.sysconf("SC_CLK_TCK")
_STAT_OF_CHILDREN = slice(13, 15)  # cutime and cstime in /proc/PID/stat, of the fields that follow the command's name in parentheses


class CommandError(Exception):
    """A command ended with another status than 0."""


@dataclass(frozen=True)
class Cost:
    """The cost of a command."""

    own: float
    """CPU seconds, user and system, of its first process."""
    workers: float
    """CPU seconds of all processes that this one started, those that outlived it included."""
    wall: float
    """Seconds from its start to its end."""
    output: str
    """Its standard output."""

    @property
    def cpu(self) -> float:
        """CPU seconds of all processes."""
        return self.own + self.workers


def adopt_orphans() -> None:
    """Become the parent of processes that outlive the command that started them: `run` then ends them and counts their time too."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def run(command: Sequence[str | Path], environment: Mapping[str, str], folder: Path) -> Cost:
    """Run a command in a folder. Raises CommandError, with its output, if its status is not 0.

    Call `adopt_orphans` before. New child processes of this process that are left when the command has ended are killed.
    """
    known = _children()
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as said:
        begin = time.perf_counter()
        process = subprocess.Popen(
            [*map(str, command)], env=dict(environment), cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=said
        )  # fmt: skip
        # It is not reaped yet, so that its times can still be read; they are in ticks of 10 ms, and wait4 tells the sum of all exactly.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        wall = time.perf_counter() - begin
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        total = usage.ru_utime + usage.ru_stime
        workers = min(sum(map(int, fields[_STAT_OF_CHILDREN])) / _TICKS, total)
        late = _end_orphans(known)
        output.seek(0)
        said.seek(0)
        if process.returncode != 0:
            raise CommandError(f"{' '.join(map(str, command))}: status {process.returncode}\n{output.read()}{said.read()}")
        return Cost(total - workers, workers + late, wall, output.read())


def _children() -> set[int]:
    return set(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()))


def _end_orphans(known: set[int]) -> float:
    """Kill the processes that outlived the command, but for the `known` ones; their CPU seconds."""
    seconds = 0.0
    while orphans := _children() - known:
        for orphan in orphans:
            os.kill(orphan, signal.SIGKILL)
            _, _, usage = os.wait4(orphan, 0)
            seconds += usage.ru_utime + usage.ru_stime
    return seconds
