"""The process of one engine: loads and runs a model on request, and waits on its pipe in between."""

import gc
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from benchmark import engines, system
from benchmark.jobs import Failure, Feed, Job, Loaded, Profile, Turn
from benchmark.throughput import closed_loop

__all__ = ["main"]


class Worker:
    """One method for each thing that can be asked for."""

    def __init__(self) -> None:
        self.job: Job | None = None
        self.engine: engines.Engine | None = None
        self.feeds: list[Feed] = []

    def load(self, job: Job) -> Loaded:
        """Import the engine and load the model."""
        self.engine, self.feeds = None, []  # of a job before, whose memory the engine may have again
        before = system.resident()
        start = time.perf_counter()
        version = engines.IMPORTS[job.contestant.engine]()
        imported = time.perf_counter()
        self.job, self.engine = job, engines.load(job)
        loaded = time.perf_counter()
        return Loaded(version, self.engine.settings, self.engine.inputs(), imported - start, loaded - imported, before)

    def feed(self, feeds: list[Feed]) -> None:
        """Receive the inputs of all further runs."""
        self.feeds = feeds

    def outputs(self) -> list[list[Any]]:
        """The outputs for each of the inputs."""
        return [self._engine().arrays(self._engine().call(feed)) for feed in self.feeds]

    def turn(self, warm_up: int, warm_seconds: float, runs: int) -> Turn:
        """Run the inputs in turn: untimed at least `warm_up` times and for as many seconds, then `runs` times, timed one by one."""
        call, feeds, clock = self._engine().call, self.feeds, time.perf_counter
        seconds = []
        gc.collect()
        gc.disable()
        try:
            begin, cpu = clock(), time.process_time()
            done = 0
            while done < warm_up or (warm_up and clock() - begin < warm_seconds):
                call(feeds[done % len(feeds)])
                done += 1
            for i in range(runs):
                feed = feeds[i % len(feeds)]
                start = clock()
                result = call(feed)
                seconds.append(clock() - start)
                del result  # freed outside of what is timed, before the next run wants memory
            return Turn(seconds, time.process_time() - cpu)
        finally:
            gc.enable()

    def throughput(self, callers: int, warm_up: int, warm_seconds: float, requests: int) -> Turn:
        """Run requests of several callers."""
        start = getattr(self._engine(), "start", None)
        if start is None:
            raise Failure("it has no requests of several callers here")
        return closed_loop(start, self.feeds, callers, warm_up, warm_seconds, requests)

    def memory(self) -> dict[str, int]:
        """Memory of the process now; of stepwell also that of the model, as its plan says."""
        model = getattr(self._engine(), "model", None)
        own = {} if model is None else {"arena": model.memory.weights_bytes, "workspace": model.memory.workspace_bytes}
        return {**system.memory(), **own}

    def profile(self, repeats: int) -> Profile:
        """The time of each part of the model; stepwell only."""
        from benchmark.profile import profile

        model = getattr(self._engine(), "model", None)
        if model is None or self.job is None:
            raise Failure("only stepwell can be profiled")
        return profile(model, self.feeds[0], self.job.threads, repeats, self.job.contestant.target)

    def _engine(self) -> engines.Engine:
        if self.engine is None:
            raise Failure("no model was loaded")
        return self.engine


def main() -> None:
    """Answer requests (name, arguments) with (True, answer) or (False, error text), until the other end closes the pipe."""
    pipe: Connection[Any, Any] = Connection(int(sys.argv[1]))
    worker = Worker()
    while True:
        try:
            name, arguments = pipe.recv()
        except EOFError:
            return
        method: Callable[..., Any] = getattr(worker, name)
        try:
            answer = (True, method(*arguments))
        except Exception as error:  # whatever an engine raises is the answer
            text = str(error) if isinstance(error, Failure) else f"{type(error).__name__}: {error}"
            answer = (False, text)
        pipe.send(answer)


if __name__ == "__main__":
    main()
