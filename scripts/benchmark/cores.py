"""Measures the available share of the machine's cores with a short loop of multiply-adds in registers, timed between the turns of the engines.

Cores of a virtual machine are threads of a core that others may use meanwhile, or both threads of one core: two then do the work of one. No count of
busy processes shows that, as it is not this system's doing.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from benchmark.jobs import Contestant, Job
from benchmark.peak import source
from benchmark.process import EngineProcess
from stepwell.dialects.target.registry import resolve

__all__ = ["UNDISTURBED", "Cores"]

UNDISTURBED = 0.85  # relative to the best rate of as many threads
STEPS = 1 << 21  # some milliseconds: long compared with the wake-up time of a worker and with random variation between two threads
RUNS = 3  # runs of the loop; the fastest counts, because single disturbances then drop out
AT_FIRST = 20  # measurements with each number of threads before anything is compared with their best


@dataclass
class Cores:
    """Processes that only run the loop, on each of several numbers of threads, and sleep in between. Raises Failure if they cannot."""

    threads: Sequence[int]
    folder: Path
    """The folder for their code."""

    def __post_init__(self) -> None:
        self.best: dict[int, float] = {}
        self._processes: dict[int, EngineProcess] = {}

    def __enter__(self) -> "Cores":
        machine = resolve("host")
        with ExitStack() as stack:
            for count in dict.fromkeys((1, *self.threads)):
                path = self.folder / f"cores{count}.mlir"
                path.write_text(source(machine, count, STEPS))
                job = Job(Contestant("stepwell"), str(path), count, spin=False, level="affine")
                process = stack.enter_context(EngineProcess(job))
                process.load()
                process.feed([{}])
                self._processes[count] = process
            for _ in range(AT_FIRST):
                for count in self._processes:
                    self.share(count)
                    time.sleep(0.01)
            self._close: Callable[[], None] = stack.pop_all().close
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._close()

    def share(self, threads: int) -> float:
        """The current rate of that many threads, relative to their best so far."""
        rate = threads / min(self._processes[threads].turn(1, 0, RUNS).seconds)
        self.best[threads] = max(rate, self.best.get(threads, 0.0))
        return rate / self.best[threads]

    def gain(self, threads: int) -> float:
        """The best rate of that many threads, relative to one thread."""
        return self.best[threads] / self.best[1]
