"""Tuning records as JSON lines: what is written comes back, once; a file that is wrong is told, and changes nothing."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from every import every
from recorded_tuning import INFO, OTHER, PROVENANCE, candidate, decision, filled, run, samples, workload

from stepwell.database import interchange
from stepwell.database.database import Database
from stepwell.database.interchange import export_lines, import_lines
from stepwell.database.records import Phase, State
from stepwell.dialects.support.errors import InputError


def exported(database: Database) -> bytes:
    return "".join(export_lines(database)).encode()


def contents(database: Database) -> tuple[object, ...]:
    """All that a database holds."""
    return database.runs(), list(database.records()), database.decisions("t0", 1), database.plan("c0", "t0", 1)


def test_a_file_brings_all_records_and_brings_them_once(tmp_path: Path) -> None:
    database = filled(tmp_path / "a.sqlite")
    number = database.begin(run("second", "c1"), PROVENANCE)
    odd = candidate("odd", state=State.FAILED, message="line\n\tline \x1b", predicted=None)
    database.add_candidates(workload(4, above="€", threads=3), INFO, [odd], number)
    database.add_samples(workload(0), [samples(phase=Phase.WHOLE)], number)
    database.forget(workload(1))
    data = exported(database)
    assert json.loads(data.splitlines()[0]) == {"format": "stepwell tuning records", "version": 1}
    other = Database.opened(tmp_path / "b.sqlite")
    assert import_lines(other, io.BytesIO(data), "x") == {"run": 2, "candidate": 5, "samples": 5, "decision": 2}
    assert contents(other) == contents(database)
    assert other.decision(workload(1)) is None
    before = other.stamp("t0", 1)
    assert import_lines(other, io.BytesIO(data), "x").total() == 0
    assert (contents(other), other.stamp("t0", 1)) == (contents(database), before)
    assert exported(other) == data


def test_records_merge_and_the_newer_ones_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interchange, "_BATCH", 2)  # many transactions
    other, database = filled(tmp_path / "b.sqlite", count=3), filled(tmp_path / "a.sqlite")
    old = exported(database)
    number = database.runs()[0].id
    database.add_candidates(workload(0), INFO, [candidate(state=State.CRASHED)], number)
    database.add_samples(workload(0), [samples("more")], number)
    database.decide(workload(0), decision("more"), number)
    database.forget(workload(1))
    database.update_run(number, spent=99.0)
    before, stamp = contents(database), database.stamp("t0", 1)
    assert import_lines(database, io.BytesIO(old), "x").total() == 0, "an older file brings nothing back"
    assert (contents(database), database.stamp("t0", 1)) == (before, stamp)
    assert import_lines(other, io.BytesIO(old), "x") == {"run": 1, "candidate": 4, "samples": 4, "decision": 2}
    stamp = other.stamp("t0", 1)
    assert import_lines(other, io.BytesIO(exported(database)), "x") == {"run": 1, "candidate": 1, "samples": 1, "decision": 2}
    assert [record.run.spent for record in other.runs()] == [12.5, 99.0]
    assert (other.decision(workload(0)), other.decision(workload(1)), other.decision(workload(2))) == (decision("more"), None, decision())
    assert other.stamp("t0", 1) != stamp
    assert len(other.samples(workload(0))) == 5


def test_records_of_another_machine_stay_theirs(tmp_path: Path) -> None:
    theirs, mine = filled(tmp_path / "a.sqlite", machine=OTHER), Database.opened(tmp_path / "b.sqlite")
    assert import_lines(mine, io.BytesIO(exported(theirs)), "x").total() == 11
    assert (mine.decision(workload()), mine.candidates(workload()), mine.plan("c0", "t0", 1), mine.stamp("t0", 1)) == (None, [], None, "")
    assert [where for where, _, _ in mine.similar(workload(), INFO, 9)] == [workload(0), workload(1)]
    assert contents(Database.opened(tmp_path / "b.sqlite", machine=OTHER)) == contents(theirs)


def test_records_that_are_stored_during_an_export_are_whole(tmp_path: Path) -> None:
    database = filled(tmp_path / "a.sqlite")
    lines = export_lines(database)
    written = [next(lines), next(lines)]
    number = database.begin(run("late"), PROVENANCE)
    database.add_samples(workload(0), [samples("late")], number)
    written += lines
    other = Database.opened(tmp_path / "b.sqlite")
    assert import_lines(other, io.BytesIO("".join(written).encode()), "x")["run"] == 2
    assert other.samples(workload(0)) == database.samples(workload(0))


def test_a_stream_is_read(tmp_path: Path) -> None:
    data = exported(filled(tmp_path / "a.sqlite"))
    code = f"""
