"""The statements that write records, inside a transaction of the caller. The database and the import of files share them."""

import secrets
import sqlite3
from collections.abc import Sequence

from stepwell.database.records import Candidate, Decision, RunRecord, Samples, Workload, WorkloadInfo
from stepwell.database.rows import (
    CANDIDATE,
    DECISION,
    INFO,
    RUN,
    SAMPLES,
    WORKLOAD,
    candidate_row,
    decision_row,
    info_row,
    provenance_text,
    run_row,
    samples_row,
    width,
    workload_row,
)

NO_INFO = WorkloadInfo("", "")
"""Stands for what is not said about a workload."""


def put_run(connection: sqlite3.Connection, record: RunRecord) -> bool:
    """Store a run, unless the database has it in a state that is as new; returns whether it changed something."""
    before = connection.execute("SELECT changed, plan FROM runs WHERE id = ?", (record.id,)).fetchone()
    if before is not None and before[0] >= record.changed:
        return False
    text = provenance_text(record.provenance)
    connection.execute("INSERT INTO provenance (fields) VALUES (?) ON CONFLICT DO NOTHING", (text,))
    provenance = connection.execute("SELECT id FROM provenance WHERE fields = ?", (text,)).fetchone()[0]
    names, marks = f"machine, provenance, began, changed, {RUN}", _marks(4 + width(RUN))
    statement = f"INSERT INTO runs ({names}, id) VALUES ({marks}, ?)" if before is None else f"UPDATE runs SET ({names}) = ({marks}) WHERE id = ?"
    connection.execute(statement, (record.machine, provenance, record.began, record.changed, *run_row(record.run), record.id))
    run = record.run
    if run.plan or (before is not None and before[1]):
        change_stamp(connection, run.target, run.threads, record.machine)
    return True


def put_workload(connection: sqlite3.Connection, workload: Workload, info: WorkloadInfo = NO_INFO) -> int:
    """The number of a workload, which is stored with `info`: its first name and network, and the latest features."""
    key = workload_row(workload)
    found = connection.execute(f"SELECT id, name FROM workloads WHERE ({WORKLOAD}) = ({_marks(5)})", key).fetchone()
    name, network, nodes, features = info_row(info)
    if found is None:
        insert = f"INSERT INTO workloads ({WORKLOAD}, {INFO}) VALUES ({_marks(9)})"
        return int(connection.execute(insert, (*key, name, network, nodes, features)).lastrowid or 0)
    if not found[1]:
        connection.execute("UPDATE workloads SET name = ?, network = ?, nodes = ? WHERE id = ?", (name, network, nodes, found[0]))
    if info.features:
        connection.execute("UPDATE workloads SET features = ? WHERE id = ?", (features, found[0]))
    return int(found[0])


def put_candidate(
    connection: sqlite3.Connection, workload: int, run: int, machine: str, changed: float, candidate: Candidate, *, newer: bool = False
) -> bool:
    """Store a candidate, in place of the same one of the same machine; with `newer`, only of an older one. Returns whether it changed something."""
    names = CANDIDATE.split(", ")
    update = ", ".join(f"{name} = excluded.{name}" for name in ("run", "changed", *names[1:]))
    done = connection.execute(
        f"INSERT INTO candidates (workload, machine, run, changed, {CANDIDATE}) VALUES ({_marks(4 + len(names))}) "
        f"ON CONFLICT (workload, machine, text) DO UPDATE SET {update}{' WHERE excluded.changed > changed' if newer else ''}",
        (workload, machine, run, changed, *candidate_row(candidate)),
    )
    return done.rowcount > 0


def put_samples(connection: sqlite3.Connection, workload: int, run: int, samples: Sequence[Samples], first: int | None = None) -> int:
    """Store samples under the next numbers of their run, or from `first` on those that are missing; returns how many were stored."""
    if first is None:
        first = connection.execute("SELECT coalesce(max(number) + 1, 0) FROM samples WHERE run = ?", (run,)).fetchone()[0]
    rows = [(workload, run, first + i, *samples_row(record)) for i, record in enumerate(samples)]
    insert = f"INSERT INTO samples (workload, run, number, {SAMPLES}) VALUES ({_marks(3 + width(SAMPLES))}) ON CONFLICT DO NOTHING"
    return connection.executemany(insert, rows).rowcount if rows else 0


def put_decision(
    connection: sqlite3.Connection, workload: int, run: int, machine: str, changed: float, decision: Decision, *, withdrawn: bool = False,
    newer: bool = False,
) -> bool:  # fmt: skip
    """Store a decision in place of the one before; with `newer`, only of an older one. Returns whether it changed something."""
    mine = (workload, machine)
    before = connection.execute("SELECT changed, withdrawn, text FROM decisions WHERE (workload, machine) = (?, ?)", mine).fetchone()
    if newer and before is not None and before[0] >= changed:
        return False
    connection.execute(
        f"INSERT OR REPLACE INTO decisions (workload, machine, run, changed, withdrawn, {DECISION}) VALUES ({_marks(5 + width(DECISION))})",
        (workload, machine, run, changed, int(withdrawn), *decision_row(decision)),
    )
    if (None if withdrawn else decision.text) != (None if before is None or before[1] else before[2]):
        stamp_of_workload(connection, workload, machine)
    return True


def stamp_of_workload(connection: sqlite3.Connection, workload: int, machine: str) -> None:
    """Change the stamp of a workload's target and threads."""
    target, threads = connection.execute("SELECT target, threads FROM workloads WHERE id = ?", (workload,)).fetchone()
    change_stamp(connection, target, threads, machine)


def change_stamp(connection: sqlite3.Connection, target: str, threads: int, machine: str) -> None:
    """Note that decisions or plans of a target and a number of threads changed. Stamps are random: databases that differ never have equal ones."""
    connection.execute("INSERT OR REPLACE INTO stamps VALUES (?, ?, ?, ?)", (target, threads, machine, secrets.token_hex(8)))


def _marks(count: int) -> str:
    return ", ".join("?" * count)
