"""What the machine gives of its cores at the moment: a short loop of multiply-adds in registers, timed between the turns of the engines.

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

UNDISTURBED = 0.85  # of the arithmetic that as many threads reached at best
STEPS = 1 << 21  # some milliseconds: long beside the time that a sleeping worker takes to wake, or two threads reach now more, now less
RUNS = 3  # of the loop, the fastest of which counts: what disturbs one alone is over
AT_FIRST = 20  # looks at each number of threads before anything is compared with the best of them


@dataclass
class Cores:
    """Processes that run nothing but the loop, on each of some numbers of threads, and sleep meanwhile. Raises Failure where they cannot."""

    threads: Sequence[int]
    folder: Path
    """Where their code is written."""

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
        """What so many threads reach now, of what they reached at best so far."""
        rate = threads / min(self._processes[threads].turn(1, 0, RUNS).seconds)
        self.best[threads] = max(rate, self.best.get(threads, 0.0))
        return rate / self.best[threads]

    def gain(self, threads: int) -> float:
        """How many times the arithmetic of one thread so many reached at best."""
        return self.best[threads] / self.best[1]
