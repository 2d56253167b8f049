"""The load that other processes put on the machine, on Linux; None elsewhere."""

import os
import time
from pathlib import Path
from types import TracebackType

__all__ = ["BUSY", "ForeignLoad", "busy_seconds", "foreign_load"]

BUSY = 0.1
"""Cores that other processes may keep busy, within the accuracy of `ForeignLoad`, before timings count as disturbed."""
WATCH = 0.3
"""The shortest observation, in seconds: the kernel counts processor time in hundredths of a second."""


def busy_seconds() -> float | None:
    """Seconds of processor time that the whole machine has spent since it started, over all cores."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    except OSError:
        return None
    user, nice, system, _idle, _wait, interrupts, soft = (int(field) for field in fields[:7])
    return (user + nice + system + interrupts + soft) / os.sysconf("SC_CLK_TCK")


def foreign_load(seconds: float = 1.0) -> float | None:
    """The number of cores that the rest of the machine keeps busy, measured while this process sleeps."""
    with ForeignLoad() as load:
        time.sleep(seconds)
    return load.cores


class ForeignLoad:
    """Measures, inside `with`, how many cores others keep busy while this process works; `cores` is None if unknown.

    The block should take `WATCH` seconds or more: the end sleeps until they are over.
    """

    def __init__(self) -> None:
        self.cores: float | None = None

    def __enter__(self) -> "ForeignLoad":
        self._begin, self._own, self._busy = time.perf_counter(), time.process_time(), busy_seconds()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._busy is None or kind is not None:
            return
        time.sleep(max(0.0, WATCH - (time.perf_counter() - self._begin)))
        busy = busy_seconds()
        if busy is not None:
            others = busy - self._busy - (time.process_time() - self._own)
            self.cores = max(0.0, others) / (time.perf_counter() - self._begin)
