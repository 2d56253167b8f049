"""The things of one caller of compiled code: its workspace, its number of threads, and a way to stop its run."""

import threading
from concurrent.futures import CancelledError

from stepwell.runtime.openmp import openmp
from stepwell.runtime.workspaces import Workspaces

SPIN_MILLISECONDS = 1
"""Longer than the gaps between the parallel loops of a run, in which sleeping threads would have to be woken, and hardly longer: in the time after a
run another caller could use the cores."""


class Context:
    """The workspaces and the number of threads for all models that one thread runs, and a switch that stops the run.

    A thread that has entered a context runs every model with it: compiled code then takes a workspace of the context instead of one of its own, so
    all versions of a model, and all models, share one workspace for each caller.
    """

    def __init__(self, threads: int, *, spins: bool) -> None:
        """`spins` is whether idle threads of its team keep their cores busy for `SPIN_MILLISECONDS` before they sleep. They should not where other
        threads need the cores.
        """
        self.threads = threads
        self.workspaces = Workspaces(kept=1)
        """A run takes one, and one is kept: the largest that was needed of late."""
        self.stopped = False
        """Whether its run is to end; set from any thread, and checked where a loop of compiled code asks whether to go on."""
        self._spin = SPIN_MILLISECONDS if spins else 0

    def enter(self) -> None:
        """Make this thread run models with this context from now on."""
        current.context = self
        runtime = openmp()
        if runtime is not None:
            runtime.bound_block_time(self._spin)
            runtime.set_threads(self.threads)

    def check(self) -> None:
        """Raise CancelledError if the run is to end."""
        if self.stopped:
            raise CancelledError


class _Current(threading.local):
    context: Context | None = None


current = _Current()
"""The context that the current thread has entered."""
