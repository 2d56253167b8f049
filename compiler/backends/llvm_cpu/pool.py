"""Compile many units in several processes, kept warm between models."""

import atexit
import contextlib
import os
import select
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from queue import SimpleQueue
from typing import IO, Any, BinaryIO, cast

from stepwell.backends.llvm_cpu.forks import Forked, may_fork
from stepwell.backends.llvm_cpu.lifetime import how_it_ended, in_lasting_thread
from stepwell.backends.llvm_cpu.objects import Unit, compile_unit, make_engine_context
from stepwell.backends.llvm_cpu.worker import receive, send
from stepwell.dialects.support.errors import CodegenError, StepwellError
from stepwell.dialects.support.extensions import extending_modules
from stepwell.dialects.support.files import nameless_file
from stepwell.dialects.support.processes import Lock
from stepwell.dialects.target.cores import available_cores
from stepwell.plugin_files import of_code_generation
from stepwell.runtime.openmp import openmp

# A process imports for 0.5 s before it compiles units of 0.05 to 0.2 s each; a forked one starts at once.
_WORTH_A_PROCESS = 12
_WORTH_A_FORK = 4
_IDLE_SECONDS = 60.0
# The worker sees the modules of this process, wherever they come from, and not those of the current folder; __main__ is not imported.
_START = "import sys; sys.path[:] = {path!r}; from stepwell.backends.llvm_cpu.worker import main; main({parent})"


