"""What each test costs: CPU seconds of its process and of all processes below that, written to a file as tests end.

`scripts/test` names the file in the environment; without it nothing is measured. The format of FileCheck tests and pytest's conftest.py have
a `Meter` each; both run in several processes that write to the one file.
"""

import json
import os
import resource
import sys
import time
from collections import defaultdict
from pathlib import Path

VARIABLE = "STEPWELL_TEST_COSTS"
_TICK = os.sysconf("SC_CLK_TCK")
_OFTEN = 1.0
"""Seconds between two looks through all processes of the system: one takes some milliseconds."""


class Meter:
    """Writes the costs of tests that follow one another."""

    def __init__(self) -> None:
        self._below: list[int] = []
        self._looked = -_OFTEN
        self._before = self._spent()

    def restart(self) -> None:
        """Leave out what was spent since the last test."""
        self._before = self._spent()

    def write(self, test: str) -> None:
        """Append what was spent since the last test to the file, as the cost of `test`."""
        spent = self._spent()
        line = json.dumps([test, round(max(0.0, spent - self._before), 4)]) + "\n"
        self._before = spent
        descriptor = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, line.encode())  # one call: lines of several processes do not mix
        finally:
            os.close(descriptor)

    def _spent(self) -> float:
        """CPU seconds of this process, of those below it that have ended, and of those that run."""
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + ended.ru_utime + ended.ru_stime + (self._running() if _has_children() else 0.0)

    def _running(self) -> float:
        if time.monotonic() > self._looked + _OFTEN:
            self._below, self._looked = _processes_below(os.getpid()), time.monotonic()
        return sum(map(_of_process, self._below))


def is_wanted() -> bool:
    """Whether the environment says where to write costs."""
    return VARIABLE in os.environ


def read(file: Path) -> dict[str, float]:
    """The CPU seconds of each test in a file that meters have written; none if there is no file."""
    found: dict[str, float] = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        test, seconds = json.loads(line)
        found[test] = found.get(test, 0.0) + seconds
    return found


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _processes_below(pid: int) -> list[int]:
    """All processes that one has started, and those that they have, as far as Linux tells."""
    below = defaultdict(list)
    for name in os.listdir("/proc") if sys.platform == "linux" else ():
        if name.isdecimal() and (fields := _fields(int(name))):
            below[int(fields[1])].append(int(name))
    found = list(below[pid])
    for process in found:
        found += below[process]
    return found


def _of_process(pid: int) -> float:
    """CPU seconds of a process, and of those of its children that it has waited for."""
    return sum(map(int, _fields(pid)[11:15])) / _TICK


def _fields(pid: int) -> list[str]:
    """The fields of a process's line in /proc from its state on; none if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
