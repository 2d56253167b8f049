"""The tuning database: what was tried on which machine, how long it took, and what was decided."""

import os
import secrets
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from types import TracebackType

from stepwell.database.provenance import this_machine
from stepwell.database.pruning import prune
from stepwell.database.queries import candidates_with_samples
from stepwell.database.records import Candidate, Decision, Provenance, Run, RunRecord, Samples, Workload, WorkloadInfo
from stepwell.database.rows import (
    ABOUT_RUN,
    CANDIDATE,
    DECISION,
    INFO,
    RUN,
    SAMPLES,
    WORKLOAD,
    Row,
    candidate_of,
    columns,
    decision_of,
    info_of,
    run_record_of,
    samples_of,
    workload_of,
    workload_row,
)
from stepwell.database.similar import nearest
from stepwell.database.statements import put_candidate, put_decision, put_run, put_samples, put_workload, stamp_of_workload
from stepwell.database.storage import Storage
from stepwell.dialects.support.errors import InputError, shown
from stepwell.dialects.support.properties import cached_property

_THIS = " AND ".join(f"w.{name} = ?" for name in WORKLOAD.split(", "))
_FINISHED = "status IN ('finished', 'interrupted')"  # Ctrl-C keeps what is confirmed
_RUN_RECORD = f"SELECT {columns(ABOUT_RUN, 'r')}, {columns(RUN, 'r')}, p.fields FROM runs r JOIN provenance p ON p.id = r.provenance"
_LEAST_STEP = 1e-3  # seconds between changes of a run, even if the clock steps back: the latest change wins when files are imported
_ID_BITS = 53  # a random number of a run; readers of JSON in other languages keep so many bits