class Worker:
    """One compiler process and the pipes to it."""

    def __init__(self) -> None:
        self._log = nameless_file()
        # The pipes have no buffers: a forked child, which has them too, must not find data there to write a second time.
        self._process = Forked(self._log) if may_fork() else _spawned(self._log)
        self._requests = cast(BinaryIO, self._process.stdin)
        self._answers = cast(BinaryIO, self._process.stdout)
        self._poll = select.poll()
        self._poll.register(self._answers, select.POLLIN)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, request: Any, about: str, timeout: float) -> bytes:
        """The process's answer to a request (see `worker`). Raises its error, and CodegenError, naming the subject `about`, if the process crashes or
        is not done in time.
        """
        try:
            send(self._requests, request)
            if not self._poll.poll(timeout * 1000):
                self.kill()
                raise CodegenError(f"{about}: the compiler process was stopped: it was not done in time")
            answer = receive(self._answers)
            # both processes share this file offset: the log is truncated when the process is done, and not before, as it may have ended
            self._log.seek(0)
            self._log.truncate()
        except (EOFError, BrokenPipeError):
            raise CodegenError(f"{about}: the compiler process ended {self._end()}") from None
        if isinstance(answer, StepwellError):
            raise answer
        return bytes(answer)

    def _end(self) -> str:
        code = self._process.wait()
        self._log.seek(0)
        return how_it_ended(code, self._log.read())

    def close(self) -> None:
        """End the process and close its pipes."""
        self.kill()
        for pipe in (self._requests, self._answers):
            with contextlib.suppress(BrokenPipeError):  # from an unsent request
                pipe.close()
        self._log.close()

    def kill(self) -> None:
        """Kill the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()


def _spawned(log: IO[bytes]) -> "subprocess.Popen[bytes]":
    """A new process, which imports all modules itself."""

    def start() -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-c", _START.format(path=sys.path, parent=os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            bufsize=0,
            env={"OPENBLAS_NUM_THREADS": "1", **os.environ},  # workers multiply nothing, and starting threads takes longer than the rest of numpy
            start_new_session=True,  # Ctrl-C in the terminal is for us, and we end the worker
        )

    return in_lasting_thread(start)


class Pool:
    """Worker processes, started on demand, ended after a minute without work and at the end of the program."""

    def __init__(self) -> None:
        self._workers: list[Worker] = []
        self._lock = Lock()
        self._is_used = False
        """Whether a call of `compile` goes on."""
        self._timer: threading.Timer | None = None

    def start(self, jobs: int, *, wait: bool = True) -> None:
        """Make sure that `jobs` processes are running, or starting up while the caller does something else.

        Without `wait` it does nothing while another thread uses them: then they exist.
        """
        if self._is_used and not wait:
            return
        with self._lock:
            self._drop([worker for worker in self._workers if not worker.alive])
            while len(self._workers) < jobs:
                self._workers.append(Worker())
            self._watch()

    @property
    def warm(self) -> bool:
        """Whether a process exists."""
        return any(worker.alive for worker in self._workers)

    def compile(self, units: Sequence[Unit], jobs: int, libraries: tuple[str, ...], timeout: float) -> list[bytes]:
        """The objects of `units`, in order. The first error stops the work. One call at a time."""
        with self._lock:
            self.start(jobs)
            free: SimpleQueue[Worker] = SimpleQueue()
            for worker in self._workers[:jobs]:
                free.put(worker)

            def compiled(unit: Unit) -> bytes:
                worker = free.get()
                try:
                    return worker.ask((unit, libraries), f"@{unit.name}", timeout)
                finally:
                    free.put(worker)

            # The longest first, so that the workers end together.
            order = sorted(range(len(units)), key=lambda i: -len(units[i].bytecode))
            executor = ThreadPoolExecutor(max(jobs, 1))
            try:
                self._is_used = True
                objects = {i: executor.submit(compiled, units[i]) for i in order}
                errors = (future.exception() for future in as_completed(objects.values()))
                error = next(filter(None, errors), None)
            except BaseException:  # an interrupt: the results of the running processes are no longer needed
                for worker in self._workers:
                    worker.kill()
                raise
            finally:
                executor.shutdown(cancel_futures=True)
                self._is_used = False
                self._watch()
            if error is not None:
                raise error
            return [objects[i].result() for i in range(len(units))]

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._drop(list(self._workers))

    def forget(self) -> None:
        """Leave the processes to the parent from which this process was forked."""
        self.__init__()  # type: ignore[misc]  # anew, as `__init__` left it

    def _drop(self, workers: list[Worker]) -> None:
        for worker in workers:
            self._workers.remove(worker)
            worker.close()

    def _watch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(_IDLE_SECONDS, self.close)
        self._timer.daemon = True
        self._timer.start()


_pool = Pool()
atexit.register(_pool.close)
os.register_at_fork(after_in_child=_pool.forget)


_alone = False


def compile_in_process() -> None:
    """From now on compile only in this process: it is a compiler process itself."""
    global _alone
    _alone = True


def prestart(units: int) -> None:
    """Start the compiler processes for about `units` units, if that pays, so that they are ready when the units are."""
    if _elsewhere(units):
        _pool.start(min(available_cores(), units), wait=False)


def _elsewhere(units: int) -> bool:
    """Whether that many units are compiled in other processes."""
    enough = units >= (_WORTH_A_FORK if _pool.warm or may_fork() else _WORTH_A_PROCESS)
    extended = extending_modules(code_generation=True) or of_code_generation()  # by plugins, which the processes do not have
    return enough and not _alone and bool(sys.executable) and available_cores() > 1 and not extended


def shut_down() -> None:
    """End the compiler processes; they start again when they are needed."""
    _pool.close()


def compile_units(units: Sequence[Unit], *, jobs: int | None = None, timeout: float = 600.0) -> dict[str, bytes]:
    """The object of each unit, by its name, in order.

    `jobs` processes do it (default: one for each core, if there are enough units for that to pay and no plugin changes code generation; 0: this
    process). Raises CodegenError or PassError naming the function if one cannot be compiled, CodegenError if its compiler process crashes or takes
    more than `timeout` seconds.
    """
    libraries = tuple(runtime.path for runtime in (openmp(),) if runtime is not None)
    if jobs is None:
        jobs = available_cores() if _elsewhere(len(units)) else 0
    if jobs == 0 or not sys.executable:
        context = make_engine_context()
        objects = [compile_unit(unit, context, libraries) for unit in units]
    else:
        objects = _pool.compile(units, min(jobs, len(units)), libraries, timeout)
    return dict(zip((unit.name for unit in units), objects, strict=True))
