"""Decided workloads that resemble another one: their decisions are tried first there."""

import math
from collections.abc import Mapping
from heapq import nsmallest

from stepwell.database.records import Decision, Workload, WorkloadInfo
from stepwell.database.rows import DECISION, INFO, WORKLOAD, columns, decision_of, info_of, workload_of
from stepwell.database.storage import Storage

Decided = tuple[Workload, WorkloadInfo, Decision]


def nearest(storage: Storage, machine: str, workload: Workload, info: WorkloadInfo, limit: int) -> list[Decided]:
    """At most `limit` decided workloads of the same kind: those of the same target first, among them the nearest ones by `distance`.

    Each has one decision: that of `machine`, else the latest one. The workload itself is left out if it is decided on that machine.
    """
    query = f"""SELECT d.machine = ?, {columns(WORKLOAD, 'w')}, {columns(INFO, 'w')}, {columns(DECISION, 'd')}
        FROM decisions d JOIN workloads w ON w.id = d.workload WHERE w.kind = ? AND NOT d.withdrawn ORDER BY d.machine = ?, d.changed"""
    rows = storage.read(lambda connection: connection.execute(query, (machine, workload.kind, machine)).fetchall())
    found = {workload_of(row[1:6]): row for row in rows}  # the last row of a workload counts
    if workload in found and found[workload][0]:
        del found[workload]
    decided = [(other, info_of(row[6:10]), decision_of(row[10:])) for other, row in found.items()]

    def order(entry: Decided) -> tuple[bool, float, int]:
        other = entry[0]
        return other.target != workload.target, distance(info.features, entry[1].features), abs(other.threads - workload.threads)

    return nsmallest(limit, decided, key=order)


def distance(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """The Euclidean distance of features on a logarithmic scale; a feature that one of them lacks counts as 0."""
    return math.dist(*([_scaled(features.get(name, 0.0)) for name in sorted(one.keys() | other.keys())] for features in (one, other)))


def _scaled(value: float) -> float:
    return math.copysign(math.log1p(abs(value)), value)