class Database:
    """Tuning records in a file, for any number of processes and threads; see `Storage` for what happens if the file is at fault.

    Records are looked up by all fields of their workload, and only those that were measured on this machine are found: they decide. `similar`,
    `records` and `runs` also find those of other machines. "This machine" is the one that measures: for a pool, its runners, not the process that
    opens the file.
    """

    def __init__(self, storage: Storage, machine: str | None = None) -> None:
        self.storage = storage
        self._machine = machine
        self._begun: dict[int, RunRecord] = {}

    @classmethod
    def opened(cls, path: str | os.PathLike[str], *, machine: str | None = None) -> "Database":
        """The database in a file, which the first record creates.

        `machine` is the digest of the machine that measures (`provenance.this_machine` there), by default of this one.
        """
        return cls(Storage(Path(path)), machine)

    @cached_property
    def machine(self) -> str:
        """The digest of the machine that measures, and whose records decide."""
        return self._machine or this_machine()

    def close(self) -> None:
        """Close the file."""
        self.storage.close()

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # --- writing

    def begin(self, run: Run, provenance: Provenance) -> int:
        """Store a run that begins; returns its number."""
        now = time.time()
        record = RunRecord(secrets.randbits(_ID_BITS), self.machine, now, now, run, provenance)
        self._begun[record.id] = record
        self.storage.write(lambda connection: put_run(connection, record))
        return record.id

    def update_run(self, run_id: int, **changed: str | float | None) -> None:
        """Change fields of a run. Raises InputError for a field that a run does not have, and for an unknown run."""
        names = {field.name for field in fields(Run)}
        for name in changed:
            if name not in names:
                raise InputError(f"update_run: expected fields of a run ({', '.join(sorted(names))}), got {shown(name)}")

        def change(connection: sqlite3.Connection) -> RunRecord:
            before = self._run(connection, run_id)
            run = Run(**{**vars(before.run), **changed})
            after = replace(before, changed=max(time.time(), before.changed + _LEAST_STEP), run=run)
            put_run(connection, after)
            return after

        after = self.storage.write(change)
        if run_id in self._begun:
            self._begun[run_id] = after

    def add_candidates(self, workload: Workload, info: WorkloadInfo, candidates: Sequence[Candidate], run_id: int) -> None:
        """Store candidates of a workload, in place of those with the same text. Raises InputError for numbers that are not finite."""

        def change(connection: sqlite3.Connection) -> None:
            run, number = self._run(connection, run_id), put_workload(connection, workload, info)
            for candidate in candidates:
                put_candidate(connection, number, run_id, run.machine, time.time(), candidate)

        self.storage.write(change)

    def add_samples(self, workload: Workload, samples: Sequence[Samples], run_id: int) -> None:
        """Store samples of a workload's candidates. Raises InputError for numbers that are not finite."""

        def change(connection: sqlite3.Connection) -> None:
            self._run(connection, run_id)
            put_samples(connection, put_workload(connection, workload), run_id, samples)

        self.storage.write(change)

    def decide(self, workload: Workload, decision: Decision, run_id: int) -> None:
        """Store the decision about a workload, in place of the one before. Raises InputError for numbers that are not finite."""

        def change(connection: sqlite3.Connection) -> None:
            machine = self._run(connection, run_id).machine
            put_decision(connection, put_workload(connection, workload), run_id, machine, time.time(), decision)

        self.storage.write(change)

    def forget(self, workload: Workload) -> None:
        """Withdraw the decision about a workload, such as one that was rolled back. The import of an older file does not bring it back."""

        def change(connection: sqlite3.Connection) -> None:
            for (number,) in connection.execute(f"SELECT w.id FROM workloads w WHERE {_THIS}", workload_row(workload)).fetchall():
                withdraw = "UPDATE decisions SET withdrawn = 1, changed = ? WHERE workload = ? AND machine = ? AND NOT withdrawn"
                if connection.execute(withdraw, (time.time(), number, self.machine)).rowcount:
                    stamp_of_workload(connection, number, self.machine)

        self.storage.write(change)

    # --- what decides: records of this machine

    def candidates(self, workload: Workload) -> list[Candidate]:
        """The candidates of a workload that were tried on this machine, in the order in which they were first tried."""
        query = f"""SELECT {columns(CANDIDATE, 'c')} FROM candidates c JOIN workloads w ON w.id = c.workload
            WHERE {_THIS} AND c.machine = ? ORDER BY c.rowid"""
        return self.storage.read(lambda connection: [candidate_of(row) for row in connection.execute(query, self._key(workload))])

    def samples(self, workload: Workload) -> list[Samples]:
        """The samples of a workload that were measured on this machine, in their order."""
        query = f"""SELECT {columns(SAMPLES, 's')} FROM samples s JOIN workloads w ON w.id = s.workload JOIN runs r ON r.id = s.run
            WHERE {_THIS} AND r.machine = ? ORDER BY s.rowid"""
        return self.storage.read(lambda connection: [samples_of(row) for row in connection.execute(query, self._key(workload))])

    def decision(self, workload: Workload) -> Decision | None:
        """The decision about a workload on this machine; None if there is none."""
        query = f"""SELECT {columns(DECISION, 'd')} FROM decisions d JOIN workloads w ON w.id = d.workload
            WHERE {_THIS} AND d.machine = ? AND NOT d.withdrawn"""
        row = self.storage.read(lambda connection: connection.execute(query, self._key(workload)).fetchone())
        return None if row is None else decision_of(row)

    def decisions(self, target: str, threads: int) -> dict[Workload, Decision]:
        """All decisions on this machine for a target, by its digest, and a number of threads."""
        query = f"""SELECT {columns(WORKLOAD, 'w')}, {columns(DECISION, 'd')} FROM decisions d JOIN workloads w ON w.id = d.workload
            WHERE w.target = ? AND w.threads = ? AND d.machine = ? AND NOT d.withdrawn ORDER BY d.rowid"""
        rows = self.storage.read(lambda connection: connection.execute(query, (target, threads, self.machine)).fetchall())
        return {workload_of(row[:5]): decision_of(row[5:]) for row in rows}

    def plan(self, content: str, target: str, threads: int) -> str | None:
        """The plan that the latest run on this machine confirmed, as text: of runs that finished or were interrupted. None if there is none."""
        query = f"""SELECT plan FROM runs WHERE content = ? AND target = ? AND threads = ? AND machine = ? AND plan != '' AND {_FINISHED}
            ORDER BY began DESC LIMIT 1"""
        row = self.storage.read(lambda connection: connection.execute(query, (content, target, threads, self.machine)).fetchone())
        return None if row is None else str(row[0])

    def spent(self, content: str, target: str, threads: int) -> float:
        """The seconds of all runs on this machine for a model."""
        query = "SELECT total(spent) FROM runs WHERE content = ? AND target = ? AND threads = ? AND machine = ?"
        return float(self.storage.read(lambda connection: connection.execute(query, (content, target, threads, self.machine)).fetchone()[0]))

    def stamp(self, target: str, threads: int) -> str:
        """A text that changes whenever decisions or plans for a target and a number of threads change on this machine; empty before the first one."""
        query = "SELECT stamp FROM stamps WHERE target = ? AND threads = ? AND machine = ?"
        row = self.storage.read(lambda connection: connection.execute(query, (target, threads, self.machine)).fetchone())
        return "" if row is None else str(row[0])

    # --- what guides: records of all machines

    def similar(self, workload: Workload, info: WorkloadInfo, limit: int) -> list[tuple[Workload, WorkloadInfo, Decision]]:
        """At most `limit` decided workloads of the same kind, the nearest first (see `similar.nearest`), also of other targets and machines."""
        return nearest(self.storage, self.machine, workload, info, limit)

    def records(self) -> Iterator[tuple[Workload, WorkloadInfo, Candidate, list[Samples], str]]:
        """All candidates of all machines, each with its samples and the name of the network in which it was tried last."""
        numbers = self.storage.read(lambda connection: connection.execute("SELECT id FROM workloads ORDER BY id").fetchall())
        for (number,) in numbers:
            yield from self.storage.read(partial(_records_of, number=number))

    def runs(self) -> list[RunRecord]:
        """All runs of all machines, in the order in which they began."""
        query = f"{_RUN_RECORD} ORDER BY r.began, r.id"
        return self.storage.read(lambda connection: [run_record_of(row[:4], row[4:-1], row[-1]) for row in connection.execute(query)])

    def prune(self, *, older_than: float | None = None, other_machines: bool = False, keep: int | None = None) -> dict[str, int]:
        """Remove runs with their records (see `pruning.prune`); returns the numbers of rows that were removed, by table."""
        return prune(self.storage, self.machine, older_than, other_machines, keep)

    def _key(self, workload: Workload) -> Row:
        return (*workload_row(workload), self.machine)

    def _run(self, connection: sqlite3.Connection, run_id: int) -> RunRecord:
        """A run of the database. One that this object began is stored again if the file was set aside since. Raises InputError."""
        row = connection.execute(f"{_RUN_RECORD} WHERE r.id = ?", (run_id,)).fetchone()
        if row is not None:
            return run_record_of(row[:4], row[4:-1], row[-1])
        if run_id not in self._begun:
            raise InputError(f"run: expected the number of a run in {self.storage.path}, got {shown(run_id)}")
        put_run(connection, self._begun[run_id])
        return self._begun[run_id]


