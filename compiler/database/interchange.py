"""Tuning records as JSON lines, from one database to another.

The first line names the format and its version. Every other line is an object: its `kind` (run, workload, candidate, samples, decision) and the
fields of the class in `LINES`. Lines refer to runs and workloads of lines above them by number.
"""

import json
import math
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, islice
from typing import IO, TYPE_CHECKING, TypeAlias

from stepwell.database.records import Candidate, Decision, RunRecord, Samples, Workload, WorkloadInfo
from stepwell.database.rows import (
    CANDIDATE,
    DECISION,
    INFO,
    SAMPLES,
    WORKLOAD,
    candidate_of,
    candidate_row,
    decision_of,
    decision_row,
    info_of,
    run_row,
    samples_of,
    samples_row,
    workload_of,
    workload_row,
)
from stepwell.database.statements import put_candidate, put_decision, put_run, put_samples, put_workload
from stepwell.dialects.support.errors import InputError, shown
from stepwell.dialects.support.files import nameless_file
from stepwell.dialects.support.names import printable
from stepwell.records import from_json, to_json

if TYPE_CHECKING:
    from stepwell.database.database import Database

FORMAT = {"format": "stepwell tuning records", "version": 1}
"""The first line of a file."""
LINE_BYTES = 16 << 20
"""The longest line: a plan of a large network takes a tenth of it."""
LONGEST_NAME = 1 << 16
"""The most characters of a text other than a message or a plan."""
FILE_BYTES = 1 << 30
"""The largest file."""
_BATCH = 500  # lines of a transaction
_LATEST = 2.0**35  # seconds since 1970, in the year 3058: C's functions of time end somewhere
_COPIED_BYTES = 1 << 20  # of a stream at a time
_LINES_OF_TEXT = ("message", "plan")  # fields whose text may have several lines


@dataclass(frozen=True)
class WorkloadLine:
    """A workload, with the number by which the lines below refer to it."""

    number: int
    workload: Workload
    info: WorkloadInfo


@dataclass(frozen=True)
class CandidateLine:
    """A candidate of a workload, as a run stored it last."""

    workload: int
    run: int
    changed: float
    candidate: Candidate


@dataclass(frozen=True)
class SamplesLine:
    """Samples of a workload, with their number in the run."""

    workload: int
    run: int
    number: int
    samples: Samples


@dataclass(frozen=True)
class DecisionLine:
    """The decision about a workload, which may have been withdrawn."""

    workload: int
    run: int
    changed: float
    withdrawn: bool
    decision: Decision


Line: TypeAlias = RunRecord | WorkloadLine | CandidateLine | SamplesLine | DecisionLine
LINES: dict[str, type[Line]] = {
    "run": RunRecord, "workload": WorkloadLine, "candidate": CandidateLine, "samples": SamplesLine, "decision": DecisionLine,
}  # fmt: skip
"""The class of each kind of line."""
_KINDS = {line: kind for kind, line in LINES.items()}


# --- out


def export_lines(database: "Database") -> Iterator[str]:
    """All records of a database, as the lines of a file."""
    yield json.dumps(FORMAT) + "\n"
    runs = set()
    for record in database.runs():
        runs.add(record.id)
        yield _written(record)
    numbers = database.storage.read(lambda connection: connection.execute("SELECT id FROM workloads ORDER BY id").fetchall())
    for (number,) in numbers:
        lines = database.storage.read(partial(_lines_of_workload, number=number))
        if {line.run for line in lines if not isinstance(line, (RunRecord, WorkloadLine))} - runs:  # runs that began since
            for record in database.runs():
                if record.id not in runs:
                    runs.add(record.id)
                    yield _written(record)
        yield from map(_written, lines)


