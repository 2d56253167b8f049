"""Answers requests in a pool of dask.distributed: an embedded one on this machine, or a scheduler's with workers on many machines."""

import logging
import secrets
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from stepwell.database.records import State
from stepwell.dialects.support.errors import InputError, ResourceError
from stepwell.dialects.support.names import printable
from stepwell.tuning import dask_tasks
from stepwell.tuning.blobs import Blob, BlobStore, Parcel
from stepwell.tuning.children import Plugins
from stepwell.tuning.dask_tasks import Delivery, Missing, Outcome, Refused, Session
from stepwell.tuning.device import Fault, Request
from stepwell.tuning.executor import OnDone, Report, results
from stepwell.tuning.work_folders import WorkFolder

if TYPE_CHECKING:
    from distributed import Client, Future, SpecCluster
    from distributed.security import Security

T = TypeVar("T")
RUNNER = "runner"
"""The resource of dask that a worker has one of if it may measure: one worker a machine."""
_ARRIVAL = 10.0  # seconds to wait for a worker that measures: it may have been started just now
_CHECK = 5.0  # seconds between two checks that workers exist
_ENVIRONMENT = {"PYTHONHASHSEED": "random"}  # replaces the variables by which dask would limit threads, of this process too; Python's default
_PATIENCE = 60.0  # seconds without a suitable worker after which a build or run ends: dask needs about ten to restart one
_REACHED = 5.0  # seconds for the first answer of a scheduler: it may have been started just now
_RETRIES = 2  # attempts after a failure of the pool itself, such as a worker's full disk; dask counts deaths of workers itself
_SENDS = 5  # times that a request may lack blobs before a build or run ends


@dataclass(frozen=True)
class Tls:
    """Files for encrypted connections, as `dask worker` takes them; None for what dask's configuration says."""

    ca_file: str | None
    cert: str | None
    key: str | None

    def security(self) -> "Security":
        """For dask: it then refuses connections that are not encrypted."""
        from distributed.security import Security

        files = {"tls_ca_file": self.ca_file}
        for side in ("scheduler", "worker", "client"):
            files |= {f"tls_{side}_cert": self.cert, f"tls_{side}_key": self.key}
        return Security(require_encryption=True, **{name: file for name, file in files.items() if file is not None})


@dataclass
class _Pending:
    """A request on its way."""

    number: int
    request: Parcel
    sends: int = 0
    """How often it lacked blobs."""


@dataclass
class _Job:
    """The requests of one call, with their time limit in seconds; `fresh` as in `dask_tasks.answer`."""

    timeout: float
    fresh: bool
    call: str = field(default_factory=lambda: secrets.token_hex(8))
    """A name for it, unique in the pool."""
    pending: "dict[Future[Outcome], _Pending]" = field(default_factory=dict)


