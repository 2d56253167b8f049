"""Where requests of a tuning run are answered: the interface, and child processes on this machine."""

import pickle
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Protocol, TypeVar, cast

from stepwell.database.records import State
from stepwell.dialects.support.errors import InputError, shown
from stepwell.dialects.support.processes import Lock
from stepwell.tuning.blobs import BlobStore, Parcel, pack
from stepwell.tuning.children import Children, Plugins, Start
from stepwell.tuning.device import Fault, Request
from stepwell.tuning.work_folders import WorkFolder, alone

T = TypeVar("T")
Report = Callable[[int, Parcel | Fault], None]
"""Receives the number of a request and its answer, still packed."""
OnDone = Callable[[int, T | Fault], None]
"""Receives the number of a request and its result as soon as it is there. An exception that it raises, such as Ctrl-C, ends the build."""


class Executor(Protocol):
    """Answers requests in other processes: a request that fails, crashes or hangs has a fault as its result and affects no other."""

    store: BlobStore
    """Holds large data: put it in once, and let requests contain the blob, whose `array` reads it in the process that answers."""

    def build(self, requests: Sequence[Request[T]], timeout: float, on_done: OnDone[T] | None = None) -> list[T | Fault]:
        """The results of the requests, in their order; several are answered at once, in processes that answer further ones later.

        `timeout` bounds each in seconds, from the moment when a process begins with it. A fault is FAILED if the request raised a StepwellError or
        cannot be sent, CRASHED if its process ended (also by any other exception), with the last lines that it said, or TIMED_OUT.
        Raises ResourceError if processes cannot be started; after Ctrl-C no process works on.
        """

    def run(self, request: Request[T], timeout: float) -> T | Fault:
        """The result of a request that measures: in a fresh process, and one at a time on each machine. Otherwise like `build`."""

    def close(self) -> None:
        """End all processes and remove temporary files."""


class LocalExecutor:
    """Child processes on this machine."""

    def __init__(self, jobs: int, *, session: str | None = None, plugins: Plugins | None = None, unset: tuple[str, ...] = ()) -> None:
        """With up to `jobs` builds at once, and plugins, by default those that this process has loaded.

        Executors of one session share their blobs. The children do not get the variables `unset` of the environment.
        Raises InputError, ResourceError.
        """
        if jobs < 1:
            raise InputError(f"jobs: expected a number of processes from 1, got {shown(jobs)}")
        self._folder = WorkFolder(session)
        self.store = BlobStore(self._folder.path)
        self._start = Start(self._folder.path, Plugins.loaded_here() if plugins is None else plugins, unset)
        self._builders = Children(self._start, jobs)
        self._runner: Children | None = None
        self._lock = Lock()  # a run has the machine for itself

    def build(self, requests: Sequence[Request[T]], timeout: float, on_done: OnDone[T] | None = None) -> list[T | Fault]:
        """As in `Executor`."""
        return results(requests, lambda packed, report: self.answer(packed, timeout, report), on_done)

    def run(self, request: Request[T], timeout: float) -> T | Fault:
        """As in `Executor`."""
        return results([request], lambda packed, report: self.answer(packed, timeout, report, fresh=True), None)[0]

    def answer(
        self, requests: Sequence[Parcel], timeout: float, report: Report, *, fresh: bool = False, is_stopped: Callable[[], bool] = lambda: False
    ) -> None:
        """Report the answer to each packed request. With `fresh`, each has a new process and the machine for itself.

        Another thread ends it by making `is_stopped` true and calling `kill`.
        """
        packed = [request.data for request in requests]
        with self._lock:
            if not fresh:
                with closing(self._builders.ask(packed, timeout, is_stopped)) as answers:
                    for number, answer in answers:
                        report(number, answer)
                return
            for number, request in enumerate(packed):
                with alone(), closing(Children(self._start, 1)) as self._runner, closing(self._runner.ask([request], timeout, is_stopped)) as answers:
                    report(number, next(answers)[1])
                self._runner = None

    def kill(self) -> None:
        """Kill the processes at work; a call in another thread reports them as crashed."""
        for children in (self._builders, self._runner):
            if children is not None:
                children.kill()

    def close(self) -> None:
        """As in `Executor`. A request that another thread waits for must have been killed."""
        with self._lock:
            self._builders.close()
            self._folder.close()


def results(requests: Sequence[Request[T]], answer: Callable[[Sequence[Parcel], Report], None], on_done: OnDone[T] | None) -> list[T | Fault]:
    """The results of requests. `answer` gets them packed, and a function to which it reports the answer to each."""
    found: dict[int, T | Fault] = {}

    def done(number: int, result: T | Fault) -> None:
        found[number] = result
        if on_done is not None:
            on_done(number, result)

    packed: dict[int, Parcel] = {}
    for number, request in enumerate(requests):
        try:
            packed[number] = pack(request)
        except Exception as error:  # any method of a request may raise anything
            done(number, Fault(State.FAILED, f"the request cannot be sent to another process: {type(error).__name__}: {error}"))
    numbers = list(packed)
    answer(list(packed.values()), lambda place, parcel: done(numbers[place], cast("T | Fault", _unpacked(parcel))))
    return [found[number] for number in range(len(requests))]


def _unpacked(parcel: Parcel | Fault) -> object:
    """The answer in a parcel, or the fault."""
    if isinstance(parcel, Fault):
        return parcel
    try:
        return pickle.loads(parcel.data)
    except Exception as error:  # any class may raise anything, and may be missing here
        return Fault(State.FAILED, f"the answer cannot be read: {type(error).__name__}: {error}")
