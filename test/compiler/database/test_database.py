"""Tuning records: everything comes back as it was; what decides, what guides, what is removed."""

import dataclasses
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from recorded_tuning import INFO, OTHER, PROVENANCE, candidate, decision, filled, run, samples, workload

from stepwell.database.database import Database, chosen_database, database_path
from stepwell.database.provenance import provenance_of, this_machine
from stepwell.database.records import Candidate, Phase, Run, State, Workload, WorkloadInfo
from stepwell.database.similar import distance
from stepwell.dialects.support.errors import InputError
from stepwell.dialects.target.host import host


def test_records_come_back(tmp_path: Path) -> None:
    candidates = [
        Candidate("default", "default", State.SAME_CODE), candidate(),
        candidate("width=8", state=State.FAILED, message="line 1\nline 2 €", predicted=None, features={}, code="", build_seconds=0.0),
    ]  # fmt: skip
    with Database.opened(tmp_path / "new" / "t.sqlite") as database:
        number = database.begin(run(), PROVENANCE)
        database.add_candidates(workload(), INFO, candidates, number)
        database.add_samples(workload(), [samples(), samples(phase=Phase.CONFIRM)], number)
        database.add_samples(workload(), [samples("default", 0.0, phase=Phase.WHOLE)], number)
        database.decide(workload(), decision(), number)
        database.update_run(number, status="interrupted", spent=3)
    with Database.opened(tmp_path / "new" / "t.sqlite") as database:
        assert database.candidates(workload()) == candidates
        assert database.samples(workload()) == [samples(), samples(phase=Phase.CONFIRM), samples("default", 0.0, phase=Phase.WHOLE)]
        assert database.decision(workload()) == decision()
        assert database.decisions("t0", 1) == {workload(): decision()}
        (record,) = database.runs()
        assert record.run == dataclasses.replace(run(), status="interrupted", spent=3.0)
        assert (record.provenance, record.machine) == (PROVENANCE, this_machine())
        found = [(where, about, tried, len(taken), network) for where, about, tried, taken, network in database.records()]
        assert found == [(workload(), INFO, tried, count, "digits") for tried, count in zip(candidates, (1, 2, 0), strict=True)]
        database.add_candidates(workload(), INFO, [candidate(state=State.CRASHED)], number)
        states = [tried.state for tried in database.candidates(workload())]
        assert states == [State.SAME_CODE, State.CRASHED, State.FAILED], "the same text is the same candidate"
    assert (tmp_path / "new" / "t.sqlite").stat().st_mode & 0o77 == 0


def test_every_field_of_a_workload_counts(tmp_path: Path) -> None:
    database = filled(tmp_path / "t.sqlite")
    assert database.decision(workload()) == decision()
    for field in dataclasses.fields(Workload):
        other = dataclasses.replace(workload(), **{field.name: 2 if field.name == "threads" else "other"})
        assert (database.decision(other), database.candidates(other), database.samples(other)) == (None, [], []), field.name


def test_records_of_another_machine_guide_and_never_decide(tmp_path: Path) -> None:
    """Even if the target has the same digest there, as a named target has."""
    theirs = filled(tmp_path / "t.sqlite", machine=OTHER)
    mine = Database.opened(tmp_path / "t.sqlite")
    assert theirs.decision(workload()) == decision()
    assert theirs.plan("c0", "t0", 1) == '{"version": 2}'
    assert theirs.spent("c0", "t0", 1) == 12.5
    assert (mine.decision(workload()), mine.decisions("t0", 1), mine.candidates(workload()), mine.samples(workload())) == (None, {}, [], [])
    assert (mine.plan("c0", "t0", 1), mine.spent("c0", "t0", 1), mine.stamp("t0", 1)) == (None, 0.0, "")
    assert mine.similar(workload(), INFO, 5)[0] == (workload(), INFO, decision())
    assert len(list(mine.records())) == 4
    number = mine.begin(run(), PROVENANCE)
    mine.add_candidates(workload(), INFO, [candidate("mine")], number)
    mine.decide(workload(), decision("mine"), number)
    assert (mine.decision(workload()), theirs.decision(workload())) == (decision("mine"), decision())
    assert [tried.text for tried in mine.candidates(workload())] == ["mine"]
    assert workload() not in [found for found, _, _ in mine.similar(workload(), INFO, 5)], "it is decided"
    assert mine.similar(workload(7), INFO, 5) == [(workload(0), INFO, decision("mine")), (workload(1), INFO, decision())], "one decision of each"