def _lines_of_workload(connection: sqlite3.Connection, number: int) -> list[Line]:
    def rows(columns: str, table: str, key: str = "workload") -> sqlite3.Cursor:
        return connection.execute(f"SELECT {columns} FROM {table} WHERE {key} = ? ORDER BY rowid", (number,))

    return [
        *(WorkloadLine(number, workload_of(row[:5]), info_of(row[5:])) for row in rows(f"{WORKLOAD}, {INFO}", "workloads", "id")),
        *(CandidateLine(number, row[0], row[1], candidate_of(row[2:])) for row in rows(f"run, changed, {CANDIDATE}", "candidates")),
        *(SamplesLine(number, row[0], row[1], samples_of(row[2:])) for row in rows(f"run, number, {SAMPLES}", "samples")),
        *(
            DecisionLine(number, row[0], row[1], bool(row[2]), decision_of(row[3:]))
            for row in rows(f"run, changed, withdrawn, {DECISION}", "decisions")
        ),
    ]


def _written(line: Line) -> str:
    return json.dumps({"kind": _KINDS[type(line)], **to_json(line)}) + "\n"


# --- in


def import_lines(database: "Database", file: IO[bytes], name: str) -> Counter[str]:
    """Add the records of a file; returns how many were new, by kind of line. All of it is checked before anything is stored.

    Where both have a record, the newer one stays, so a second import of the same file changes nothing. Raises InputError, naming file, line and
    field.
    """
    with nameless_file() as copy:
        if not file.seekable():
            _copy(file, copy, name)
            file = copy
        if file.seek(0, os.SEEK_END) > FILE_BYTES:
            raise _too_large(name)
        file.seek(0)
        for _ in read_lines(file, name):
            pass
        file.seek(0)
        return _merge(database, read_lines(file, name))


def _copy(file: IO[bytes], copy: IO[bytes], name: str) -> None:
    """Copy a stream. Raises InputError if it is too large."""
    while data := file.read(_COPIED_BYTES):
        copy.write(data)
        if copy.tell() > FILE_BYTES:
            raise _too_large(name)


def _too_large(name: str) -> InputError:
    return InputError(f"{printable(name)}: expected at most {FILE_BYTES >> 20} MB of records")


def read_lines(file: IO[bytes], name: str) -> Iterator[Line]:
    """The lines of a file, checked. Raises InputError, naming file, line and field."""
    seen: dict[str, set[int]] = {"run": set(), "workload": set()}
    for place in count(1):
        data = file.readline(LINE_BYTES + 1)
        if not data and place > 1:
            return
        try:
            if len(data) > LINE_BYTES:
                raise InputError(f"expected at most {LINE_BYTES >> 20} MB on a line")
            line = _parsed(data, is_first=place == 1)
            if line is not None:
                _check(line, seen)
                yield line
        except InputError as error:
            raise InputError(f"{printable(name)}:{place}: {printable(str(error.args[0]))}") from None


def _parsed(data: bytes, *, is_first: bool) -> Line | None:
    """The record of a line; None for the first line. Raises InputError."""
    try:
        found = json.loads(data.decode(), parse_constant=_no_number, object_pairs_hook=_object)
        if not is_first:
            return _record(found)
    except RecursionError:
        raise InputError("expected a record, got deeply nested JSON") from None
    except ValueError as error:
        raise InputError(f"expected an object as JSON: {error}") from None
    if found != FORMAT:
        raise InputError(f"expected {json.dumps(FORMAT)} in the first line: it is no file of tuning records, or one of another version")
    return None


def _record(found: object) -> Line:
    kind = found.pop("kind", None) if isinstance(found, dict) else found
    if not isinstance(kind, str) or kind not in LINES:
        raise InputError(f"kind: expected one of {', '.join(LINES)}, got {shown(kind)}")
    _check_values(found, kind)
    return from_json(LINES[kind], found, kind)


