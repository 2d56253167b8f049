"""stepwell tune: a network tuned from the command line, and what is shown and written of it."""

import json
import re
from pathlib import Path

import pytest
from commands import Commands

from stepwell.cli.common import UsageError
from stepwell.cli.tune import parse_time
from stepwell.dialects.sched.plan_file import Plan

DIGITS = str(Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx")
SHAPE = ("--shape", "image=1x1x8x8")


def test_a_network_from_nothing_to_its_plan_and_report(commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_TUNING", str(tmp_path / "tuning.sqlite"))
    plan, page, pictures = tmp_path / "digits.plan.json", tmp_path / "digits.html", tmp_path / "pictures"
    tuned = commands.stepwell("tune", DIGITS, *SHAPE, "--budget", "3s", "--floor", "schedule", "-o", str(plan), "--report", str(page))
    assert tuned.status == 0, tuned.err
    assert re.search(r"\d+ s of 3 s used", tuned.err)
    assert re.search(r"the network takes 0\.\d+ .* of the untuned one's time|empty; \d+ candidates of \d+ sites were tried", tuned.out)
    assert isinstance(Plan.from_source(plan), Plan)
    assert "digits" in page.read_text()
    run = commands.stepwell("run", DIGITS, *SHAPE, "--threads", "1", "--plan", str(plan), "--check", "onnxruntime")
    assert run.status == 0, run.err
    shown = commands.stepwell("tuning", "show")
    assert "1 run;" in shown.out
    assert "finished" in shown.out
    drawn = commands.stepwell("tuning", "plot", "-o", str(pictures), "--format", "svg")
    assert drawn.status == 0, drawn.err
    assert {file.suffix for file in pictures.iterdir()} == {".svg"}
    again = commands.stepwell("tune", DIGITS, *SHAPE, "--budget", "3s", "--floor", "schedule", "-o", str(plan), "--quiet")
    assert again.status == 0
    assert again.err == ""


def test_space_lists_the_sites_with_their_candidates(commands: Commands) -> None:
    found = json.loads(commands.stepwell("tuning", "space", DIGITS, *SHAPE, "--json").out)
    assert {site["floor"] for site in found} == {"schedule", "algorithm", "graph"}
    assert all(1 <= site["same bits"] <= site["all"] for site in found)
    table = commands.stepwell("tuning", "space", DIGITS, *SHAPE, "--floor", "graph").out
    assert "fusion" in table
    assert "contraction" not in table


def test_times() -> None:
    assert [parse_time(text) for text in ("30s", "10m", "2h", "45", "0.5m")] == [30.0, 600.0, 7200.0, 45.0, 30.0]
    for text in ("", "s", "-3s", "0s", "ten", "1e12h", "nan"):
        with pytest.raises(UsageError, match="--budget"):
            parse_time(text)


def test_wrong_usage(commands: Commands, tmp_path: Path) -> None:
    commands.stepwell("tune", DIGITS, "-o", str(tmp_path / "no" / "p.json")).refused(2, "there is no folder")
    commands.stepwell("tune", DIGITS, *SHAPE, "--strategy", "magic", "--budget", "1s").refused(1, "strategy: expected one of annealing")
    commands.stepwell("tune", DIGITS, "--budget", "1s").refused(1, "image")
    commands.stepwell("tune", DIGITS, *SHAPE, "--budget", "1s", "--input", "picture=random").refused(2, "there is no input 'picture'")
    commands.stepwell("tune", str(tmp_path / "none.onnx"), "--budget", "1s").refused(1, "none.onnx")