def _records_of(connection: sqlite3.Connection, number: int) -> list[tuple[Workload, WorkloadInfo, Candidate, list[Samples], str]]:
    """The candidates of one workload; see `Database.records`."""
    row = connection.execute(f"SELECT {WORKLOAD}, {INFO} FROM workloads WHERE id = ?", (number,)).fetchone()
    if row is None:  # removed meanwhile
        return []
    workload, info = workload_of(row[:5]), info_of(row[5:])
    return [(workload, info, candidate, samples, network) for _, network, candidate, samples in candidates_with_samples(connection, number)]


def chosen_database(*, machine: str | None = None) -> Database | None:
    """The database that the environment describes (see `Database.opened`); None if it is switched off there. Raises InputError for a bad value."""
    path = database_path()
    return None if path is None else Database.opened(path, machine=machine)


def database_path() -> Path | None:
    """The file of the tuning records, whether it exists or not: STEPWELL_TUNING, or one in the user's folder for data; None for `0`.

    Raises InputError if the variable names a folder, or a home folder that is not known.
    """
    chosen = os.environ.get("STEPWELL_TUNING")
    if chosen == "0":
        return None
    if chosen:
        try:
            path = Path(chosen).expanduser().absolute()
        except RuntimeError:
            raise InputError(f"STEPWELL_TUNING: the home folder in '{chosen}' is not known") from None
        if path.is_dir():
            raise InputError(f"STEPWELL_TUNING: expected a file or 0, got the folder {shown(chosen)}")
        return path
    from platformdirs import user_data_path  # not needed if the file is given

    folder = user_data_path("stepwell", appauthor=False)
    # A user without a home has no folder for data.
    return (folder if folder.is_absolute() else Path(tempfile.gettempdir()).absolute() / f"stepwell-{os.geteuid()}") / "tuning.sqlite"