def test_similar_ones_are_sorted_by_target_and_features(tmp_path: Path) -> None:
    database = Database.opened(tmp_path / "t.sqlite")
    number = database.begin(run(), PROVENANCE)
    sizes = {"near": 70.0, "far": 4000.0, "nearer": 66.0}
    for place, (name, size) in enumerate(sizes.items()):
        for target in ("t0", "t1"):
            where = workload(place, target=target)
            database.add_candidates(where, WorkloadInfo(name + target, "n", (), {"m": size}), [candidate()], number)
            database.decide(where, decision(), number)
    database.decide(workload(9, kind="panels"), decision(), number)
    found = database.similar(workload(8), WorkloadInfo("new", "n", (), {"m": 64.0}), 4)
    assert [info.name for _, info, _ in found] == ["nearert0", "neart0", "fart0", "nearert1"]
    database.forget(workload(2))
    assert [info.name for _, info, _ in database.similar(workload(8), WorkloadInfo("new", "n", (), {"m": 64.0}), 1)] == ["neart0"]
    assert distance({"m": 1.0}, {"m": 3.0}) == pytest.approx(distance({"m": 3.0}, {"m": 7.0}))  # equal factors of m + 1
    assert distance({"m": 1.0}, {"n": 1.0}) > distance({"m": 1.0, "n": 1.0}, {"n": 1.0}) > distance({"m": -1.0}, {"m": -1.0}) == 0


def test_a_stamp_changes_with_decisions_and_plans(tmp_path: Path) -> None:
    database = filled(tmp_path / "t.sqlite")
    number = database.begin(run(), PROVENANCE)
    stamps = [database.stamp("t0", 1)]
    others = (database.stamp("t1", 1), database.stamp("t0", 2))

    def changes(action: Callable[..., object], *arguments: object, **fields: object) -> bool:
        action(*arguments, **fields)
        stamps.append(database.stamp("t0", 1))
        return stamps[-1] not in stamps[:-1]

    assert changes(database.decide, workload(), decision("other"), number)
    assert not changes(database.decide, workload(), decision("other", 0.8), number), "the same candidate again"
    assert database.decision(workload()) == decision("other", 0.8)
    assert changes(database.forget, workload())
    assert database.decision(workload()) is None
    assert not changes(database.forget, workload())
    assert not changes(database.forget, workload(77))
    assert changes(database.decide, workload(), decision("other"), number)
    assert not changes(database.add_candidates, workload(), INFO, [candidate()], number)
    assert not changes(database.add_samples, workload(), [samples()], number)
    assert not changes(database.update_run, number, spent=1.0)
    assert changes(database.update_run, number, plan="{}", status="running")
    assert changes(database.update_run, number, status="finished")
    assert (database.stamp("t1", 1), database.stamp("t0", 2)) == others == ("", "")
    assert filled(tmp_path / "another.sqlite").stamp("t0", 1) not in stamps


def test_the_plan_of_the_latest_run_that_confirmed_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database.opened(tmp_path / "t.sqlite")
    moments = iter(range(1000, 2000))
    monkeypatch.setattr("stepwell.database.database.time.time", lambda: float(next(moments)))
    plans = {"finished": "first", "interrupted": "second", "failed": "third", "running": "fourth"}
    for status, plan in plans.items():
        number = database.begin(run(), PROVENANCE)
        database.update_run(number, status=status, plan=plan, spent=2.0)
    number = database.begin(run(), PROVENANCE)
    database.update_run(number, status="finished")
    assert database.plan("c0", "t0", 1) == "second"
    assert database.spent("c0", "t0", 1) == 8.0
    assert [database.plan(*key) for key in (("c1", "t0", 1), ("c0", "t1", 1), ("c0", "t0", 2))] == [None, None, None]
    assert database.spent("c1", "t0", 1) == 0


def test_wrong_arguments_are_told(tmp_path: Path) -> None:
    database = filled(tmp_path / "t.sqlite")
    number = database.runs()[0].id
    with pytest.raises(InputError, match=r"update_run: expected fields of a run .*, got 'speed'"):
        database.update_run(number, speed=3)
    with pytest.raises(InputError, match=r"status: expected one of running, .*, got 'done'"):
        database.update_run(number, status="done")
    with pytest.raises(InputError, match=r"run: expected the number of a run in .*, got 5"):
        database.decide(workload(), decision(), 5)
    with pytest.raises(InputError, match="log_ratios: expected a finite number"):
        database.add_samples(workload(), [samples(ratio=float("nan"))], number)
    with pytest.raises(InputError, match="features: m: expected a finite number"):
        database.add_candidates(workload(), WorkloadInfo("a", "b", (), {"m": float("inf")}), [], number)
    with pytest.raises(InputError, match="candidate: expected printable text"):
        database.add_candidates(workload(), INFO, [candidate("a\x1b[31m")], number)
    assert len(database.candidates(workload())) == len(database.samples(workload())) == 2