class DaskExecutor:
    """A user of a pool. Several threads may call it."""

    def __init__(self, client: "Client", cluster: "SpecCluster | None" = None, folder: WorkFolder | None = None) -> None:
        """Use the pool of a client, and close both, and the cluster, at the end. Raises InputError if the pool does not fit this process."""
        self._client = client
        self._cluster = cluster
        self._folder = WorkFolder() if folder is None else folder
        self.store = BlobStore(self._folder.path)
        self._sent: set[tuple[str, Blob]] = set()
        """The blobs that were sent to each store."""
        plugins = Plugins.loaded_here()
        self._session = Session(self._folder.session, plugins, dask_tasks.versions(plugins.files))
        try:
            self._check()
        except BaseException:
            self.close()
            raise

    def build(self, requests: Sequence[Request[T]], timeout: float, on_done: OnDone[T] | None = None) -> list[T | Fault]:
        """As in `Executor`: on any worker, one in each process of the pool."""
        return results(requests, lambda packed, report: self._answer(packed, _Job(timeout, fresh=False), report), on_done)

    def run(self, request: Request[T], timeout: float) -> T | Fault:
        """As in `Executor`: on a worker with the resource `runner`."""
        return results([request], lambda packed, report: self._answer(packed, _Job(timeout, fresh=True), report), None)[0]

    def close(self) -> None:
        """Leave the pool, and end it if it is embedded."""
        with suppress(Exception):  # the pool may be gone, in any state
            self._client.run(dask_tasks.release, self._session.name, on_error="ignore")
        with suppress(Exception):
            self._client.close()
        if self._cluster is not None:
            self._cluster.close()
        self._folder.close()

    def _check(self) -> None:
        """Raise InputError unless the pool has the same versions as this process and machines of one kind to measure on."""
        runners = self._runners()
        files = self._session.plugins.files
        found = self._client.run(dask_tasks.about, files, on_error="return")
        found["the scheduler"] = self._on_scheduler(files)
        for place, told in found.items():
            if isinstance(told, OSError):  # it has just ended
                continue
            if isinstance(told, BaseException):
                said = printable(f"{type(told).__name__}: {told}")
                raise InputError(f"pool: {place} cannot run stepwell: {said}; install {self._session.versions} there")
            if told.versions != self._session.versions:
                raise InputError(_differing(f"{place} on {told.host}", told.versions, self._session))
        measuring = [found[address] for address in runners if isinstance(found.get(address), dask_tasks.About)]
        for other in measuring[1:]:
            if other.processor != measuring[0].processor:
                hosts = f"{measuring[0].host} and {other.host}"
                raise InputError(f"pool: expected workers that measure to be on machines of one kind, got {hosts}, whose processors differ")

    def _runners(self) -> list[str]:
        """The addresses of the workers that measure. Raises InputError if there is none."""
        deadline = time.monotonic() + _ARRIVAL
        while not (found := self._workers(fresh=True)):
            if time.monotonic() > deadline:
                raise InputError(f"pool: no worker can measure: start one on each machine that may, with --resources '{RUNNER}=1'")
            time.sleep(0.2)
        return found

    def _on_scheduler(self, files: tuple[str, ...]) -> "dask_tasks.About | Exception":
        try:
            return self._client.run_on_scheduler(dask_tasks.about, files)
        except Exception as error:  # it may lack the package
            return error

    def _workers(self, *, fresh: bool) -> list[str]:
        """The addresses of the workers, or of those that measure."""
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        return [address for address, worker in workers.items() if not fresh or worker["resources"].get(RUNNER)]

    def _answer(self, requests: Sequence[Parcel], job: _Job, report: Report) -> None:
        try:
            for number, request in enumerate(requests):
                self._submit(_Pending(number, request), job)
            while job.pending:
                for future in self._wait(job):
                    self._finish(future, job, report)
        except BaseException:  # Ctrl-C above all
            with suppress(Exception):  # what goes on in the pool does not matter any more
                self._client.cancel(list(job.pending), force=True)
                self._client.run(dask_tasks.stop, self._session.name, job.call, on_error="ignore")
            raise

    def _submit(self, one: _Pending, job: _Job, near: str | None = None) -> None:
        """Send a request to any worker, but rather to the one with the address `near`, if it lives. Raises ResourceError if the pool is gone."""
        try:
            future = self._client.submit(
                dask_tasks.answer, self._session, job.call, one.request, job.timeout, job.fresh,
                key=f"stepwell-{'run' if job.fresh else 'build'}-{secrets.token_hex(8)}", pure=False, retries=_RETRIES,
                resources={RUNNER: 1} if job.fresh else None, workers=None if near is None else [near], allow_other_workers=near is not None,
            )  # fmt: skip
        except Exception as error:  # dask raises several kinds after it has lost the scheduler
            raise ResourceError(f"pool: a request cannot be sent: {type(error).__name__}: {printable(str(error))}") from error
        job.pending[future] = one

    def _wait(self, job: _Job) -> "list[Future[Outcome]]":
        """The futures that are done next. Raises ResourceError if the pool is gone, or has had no suitable worker for too long."""
        from distributed import wait

        last = time.monotonic()
        while True:
            try:
                return list(wait(list(job.pending), timeout=_CHECK, return_when="FIRST_COMPLETED").done)
            except TimeoutError:
                pass
            except Exception as error:  # dask cancels all futures if it loses the scheduler
                raise ResourceError(f"pool: the scheduler is gone: {printable(str(error))}") from None
            if self._has_workers(job):
                last = time.monotonic()
            elif time.monotonic() - last > _PATIENCE:
                raise ResourceError(f"pool: for {_PATIENCE:.0f} seconds there was no worker{f' with the resource {RUNNER}' if job.fresh else ''}")

    def _has_workers(self, job: _Job) -> bool:
        try:
            return bool(self._workers(fresh=job.fresh))
        except Exception:  # the scheduler may be gone for a moment
            return False

    def _finish(self, future: "Future[Outcome]", job: _Job, report: Report) -> None:
        """Report the result of a request, or send it again with what it lacked."""
        from distributed import KilledWorker

        one = job.pending.pop(future)
        try:
            result: Outcome = future.result(timeout=_CHECK)
        except TimeoutError:  # its worker ended after it was done: dask does it again
            job.pending[future] = one
            return
        except KilledWorker as error:
            result = Fault(State.CRASHED, f"every process of the pool that began with it ended: {error}")
        except Exception as error:  # of the pool, not of the request, whose errors are results
            raise ResourceError(f"pool: a request was not answered: {type(error).__name__}: {error}") from error
        if isinstance(result, Missing):
            self._send(one, result)
            self._submit(one, job, near=result.worker)
        elif isinstance(result, Refused):
            raise InputError(_differing(f"a worker on {result.host}", result.versions, self._session))
        elif isinstance(result, Delivery):
            for content in result.contents:
                self.store.put(content)
            report(one.number, result.parcel)
        else:
            report(one.number, result)

    def _send(self, one: _Pending, missing: Missing) -> None:
        """Send blobs to the store of a worker, unless another request has done so. Raises ResourceError if ours lacks them, or nothing helps."""
        one.sends += 1
        contents = [(blob, self.store.array(blob)) for blob in missing.blobs if one.sends > 1 or (missing.store, blob) not in self._sent]
        said = "they were sent, and are not there"
        try:
            for blob, array in contents:
                place = {"workers": [missing.worker]}
                (content,) = self._client.scatter([array], hash=False, **place)
                self._client.submit(dask_tasks.receive, self._session, blob, content, pure=False, allow_other_workers=True, **place).result()
                self._sent.add((missing.store, blob))
        except Exception as error:  # the worker may end meanwhile: the next one will miss them again
            said = f"{type(error).__name__}: {error}"
        if one.sends == _SENDS:
            raise ResourceError(f"pool: data of a request do not reach {missing.worker}: {said}")


