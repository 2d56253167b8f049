"""The memory available to this process: that of the machine, within its control groups and the limits of the process."""

import os
import sys
from functools import cache
from pathlib import Path

PROCESS, GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


@cache
def memory_of_process() -> int:
    """Bytes of memory available to this process, determined once; 8 GiB if unknown."""
    return min([*_of_machine(), *_of_groups(PROCESS, GROUPS), *_of_limits()], default=8 << 30)


def _of_machine() -> list[int]:
    try:
        found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # the function or the names, on other systems
        return []
    return [found] if found > 0 else []


def _of_groups(process: Path, root: Path) -> list[int]:
    """The limits of the control groups that the process is in, and of those around them, in both versions of the interface."""
    try:
        lines = process.read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "memory" not in controllers.split(","):
            continue
        folder, file = (root / "memory", "memory.limit_in_bytes") if controllers else (root, "memory.max")
        inner = folder / path.lstrip("/")
        for group in (inner, *inner.parents):
            found += _number(group / file)
            if group == folder:
                break
    return found


def _number(file: Path) -> list[int]:
    try:
        return [int(file.read_text())]
    except (OSError, ValueError):  # no such group in this namespace, or no limit: "max"
        return []


def _of_limits() -> list[int]:
    if sys.platform == "win32":
        return []
    import resource

    soft = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    return [limit for limit in soft if limit != resource.RLIM_INFINITY]