def test_pruning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path / "t.sqlite", machine=OTHER).close()
    database = filled(tmp_path / "t.sqlite")
    first = database.runs()[1].id
    last = database.begin(run(), PROVENANCE)
    database.add_samples(workload(0), [samples()], last)
    database.add_candidates(workload(3), INFO, [candidate()], last)
    stamp = database.stamp("t0", 1)
    assert database.prune(other_machines=True) == {"runs": 1, "candidates": 4, "samples": 4, "decisions": 2, "workloads": 0}
    assert database.stamp("t0", 1) == stamp
    nothing = dict.fromkeys(("runs", "candidates", "samples", "decisions", "workloads"), 0)
    database.forget(workload(0))
    database.update_run(first, plan="")
    assert database.prune(keep=1) == nothing, "a decision is in force"
    database.forget(workload(1))
    database.update_run(first, plan="{}")
    assert database.prune(keep=1) == nothing, "the plan is in force"
    database.update_run(first, plan="")
    assert database.prune(keep=1) == {"runs": 1, "candidates": 3, "samples": 4, "decisions": 2, "workloads": 1}
    assert [tried.text for tried in database.candidates(workload(0))] == ["unroll.2=3"], "the second run measured it"
    assert [tried.text for tried in database.candidates(workload(3))] == ["unroll.2=3"]
    database.decide(workload(3), decision(), last)
    stamp = database.stamp("t0", 1)
    assert database.prune(older_than=1) == nothing
    monkeypatch.setattr("stepwell.database.pruning.time.time", lambda: 1e11)
    assert database.prune(older_than=1)["runs"] == 1
    assert (database.runs(), list(database.records()), database.decisions("t0", 1)) == ([], [], {})
    assert database.stamp("t0", 1) != stamp


def test_the_environment_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert os.environ["STEPWELL_TUNING"] == "0", "tests leave nothing in the user's folders"
    assert chosen_database() is None
    monkeypatch.setenv("STEPWELL_TUNING", str(tmp_path / "deep" / "t.sqlite"))
    database = chosen_database()
    assert database is not None
    assert (database.decision(workload()), database.runs(), database.stamp("t0", 1)) == (None, [], "")
    assert list(tmp_path.iterdir()) == [], "looking up creates nothing"
    monkeypatch.setenv("STEPWELL_TUNING", str(tmp_path))
    with pytest.raises(InputError, match="STEPWELL_TUNING: expected a file or 0, got the folder"):
        chosen_database()
    monkeypatch.setenv("STEPWELL_TUNING", "")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert database_path() == tmp_path / "data" / "stepwell" / "tuning.sqlite"
    monkeypatch.setattr("platformdirs.user_data_path", lambda *a, **k: Path("~/.local/share/stepwell"))  # a user that the system does not know
    assert str(database_path()).endswith(f"/stepwell-{os.geteuid()}/tuning.sqlite")


def test_looking_up_loads_little() -> None:
    code = """
import sys, os
from stepwell.database.database import chosen_database
with chosen_database() as database:
    database.plan("c", "t", 1), database.stamp("t", 1), database.decisions("t", 1)
print([name for name in ("numpy", "torch_mlir", "llvmlite", "onnx", "sympy", "rich") if name in sys.modules])
"""
    environment = {**os.environ, "STEPWELL_TUNING": "/nonexistent/t.sqlite"}
    ended = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "[]\n", "")


def test_provenance_describes_this_machine() -> None:
    found = provenance_of(host())
    assert (found.target_name, found.features) == ("host", tuple(sorted(host().features)))
    assert found.cpu.isprintable()
    assert found.cores >= 1
    assert len(found.caches) == 3
    assert {"stepwell", "torch-mlir", "cmeel-libomp", "python", "code generation"} <= set(found.versions)
    assert "unknown" not in found.versions["code generation"]
    assert this_machine() == this_machine() != OTHER


def test_tables_have_the_columns_of_the_records() -> None:
    from stepwell.database import rows, schema

    listed = {
        "runs": rows.RUN, "workloads": f"{rows.WORKLOAD}, {rows.INFO}", "candidates": rows.CANDIDATE, "samples": rows.SAMPLES,
        "decisions": rows.DECISION,
    }  # fmt: skip
    for table, names in listed.items():
        assert set(names.split(", ")) <= set(schema.columns_of(table))
    connection = schema.in_memory()
    assert schema.is_sound(connection)
    assert {table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})")] for table in schema.TABLES} == {
        table: schema.columns_of(table) for table in schema.TABLES
    }
    connection.execute("ALTER TABLE runs RENAME COLUMN seed TO seeds")
    assert not schema.is_sound(connection)
    assert [field.name for field in dataclasses.fields(Run)] == rows.RUN.split(", ")
    assert sqlite3.sqlite_version_info >= (3, 25)  # window functions