import sys
from stepwell.database.database import Database
from stepwell.database.interchange import import_lines
assert not sys.stdin.buffer.seekable()
print(import_lines(Database.opened({str(tmp_path / "b.sqlite")!r}), sys.stdin.buffer, "x").total())
"""
    ended = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, timeout=60, check=False, env=dict(os.environ))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"11\n", b"")


# --- files that are wrong

Change = Callable[[dict[str, Any]], object]


def put(*path: str | int, value: object) -> Change:
    """Sets a value inside a line."""

    def change(line: dict[str, Any]) -> None:
        inner: Any = line
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = value

    return change


WRONG_FIELDS: list[tuple[str, Change, str]] = [
    ("run", put("run", "threads", value="1"), r"run: run: threads: expected integer, got '1'"),
    ("run", put("run", "threads", value=0), r"threads: expected an integer from 1 "),
    ("run", put("run", "threads", value=True), r"threads: expected integer, got True"),
    ("run", put("run", "status", value="done"), r"status: expected one of running, finished, interrupted, failed, got 'done'"),
    ("run", put("run", "network", value="a\x1b[31m"), r"run: run: network: expected printable text on one line, got 'a\\x1b\[31m'"),
    ("run", put("run", "network", value="a\nb"), r"run: run: network: expected printable text on one line"),
    ("run", put("run", "plan", value="\x00"), r"run: run: plan: expected printable text"),
    ("run", put("run", "seed", value=2**63), r"seed: expected a finite number, or an integer of at most 63 bits"),
    ("run", put("id", value=1.0), r"run: id: expected integer, got 1.0"),
    ("run", put("began", value=1e300), r"began: expected seconds since 1970"),
    ("run", put("provenance", "features", value={}), r"run: provenance: features: expected "),
    ("run", put("provenance", "versions", "\x07", value="1"), r"the fields of run: provenance: versions: expected printable text"),
    ("run", put("extra", value=1), r"run: expected the fields id, machine, .*, got .*extra"),
    ("workload", put("workload", "kind", value=None), r"workload: workload: kind: expected text, got None"),
    ("workload", lambda line: line.pop("info"), r"workload: expected the fields number, workload, info, got number, workload"),
    ("workload", put("info", "features", "m", value="64"), r"workload: info: features: m: expected float, got '64'"),
    ("workload", put("info", "nodes", 0, value="\u2028"), r"workload: info: nodes: 0: expected printable text"),
    ("workload", put("info", "name", value="\ud800"), r"workload: info: name: expected printable text"),
    ("candidate", put("candidate", "state", value="sold"), r"candidate: candidate: state: expected one of built, .*, got 'sold'"),
    ("candidate", put("run", value=3), r"run: expected the number of one in a line above, got 3"),
    ("candidate", put("workload", value=99), r"workload: expected the number of one in a line above, got 99"),
    ("candidate", put("changed", value=-1.0), r"changed: expected seconds since 1970, got -1.0"),
    ("samples", put("samples", "log_ratios", value=[0.1, "b"]), r"samples: samples: log_ratios: 1: expected float, got 'b'"),
    ("samples", put("samples", "log_ratios", value=[1e300]), r"log_ratios: expected a finite number up to 700.0"),
    ("samples", put("samples", "clock", value="sun"), r"clock: expected one of cpu, wall, got 'sun'"),
    ("samples", put("samples", "discarded", value=-1), r"discarded: expected an integer from 0 "),
    ("samples", put("number", value=-1), r"number: expected at least 0, got -1"),
    ("decision", put("withdrawn", value=0), r"decision: withdrawn: expected boolean, got 0"),
    ("decision", put("decision", value=[]), r"decision: decision: expected an object, got \[\]"),
    ("decision", put("kind", value="delete"), r"kind: expected one of run, workload, .*, got 'delete'"),
    ("decision", put("kind", value=["run"]), r"kind: expected one of run, workload, .*, got \['run'\]"),
]


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Database:
    """A database that refuses all that is imported."""
    return filled(tmp_path_factory.mktemp("records") / "t.sqlite", count=1)


def refused(data: bytes, place: int, message: str, database: Database) -> None:
    before = contents(database)
    with pytest.raises(InputError, match=rf"^SW003 evil\\x1b:{place}: .*{message}") as told:
        import_lines(database, io.BytesIO(data), "evil\x1b")
    assert str(told.value).isprintable()
    assert len(str(told.value)) < 500
    assert contents(database) == before


@every("kind, change, message", WRONG_FIELDS, ids=lambda case: case if isinstance(case, str) else None)
def test_a_wrong_field_is_named(kind: str, change: Change, message: str, unchanged: Database) -> None:
    changed = [json.loads(line) for line in export_lines(unchanged)]
    place = next(i for i, line in enumerate(changed) if line.get("kind") == kind)
    change(changed[place])
    refused("".join(json.dumps(line) + "\n" for line in changed).encode(), place + 1, message, unchanged)


HEADER = json.dumps(interchange.FORMAT).encode() + b"\n"
WRONG_FILES = [
    (b"", 1, "expected an object as JSON"), (b"{}\n", 1, "it is no file of tuning records"), (b"\x7fELF\x02\x01", 1, "expected an object as JSON"),
    (HEADER.replace(b"1", b"2"), 1, "or one of another version"), (HEADER + b"[]\n", 2, r"kind: expected one of .*, got \[\]"),
    (HEADER + b"\n", 2, "expected an object as JSON"), (HEADER + b'{"kind": "run"', 2, "expected an object as JSON"),
    (HEADER + b'{"kind": "run"}\n', 2, "run: expected the fields id, .*, got none"),
    (HEADER + b'{"kind": NaN}', 2, "expected finite numbers, got NaN"),
    (HEADER + b'{"kind": "run", "id": 1e999}', 2, "run: id: expected a finite number"), (HEADER + b"[" * 100_000, 2, "deeply nested JSON"),
    (HEADER + b'{"kind": "run", "id": ' + b"[" * 800 + b"]" * 800 + b"}", 2, "deeply nested JSON|run: expected the fields"),
    (HEADER + b'{"kind": "run", "id": "' + b"a" * 100_000 + b'"}', 2, "run: id: expected at most 65536 characters, got 100000"),
    (HEADER + b'{"kind": "run", "id": ' + b"1" * 5000 + b"}", 2, "expected an object as JSON: Exceeds the limit"),
    (HEADER + b'{"kind": "run", "kind": "run"}', 2, "expected each field once"), (HEADER + b'"\xff"', 2, "expected an object as JSON: 'utf-8'"),
    (HEADER + b" " * (1 << 16), 2, "expected at most 0 MB on a line"),
]  # fmt: skip


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file that is right."""
    return exported(filled(tmp_path_factory.mktemp("good") / "t.sqlite"))


@every("data, place, message", WRONG_FILES, ids=lambda case: None)
def test_a_hostile_file_is_one_error(
    data: bytes, place: int, message: str, unchanged: Database, good: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interchange, "_BATCH", 1)
    if data.endswith(b" "):
        monkeypatch.setattr(interchange, "LINE_BYTES", 1 << 15)
    elif data.startswith(HEADER):  # all of a file is checked before anything is stored
        data, place = good + data.removeprefix(HEADER), place + good.count(b"\n") - 1
    refused(data, place, message, unchanged)


def test_a_file_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interchange, "FILE_BYTES", 1000)

    class Stream(io.BytesIO):
        def seekable(self) -> bool:
            return False

    for stream in (io.BytesIO, Stream):
        with pytest.raises(InputError, match=r"^SW003 x: expected at most 0 MB of records"):
            import_lines(Database.opened(tmp_path / "t.sqlite"), stream(HEADER + b" " * 1000), "x")
