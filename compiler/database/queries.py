"""The query of all that is stored about the candidates of a workload."""

import sqlite3

from stepwell.database.records import Candidate, Samples
from stepwell.database.rows import CANDIDATE, SAMPLES, candidate_of, columns, samples_of

Measured = tuple[str, str, Candidate, list[Samples]]
"""The digest of a machine, the network in which a candidate was tried last, the candidate, its samples on that machine."""


def candidates_with_samples(connection: sqlite3.Connection, workload: int) -> list[Measured]:
    """The candidates of a workload, by its number, on all machines, in the order in which they were first tried."""
    samples: dict[tuple[str, str], list[Samples]] = {}
    query = f"SELECT r.machine, {columns(SAMPLES, 's')} FROM samples s JOIN runs r ON r.id = s.run WHERE s.workload = ? ORDER BY s.rowid"
    for row in connection.execute(query, (workload,)):
        record = samples_of(row[1:])
        samples.setdefault((row[0], record.text), []).append(record)
    query = f"""SELECT c.machine, r.network, {columns(CANDIDATE, 'c')} FROM candidates c JOIN runs r ON r.id = c.run
        WHERE c.workload = ? ORDER BY c.rowid"""
    rows = [(row[0], row[1], candidate_of(row[2:])) for row in connection.execute(query, (workload,))]
    return [(machine, network, candidate, samples.get((machine, candidate.text), [])) for machine, network, candidate in rows]
