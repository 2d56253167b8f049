"""The functions that the processes of a dask pool call: each answers requests in children of its own, so that no request ends or blocks it."""

import os
import signal
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from stepwell.cache.fingerprint import source_digest
from stepwell.dialects.support.digests import file_digest
from stepwell.dialects.support.installed import version
from stepwell.dialects.support.processes import Lock
from stepwell.dialects.target.host import identity
from stepwell.tuning.blobs import Blob, Parcel
from stepwell.tuning.children import Plugins
from stepwell.tuning.device import Fault
from stepwell.tuning.executor import LocalExecutor

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Versions:
    """The versions of everything that must be the same in all processes of a pool."""

    stepwell: str
    """The version, and the beginning of the digest of the sources."""
    bindings: str
    """The version of torch-mlir."""
    plugins: tuple[tuple[str, str], ...]
    """The path of each plugin file and the digest of its content, empty for a missing file."""

    def __str__(self) -> str:
        plugins = (f"plugin {path} ({digest[:12] or 'no such file'})" for path, digest in self.plugins)
        return ", ".join((f"stepwell {self.stepwell}", f"torch-mlir {self.bindings}", *plugins))


def versions(plugins: tuple[str, ...]) -> Versions:
    """The versions here, where the pool's user has loaded these plugin files."""
    digests = ((path, (file_digest(Path(path)) or b"").hex()) for path in plugins)
    return Versions(f"{version('stepwell')} (sources {source_digest()[:12]})", str(version("torch-mlir")), tuple(digests))


@dataclass(frozen=True)
class About:
    """A process of a pool."""

    host: str
    versions: Versions
    processor: str
    """A text that identifies the kind of machine."""


def about(plugins: tuple[str, ...]) -> About:
    """This process."""
    return About(socket.gethostname(), versions(plugins), identity())


@dataclass(frozen=True)
class Session:
    """One user of a pool."""

    name: str
    plugins: Plugins
    versions: Versions


@dataclass(frozen=True)
class Missing:
    """A reason why a request was not answered: the machine lacks blobs."""

    worker: str
    """The address of the process to which to send them."""
    store: str
    """The host and folder of its store, which it may share with other processes."""
    blobs: tuple[Blob, ...]


@dataclass(frozen=True)
class Refused:
    """A reason why a request was not answered: the process has other versions. It joined the pool after the user."""

    host: str
    versions: Versions


@dataclass(frozen=True)
class Delivery:
    """An answer, with the content of its blobs that are not yet in the store."""

    parcel: Parcel
    contents: tuple[bytes, ...]


Outcome = Delivery | Missing | Refused | Fault
"""The result of a request that was sent to a process of a pool."""
_executors: dict[str, LocalExecutor] = {}
"""By session."""
_checked: dict[Session, Versions] = {}
"""The versions found here, by session."""
_working: dict[str, str] = {}
"""The last call that this process worked for, by session. It works for one at a time, as it has one thread."""
_stopped: set[str] = set()
"""The calls that were interrupted."""
_lock = Lock()


def answer(session: Session, call: str, request: Parcel, timeout: float, fresh: bool) -> Outcome:
    """Answer a request of a call, in a child of this process, in a new one with `fresh`."""
    with _lock:
        if session not in _checked:
            _checked[session] = versions(session.plugins.files)
        if _checked[session] != session.versions:
            return Refused(socket.gethostname(), _checked.pop(session))
    executor = _executor(session)
    missing = tuple(blob for blob in request.blobs if not executor.store.has(blob))
    if missing:
        return Missing(_address(), f"{socket.gethostname()}:{executor.store.folder}", missing)
    answers: list[Parcel | Fault] = []
    _working[session.name] = call
    executor.answer([request], timeout, lambda _, parcel: answers.append(parcel), fresh=fresh, is_stopped=lambda: call in _stopped)
    (parcel,) = answers
    if isinstance(parcel, Fault):
        return parcel
    return Delivery(parcel, tuple(executor.store.array(blob).tobytes() for blob in parcel.blobs if blob not in request.blobs))


def receive(session: Session, blob: Blob, content: "np.ndarray") -> None:
    """Store a blob for a session on this machine. Raises ResourceError if it was damaged or cannot be written."""
    _executor(session).store.receive(blob, content)


def stop(name: str, call: str) -> None:
    """Kill the children at work for a call of a session. Their requests are reported as crashed."""
    _stopped.add(call)
    executor = _executors.get(name)
    if executor is not None and _working.get(name) == call:
        executor.kill()


def release(name: str) -> None:
    """End the children of a session and remove its files."""
    with _lock:
        executor = _executors.pop(name, None)
        for session in [session for session in _checked if session.name == name]:
            del _checked[session]
    if executor is not None:
        executor.kill()
        executor.close()


def dask_setup(worker: object) -> None:
    """Prepare a process of an embedded pool (dask calls this): Ctrl-C in the terminal is for the user's process, which ends the pool."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _executor(session: Session) -> LocalExecutor:
    with _lock:
        if session.name not in _executors:
            _executors[session.name] = LocalExecutor(1, session=session.name, plugins=session.plugins, unset=_set_by_dask())
        return _executors[session.name]


def _address() -> str:
    from distributed import get_worker  # imported here, because only the processes of a pool need it

    return str(get_worker().address)


@cache
def _set_by_dask() -> tuple[str, ...]:
    """The variables of the environment that dask sets for its own processes: they limit threads and make memory slow to use again."""
    import dask

    given = {**dask.config.get("distributed.nanny.pre-spawn-environ", {}), "PYTHONHASHSEED": "6640"}
    return tuple(name for name, value in given.items() if os.environ.get(name) == str(value))
