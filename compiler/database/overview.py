"""The contents of the database for people, as `stepwell tuning show` prints them: decided workloads, and the candidates of one."""

import math
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean

from stepwell.database.database import Database
from stepwell.database.queries import candidates_with_samples
from stepwell.database.records import Candidate, Decision, Samples, Workload, WorkloadInfo
from stepwell.database.rows import DECISION, INFO, WORKLOAD, columns, decision_of, info_of, workload_of


@dataclass(frozen=True)
class Decided:
    """A workload with the decision of one machine."""

    workload: Workload
    info: WorkloadInfo
    decision: Decision
    candidates: int
    """The number of candidates that were tried on that machine."""
    target: str
    """The name of the target."""
    machine: str
    """The digest of the machine that measured."""
    cpu: str
    is_here: bool
    """Whether that is this machine: then the decision counts."""
    changed: float
    """When it was decided, in seconds since 1970."""


@dataclass(frozen=True)
class Tried:
    """A candidate of a workload on one machine."""

    workload: Workload
    info: WorkloadInfo
    candidate: Candidate
    machine: str
    is_here: bool
    samples: tuple[Samples, ...]


def decided(database: Database, target: str | None = None) -> list[Decided]:
    """The decisions of all machines, optionally for one target, by its digest; the largest gain first."""
    query = f"""SELECT d.machine, d.changed, d.run,
            (SELECT count(*) FROM candidates c WHERE c.workload = d.workload AND c.machine = d.machine),
            {columns(WORKLOAD, 'w')}, {columns(INFO, 'w')}, {columns(DECISION, 'd')}
        FROM decisions d JOIN workloads w ON w.id = d.workload WHERE NOT d.withdrawn AND (?1 IS NULL OR w.target = ?1) ORDER BY d.ratio, w.name"""
    provenances = {record.id: record.provenance for record in database.runs()}

    def find(connection: sqlite3.Connection) -> list[Decided]:
        found = []
        for row in connection.execute(query, (target,)):
            machine, changed, run, count = row[:4]
            if run in provenances:  # else it began since
                found.append(
                    Decided(
                        workload_of(row[4:9]), info_of(row[9:13]), decision_of(row[13:]), count, provenances[run].target_name, machine,
                        provenances[run].cpu, machine == database.machine, changed,
                    )
                )  # fmt: skip
        return found

    return database.storage.read(find)


def tried(database: Database, is_wanted: Callable[[str], bool], target: str | None = None) -> list[Tried]:
    """The candidates of the workloads whose name is wanted, of all machines, optionally for one target."""

    def find(connection: sqlite3.Connection) -> list[Tried]:
        query = f"SELECT id, {WORKLOAD}, {INFO} FROM workloads WHERE ?1 IS NULL OR target = ?1 ORDER BY name, id"
        rows = [(row[0], workload_of(row[1:6]), info_of(row[6:])) for row in connection.execute(query, (target,)).fetchall()]
        return [
            Tried(workload, info, candidate, machine, machine == database.machine, tuple(samples))
            for number, workload, info in rows if is_wanted(info.name)
            for machine, _, candidate, samples in candidates_with_samples(connection, number)
        ]  # fmt: skip

    return database.storage.read(find)


def mean_ratio(samples: Samples) -> float | None:
    """The geometric mean of the candidate's time relative to the other's; None without samples."""
    return math.exp(fmean(samples.log_ratios)) if samples.log_ratios else None
