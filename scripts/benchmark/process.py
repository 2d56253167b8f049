"""The benchmark's end of an engine process."""

import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

import environment
from checkouts import linked

from benchmark import engines
from benchmark.jobs import PEERS, Failure, Feed, Job, Loaded, Profile, Turn

__all__ = ["EngineProcess"]

# It sees the modules of this process, wherever they come from, and not those of the current folder.
_START = "import sys; sys.path[:] = {path!r}; from benchmark.worker import main; main()"
# Of a peer, the modules of its own environment, and from this one the scripts alone.
_START_PEER = "import sys; sys.path.insert(0, {scripts!r}); from benchmark.worker import main; main()"


class EngineProcess:
    """A process of its own for a job. It sleeps whenever it is not asked for anything. Every method raises Failure."""

    def __init__(self, job: Job, timeout: float = 900.0) -> None:
        self.job = job
        self.timeout = timeout  # seconds for one answer
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (open as long as the process is)
        self._pipe, theirs = multiprocessing.Pipe()
        inherited = {name: value for name, value in os.environ.items() if name not in engines.CONTROLLED}
        path = list(sys.path)
        self._links = tempfile.TemporaryDirectory(prefix="stepwell-checkout-")
        if job.contestant.checkout:
            try:
                package = str(linked(Path(job.contestant.checkout), Path(self._links.name)))
            except OSError as error:
                raise Failure(str(error)) from None
            path.insert(0, package)
            inherited["PYTHONPATH"] = package  # for it, and for the processes that it compiles in
        if job.contestant.engine in PEERS:
            inherited.pop("PYTHONPATH", None)
            program = [str(environment.python(environment.PEERS)), "-c", _START_PEER.format(scripts=str(Path(__file__).resolve().parent.parent))]
        else:
            program = [sys.executable, "-c", _START.format(path=path)]
        self._process = subprocess.Popen(
            [*program, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env={**inherited, **engines.environment(job)},
        )
        theirs.close()

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked for more."""
        return self._process.poll() is None

    def load(self, job: Job | None = None) -> Loaded:
        """Load the model of the job, or of another job of the same contestant, threads and cache in its place."""
        self.job = job or self.job
        return self._ask("load", self.job)

    def feed(self, feeds: list[Feed]) -> None:
        """Hand over the inputs of all runs to come."""
        self._ask("feed", feeds)

    def outputs(self) -> list[list[Any]]:
        """The outputs for each of the inputs."""
        return self._ask("outputs")

    def turn(self, warm_up: int, warm_seconds: float, runs: int) -> Turn:
        """A turn of timed runs, after at least `warm_up` runs and, if that is not 0, at least `warm_seconds` that are not timed."""
        return self._ask("turn", warm_up, warm_seconds, runs)

    def throughput(self, callers: int, warm_up: int, warm_seconds: float, requests: int) -> Turn:
        """A turn of several callers, each of which waits for an answer before its next request; see `closed_loop`."""
        return self._ask("throughput", callers, warm_up, warm_seconds, requests)

    def memory(self) -> dict[str, int]:
        """Memory of the process."""
        return self._ask("memory")

    def profile(self, repeats: int) -> Profile:
        """The time of each kernel."""
        return self._ask("profile", repeats)

    def close(self) -> None:
        """End the process."""
        self._pipe.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
        self._links.cleanup()

    def __enter__(self) -> "EngineProcess":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _ask(self, name: str, *arguments: Any) -> Any:
        try:
            self._pipe.send((name, arguments))
            if not self._pipe.poll(self.timeout):
                self._process.kill()
                self._process.wait()
                raise Failure(f"no answer to '{name}' within {self.timeout:g} s")
            good, answer = self._pipe.recv()
        except (EOFError, OSError):
            raise Failure(f"the process ended in '{name}' with status {self._process.wait()}{self._last_words()}") from None
        if not good:
            raise Failure(answer)
        return answer

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return f", having said: {' / '.join(lines[-3:])}" if lines else ""