def _object(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InputError("expected each field once")
    return found


def _no_number(text: str) -> float:
    raise InputError(f"expected finite numbers, got {text}")


def _check_values(value: object, where: str, field: str = "") -> None:
    """Check all texts and numbers of a line. Raises InputError."""
    if isinstance(value, dict):
        for name, inner in value.items():
            _check_values(name, f"the fields of {where}")
            _check_values(inner, f"{where}: {name}", name)
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            _check_values(inner, f"{where}: {place}")
    elif isinstance(value, str):
        if len(value) > LONGEST_NAME and field not in _LINES_OF_TEXT:
            raise InputError(f"{where}: expected at most {LONGEST_NAME} characters, got {len(value)}")
        lines = value.replace("\t", " ").split("\n") if field in _LINES_OF_TEXT else [value]
        if not all(line.isprintable() for line in lines):
            raise InputError(f"{where}: expected printable text{'' if field in _LINES_OF_TEXT else ' on one line'}, got {ascii(value)[:60]}")
    elif isinstance(value, (int, float)) and not (abs(value) < 2**63 if isinstance(value, int) else math.isfinite(value)):
        raise InputError(f"{where}: expected a finite number, or an integer of at most 63 bits, got {shown(value)}")


def _check(line: Line, seen: dict[str, set[int]]) -> None:
    """Check a record's values and its references to lines above it. Raises InputError."""
    if isinstance(line, RunRecord):
        run_row(line.run)
        _check_time("began", line.began)
        _check_time("changed", line.changed)
        seen["run"].add(line.id)
        return
    if isinstance(line, WorkloadLine):
        workload_row(line.workload)
        if line.number in seen["workload"]:
            raise InputError(f"number: expected another one for each workload, got {line.number} again")
        seen["workload"].add(line.number)
        return
    for name in ("run", "workload"):
        if getattr(line, name) not in seen[name]:
            raise InputError(f"{name}: expected the number of one in a line above, got {getattr(line, name)}")
    if isinstance(line, SamplesLine):
        samples_row(line.samples)
        if line.number < 0:
            raise InputError(f"number: expected at least 0, got {line.number}")
        return
    _check_time("changed", line.changed)
    if isinstance(line, CandidateLine):
        candidate_row(line.candidate)
    else:
        decision_row(line.decision)


def _check_time(name: str, moment: float) -> None:
    if not 0 <= moment < _LATEST:
        raise InputError(f"{name}: expected seconds since 1970, got {shown(moment)}")


def _merge(database: "Database", lines: Iterator[Line]) -> Counter[str]:
    """Store checked lines in short transactions; returns how many were new, by kind."""
    machines: dict[int, str] = {}
    workloads: dict[int, WorkloadLine] = {}
    added: Counter[str] = Counter()
    while batch := list(islice(lines, _BATCH)):
        machines |= {line.id: line.machine for line in batch if isinstance(line, RunRecord)}
        workloads |= {line.number: line for line in batch if isinstance(line, WorkloadLine)}
        added.update(database.storage.write(partial(_merge_batch, batch=batch, machines=machines, workloads=workloads)))
    return added


def _merge_batch(
    connection: sqlite3.Connection, batch: Sequence[Line], machines: dict[int, str], workloads: dict[int, WorkloadLine]
) -> Counter[str]:
    added: Counter[str] = Counter()
    numbers: dict[int, int] = {}
    for line in batch:
        if isinstance(line, RunRecord):
            added["run"] += put_run(connection, line)
        elif not isinstance(line, WorkloadLine):
            if line.workload not in numbers:
                numbers[line.workload] = put_workload(connection, workloads[line.workload].workload, workloads[line.workload].info)
            added[_KINDS[type(line)]] += _merge_line(connection, line, numbers[line.workload], machines[line.run])
    return added


def _merge_line(connection: sqlite3.Connection, line: CandidateLine | SamplesLine | DecisionLine, workload: int, machine: str) -> int:
    if isinstance(line, CandidateLine):
        return put_candidate(connection, workload, line.run, machine, line.changed, line.candidate, newer=True)
    if isinstance(line, DecisionLine):
        return put_decision(connection, workload, line.run, machine, line.changed, line.decision, withdrawn=line.withdrawn, newer=True)
    return put_samples(connection, workload, line.run, [line.samples], line.number)
