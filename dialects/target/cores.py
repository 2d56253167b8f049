"""The number of cores that the process may use, and of threads in a run."""

import operator
import os
import platform
from functools import cache
from pathlib import Path
from typing import Any

from stepwell.dialects.support.errors import InputError, shown

MAX_THREADS = 1024
"""The largest number of threads in a run. OpenMP ends the process if the system cannot create more threads."""


def thread_count(threads: Any) -> int:
    """The number of threads in a run: `threads`, or if that is None, one for each core that the process may use.

    Raises InputError if it is not an integer from 1 to `MAX_THREADS`.
    """
    if threads is None:
        return min(available_cores(), MAX_THREADS)
    try:
        count = 0 if isinstance(threads, bool) else operator.index(threads)
    except TypeError:
        count = 0
    if not 1 <= count <= MAX_THREADS:
        raise InputError(f"threads: expected a whole number from 1 to {MAX_THREADS}, or None for one for each core, got {shown(threads)}")
    return count


@cache
def available_cores() -> int:
    """The number of cores that the process may use: its affinity, within the quota of its control group; at least 1."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota() if platform.system() == "Linux" else None
    return bound if quota is None else max(1, min(bound, quota))


def _quota() -> int | None:
    """The CPU quota of the control group in whole cores, rounded up; None if there is none."""
    try:
        allowed, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        return None  # no control groups of version 2 here, or none with a quota
    return None if allowed == "max" else -(-int(allowed) // int(period))
