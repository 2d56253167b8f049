"""stepwell tuning: shows records, exchanges them between files, removes them."""

import json
from pathlib import Path

import pytest
from commands import Commands, process
from recorded_tuning import INFO, OTHER, PROVENANCE, candidate, filled, run, workload

from stepwell.database import storage
from stepwell.database.database import Database
from stepwell.database.records import State, WorkloadInfo
from stepwell.dialects.target.registry import resolve


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that the commands use: a run of this machine with two decisions, and one of another machine with one."""
    monkeypatch.setenv("STEPWELL_TUNING", str(tmp_path / "t.sqlite"))
    storage._note.cache_clear()
    filled(tmp_path / "t.sqlite").close()
    filled(tmp_path / "t.sqlite", machine=OTHER, count=1).close()
    return tmp_path / "t.sqlite"


def cells(text: str, start: str) -> list[list[str]]:
    """The cells of the lines that begin with a text."""
    return [[cell for cell in line.split("  ") if cell.strip()] for line in text.splitlines() if line.startswith(start)]


def test_show(commands: Commands, records: Path) -> None:
    shown = commands.stepwell("tuning", "show")
    assert (shown.status, shown.err, shown.out.splitlines()[0]) == (0, "", str(records))
    rows = [[cell.strip() for cell in row] for row in cells(shown.out, "schedule")]
    common = ["schedule", "conv_1:contraction", "digits", "x86-64-v3", "1", "0.900", "0.880 to 0.920", "2"]
    assert [row[:-1] for row in sorted(rows)] == [[*common, "A processor"], [*common, "this one"], [*common, "this one"]]
    assert "finished" in shown.out
    assert "3 decisions, 2 runs" in shown.out
    named = commands.stepwell("tuning", "show", "conv_*")
    assert named.out.count("schedule conv_1:contraction (digits), 1 thread") == 2
    assert sum("annealing" in line and "search" in line and "0.928" in line for line in named.out.splitlines()) == 3
    commands.stepwell("tuning", "show", "pool*").refused(1, "NAME: expected the name of a workload in", "'pool*'")
    assert "0 decisions, 0 runs" in commands.stepwell("tuning", "show", "--target", "x86-64-v2").out
    commands.stepwell("tuning", "show", "--target", "abacus").refused(2, "--target: unknown target 'abacus'")


def test_show_as_json(commands: Commands, records: Path) -> None:
    digest = resolve("x86-64-v3").digest
    with Database.opened(records) as database:
        number = database.begin(run("other", target=digest), PROVENANCE)
        failed = candidate("x", state=State.FAILED, message="no\x1b[31m\nway")
        database.add_candidates(workload(target=digest), WorkloadInfo("odd", "n"), [failed], number)
    found = json.loads(commands.stepwell("tuning", "show", "--json").out)
    assert found["file"] == str(records)
    assert [(entry["is_here"], entry["info"]["features"]["m"]) for entry in found["decisions"]].count((True, 64.0)) == 2
    assert [entry["run"]["network"] for entry in found["runs"]] == ["digits", "digits", "other"]
    found = json.loads(commands.stepwell("tuning", "show", "--json", "--target", "x86-64-v3").out)
    assert (found["decisions"], [entry["run"]["network"] for entry in found["runs"]]) == ([], ["other"])
    (tried,) = json.loads(commands.stepwell("tuning", "show", "odd", "--json").out)
    assert (tried["candidate"]["state"], tried["candidate"]["message"], tried["samples"]) == ("failed", "no\\x1b[31m\nway", [])
    shown = commands.stepwell("tuning", "show", "odd")
    assert all(line.isprintable() for line in shown.out.splitlines())
    assert "failed: no" in shown.out


def test_export_import_and_prune(commands: Commands, records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "records.jsonl"
    written = commands.stepwell("tuning", "export", file)
    assert (written.status, written.out) == (0, f"wrote 19 records to {file}\n")
    assert process("main", "tuning", "export", "-", STEPWELL_TUNING=str(records)).out == file.read_text()
    monkeypatch.setenv("STEPWELL_TUNING", str(tmp_path / "new.sqlite"))
    added = commands.stepwell("tuning", "import", file, file)
    first, second = added.out.splitlines()
    assert first == f"{file}: 2 runs, 6 candidates, 6 series of samples and 3 decisions were new or newer"
    assert second == f"{file}: 0 runs, 0 candidates, 0 series of samples and 0 decisions were new or newer"
    ended = process("main", "tuning", "import", "-", text=file.read_text(), STEPWELL_TUNING=str(tmp_path / "third.sqlite"))
    assert (ended.status, ended.out) == (0, first.replace(str(file), "-") + "\n")
    assert commands.stepwell("tuning", "prune", "--other-machines").out == (
        "removed 1 run, 2 candidates, 1 decision, 0 workloads and 2 series of samples\n"
    )
    assert "2 decisions, 1 run;" in commands.stepwell("tuning", "show").out
    commands.stepwell("tuning", "prune").refused(2, "expected --older-than, --other-machines or --keep")
    file.write_text("{}")
    commands.stepwell("tuning", "import", file).refused(1, "records.jsonl:1: expected")
    commands.stepwell("tuning", "import", tmp_path / "none").refused(1, "none: No such file")
    commands.stepwell("tuning", "export", tmp_path / "no" / "folder").refused(1, "its folder does not exist")


def test_records_that_cannot_be_used_are_said(commands: Commands, records: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    assert commands.stepwell("tuning", "export", file).status == 0
    records.chmod(0o666)
    shown = commands.stepwell("tuning", "show")
    assert shown.status == 0
    assert shown.out.splitlines()[1].startswith("not used: others may write to")
    assert shown.err.count("stepwell: warning: the tuning records in ") == 1
    commands.stepwell("tuning", "import", file).refused(1, "the file cannot be used: others may write to")
    commands.stepwell("tuning", "export", file).refused(1, "the file cannot be used: others may write to")
    monkeypatch.setenv("STEPWELL_TUNING", "0")
    assert "switched off" in commands.stepwell("tuning", "show").out
    commands.stepwell("tuning", "export", file).refused(1, "STEPWELL_TUNING: expected a file, got 0")
    assert INFO.name in file.read_text(), "what was exported before is still there"