def _differing(place: str, there: dask_tasks.Versions, session: Session) -> str:
    return f"pool: {place} has {there}; this process has {session.versions}: expected the same"


def embedded_pool(jobs: int, *, tls: Tls | None = None, dashboard: str | None = None) -> DaskExecutor:
    """A pool of `jobs` processes on this machine, one of which measures; `dashboard` is the address of dask's status page, None for no page.

    Raises ResourceError if dask is missing or cannot start.
    """
    _require_dask()
    import dask
    from distributed import Client, Nanny, Scheduler, SpecCluster
    from distributed.security import Security

    security = Security() if tls is None else tls.security()
    common = {"host": "127.0.0.1", "security": security, "protocol": "tls://" if security.require_encryption else "tcp://"}
    page = {"dashboard": dashboard is not None, "dashboard_address": dashboard or "127.0.0.1:0"}
    scheduler = {"cls": Scheduler, "options": {**common, **page, "port": 0}}
    with ExitStack() as undo:
        folder = WorkFolder()
        undo.callback(folder.close)
        worker = {
            **common, "nthreads": 1, "memory_limit": 0, "dashboard": False, "local_directory": str(folder.path), "silence_logs": logging.ERROR,
            "preload": "stepwell.tuning.dask_tasks",
        }  # fmt: skip
        workers = {number: {"cls": Nanny, "options": {**worker, "resources": {RUNNER: 1} if number == 0 else {}}} for number in range(jobs)}
        try:
            with dask.config.set({"distributed.nanny.pre-spawn-environ": _ENVIRONMENT}):
                cluster = SpecCluster(workers=workers, scheduler=scheduler, security=security, silence_logs=logging.ERROR)
            undo.callback(cluster.close)
            client = Client(cluster)
            client.wait_for_workers(jobs, timeout=_PATIENCE)
        except (OSError, RuntimeError) as error:
            raise ResourceError(f"pool: dask cannot start {jobs} processes: {type(error).__name__}: {error}") from error
        undo.pop_all()
    return DaskExecutor(client, cluster, folder)


def joined_pool(scheduler: str, tls: Tls | None = None) -> DaskExecutor:
    """The pool of a scheduler, by its address (`tcp://HOST:8786`, `tls://HOST:8786`).

    Raises InputError if the pool does not fit this process (see `DaskExecutor`), ResourceError if dask is missing or the scheduler cannot be reached.
    """
    _require_dask()
    from distributed import Client

    try:
        _reach(scheduler)
        client = Client(scheduler, security=None if tls is None else tls.security())
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        said = printable(f"{scheduler} cannot be reached: {type(error).__name__}: {error}")
        raise ResourceError(f"pool: the scheduler {said}") from None
    return DaskExecutor(client)


def _reach(scheduler: str) -> None:
    """Wait until the address accepts connections.

    Dask itself tries for half a minute, and a client that never found its scheduler may block the process when it is collected.
    """
    host, _, port = scheduler.rpartition("://")[2].rpartition(":")
    latest = time.monotonic() + _REACHED
    while True:
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_REACHED).close()
        except ConnectionRefusedError:
            if time.monotonic() > latest:
                raise
            time.sleep(0.1)
        else:
            return


def _require_dask() -> None:
    """Raise ResourceError unless dask.distributed is installed."""
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise ResourceError("pool: dask.distributed is not installed: pip install 'stepwell[tune]'") from None
