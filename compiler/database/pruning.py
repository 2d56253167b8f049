"""Removal of old records."""

import sqlite3
import time

from stepwell.database.statements import change_stamp
from stepwell.database.storage import Storage

_TABLES = ("runs", "candidates", "samples", "decisions", "workloads")
_SECONDS_A_DAY = 86400.0
_HOLDS_DECISION = "SELECT run FROM decisions WHERE NOT withdrawn"
_HOLDS_PLAN = """SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY content, target, threads, machine ORDER BY began DESC) AS place
    FROM runs WHERE plan != '' AND status IN ('finished', 'interrupted')) WHERE place = 1"""
_BEYOND = """SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY content, target, threads, machine ORDER BY began DESC) AS place
    FROM runs) WHERE place > ?"""


def prune(storage: Storage, machine: str, older_than: float | None, other_machines: bool, keep: int | None) -> dict[str, int]:
    """Remove runs with their candidates, samples and decisions; returns the numbers of rows that were removed, by table.

    - `older_than`: runs that began more than so many days ago, even if their decisions or plans are in force.
    - `other_machines`: runs of other machines than `machine`.
    - `keep`: all but the latest runs of each model, target, number of threads and machine; `keep` is how many stay. Runs whose decision or plan is in
      force stay too.

    A candidate stays as long as another run has samples of it.
    """

    def change(connection: sqlite3.Connection) -> dict[str, int]:
        before = _counts(connection)
        doomed: set[int] = set()
        if older_than is not None:
            moment = time.time() - older_than * _SECONDS_A_DAY
            doomed |= _numbers(connection, "SELECT id FROM runs WHERE began < ?", moment)
        if other_machines:
            doomed |= _numbers(connection, "SELECT id FROM runs WHERE machine != ?", machine)
        if keep is not None:
            doomed |= _numbers(connection, _BEYOND, keep) - _numbers(connection, _HOLDS_DECISION) - _numbers(connection, _HOLDS_PLAN)
        _remove(connection, doomed)
        after = _counts(connection)
        return {table: before[table] - after[table] for table in _TABLES}

    removed = storage.write(change)
    if any(removed.values()):
        storage.compact()
    return removed


def _remove(connection: sqlite3.Connection, runs: set[int]) -> None:
    for run in sorted(runs):
        query = f"SELECT target, threads, machine, plan != '' OR id IN ({_HOLDS_DECISION}) FROM runs WHERE id = ?"
        target, threads, machine, does_decide = connection.execute(query, (run,)).fetchone()
        # A candidate that another run measured passes to that run.
        connection.execute(
            """UPDATE candidates SET run = (SELECT max(s.run) FROM samples s JOIN runs r ON r.id = s.run WHERE s.workload = candidates.workload
                AND s.text = candidates.text AND s.run != candidates.run AND r.machine = candidates.machine)
            WHERE run = ?1 AND EXISTS (SELECT 1 FROM samples s JOIN runs r ON r.id = s.run WHERE s.workload = candidates.workload
                AND s.text = candidates.text AND s.run != candidates.run AND r.machine = candidates.machine)""",
            (run,),
        )
        connection.execute("DELETE FROM candidates WHERE run = ?", (run,))
        connection.execute("DELETE FROM runs WHERE id = ?", (run,))  # samples and decisions go with it
        if does_decide:
            change_stamp(connection, target, threads, machine)
    connection.execute(
        """DELETE FROM workloads WHERE id NOT IN (SELECT workload FROM candidates) AND id NOT IN (SELECT workload FROM samples)
            AND id NOT IN (SELECT workload FROM decisions)"""
    )
    connection.execute("DELETE FROM provenance WHERE id NOT IN (SELECT provenance FROM runs)")


def _numbers(connection: sqlite3.Connection, query: str, *values: float | str) -> set[int]:
    return {row[0] for row in connection.execute(query, values)}


def _counts(connection: sqlite3.Connection) -> dict[str, int]:
    return {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in _TABLES}
