"""The records of one run: for each workload that it tried, the candidates, the samples and the decision."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepwell.database.records import Candidate, Decision, Samples, Workload, WorkloadInfo
from stepwell.database.rows import CANDIDATE, DECISION, INFO, SAMPLES, WORKLOAD, candidate_of, decision_of, info_of, samples_of, workload_of

if TYPE_CHECKING:
    import sqlite3

    from stepwell.database.database import Database


@dataclass(frozen=True)
class WorkloadRecords:
    """The records of a run about one workload."""

    workload: Workload
    info: WorkloadInfo
    candidates: list[Candidate]
    """In the order in which they were first tried."""
    samples: list[Samples]
    decision: Decision | None
    """The decision of this run, if it is still in force."""


def records_of_run(database: "Database", run: int) -> list[WorkloadRecords]:
    """The records of a run, in the order of its workloads; candidates that a later run tried again are that run's."""

    def read(connection: "sqlite3.Connection") -> list[WorkloadRecords]:
        query = f"""SELECT id, {WORKLOAD}, {INFO} FROM workloads WHERE id IN
            (SELECT workload FROM candidates WHERE run = :run UNION SELECT workload FROM samples WHERE run = :run) ORDER BY id"""
        found = []
        for number, *row in connection.execute(query, {"run": run}).fetchall():
            rows = [
                connection.execute(f"SELECT {columns} FROM {table} WHERE workload = ? AND run = ? ORDER BY rowid", (number, run)).fetchall()
                for table, columns in (("candidates", CANDIDATE), ("samples", SAMPLES))
            ]
            query = f"SELECT {DECISION} FROM decisions WHERE workload = ? AND run = ? AND NOT withdrawn"
            decided = connection.execute(query, (number, run)).fetchone()
            found.append(WorkloadRecords(
                workload_of(tuple(row[:5])), info_of(tuple(row[5:])), [candidate_of(one) for one in rows[0]], [samples_of(one) for one in rows[1]],
                None if decided is None else decision_of(decided),
            ))  # fmt: skip
        return found

    return database.storage.read(read)
