"""scripts/compile_time.py: what commands cost is told apart by process, in units; two checkouts are compared round by round."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from compile_cost.commands import Cost
from compile_cost.measure import Found, Measurement, sides
from compile_cost.report import median, show
from compile_cost.subjects import COMMANDS, USUAL, commands, find

from benchmark.jobs import Failure

ROOT = Path(__file__).resolve().parents[2]
# A command that works, starts a process that works, and leaves one behind that would go on.
BURN = "import time\nwhile time.process_time() < 0.2: pass\n"
LEAVING = f"""{BURN}
import subprocess, sys
subprocess.run([sys.executable, '-c', {BURN!r}])
subprocess.Popen([sys.executable, '-c', 'while True: pass'])
time.sleep(0.5)
"""
PROGRAM = f"""
import os, sys, time
from pathlib import Path
from compile_cost.commands import CommandError, adopt_orphans, run

adopt_orphans()
waiting = os.fork()
if waiting == 0:
    time.sleep(600)
cost = run([sys.executable, "-c", {LEAVING!r}], os.environ, Path.cwd())
assert 0.15 < cost.own < 1, cost
assert cost.workers > 0.2 and cost.wall > 0.5, cost
assert Path("/proc/self/task", str(os.getpid()), "children").read_text().split() == [str(waiting)]
os.kill(waiting, 9)
try:
    run([sys.executable, "-c", "print('why'); raise SystemExit(3)"], os.environ, Path.cwd())
except CommandError as error:
    assert "status 3" in str(error) and "why" in str(error)
else:
    raise AssertionError("an error is not told")
"""


def measured(side: str, number: int, own: float, workers: float) -> Measurement:
    return Measurement(number, "net", "cold", side, Cost(own, workers, 1.0, ""), 0.5)


def test_processes_are_told_apart_and_none_is_left() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT / "scripts", capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_one_node(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "compile_time.py"), "relu", "--rounds", "1", "--no-peer", "--no-levels", "--json", "found.json"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "cores busy" in ended.stdout
    cold, warm = json.loads((tmp_path / "found.json").read_text())["costs"]
    assert [cold["what"], warm["what"]] == ["cold", "warm"]
    assert cold["cost"]["own"] > warm["cost"]["own"] > 0
    assert cold["unit"] == warm["unit"] > 0


def test_checkouts_are_compared_round_by_round(capsys: pytest.CaptureFixture[str]) -> None:
    found = Found([measured("ours", 0, 1.0, 1.0), measured("theirs", 0, 2.0, 1.0), measured("ours", 1, 0.5, 0.5), measured("theirs", 1, 1.0, 1.0)])
    found.parts = {("net", "levels", side): [{"import": 1.0, "graph": 3.0}] for side in ("ours", "theirs")}
    found.parts |= {("net", "passes", side): [{"cold": 1.0, "hot": 2.0}] for side in ("ours", "theirs")}
    found.counts = {("net", "ours", "hot"): 7}
    show(found, ["ours", "theirs"], passes=1)
    said = [line.split() for line in capsys.readouterr().out.splitlines()]
    row = "net cold 3.00 (2.00–4.00) 1.50 (1.00–2.00) 1.50 (1.00–2.00) 1.50 1.00 5.00 (4.00–6.00) 1.75 (1.50–2.00)"
    assert row.split() in said
    assert ["graph", "3.000", "75%", "3.000"] in said
    assert ["hot", "2.000", "67%", "7", "2.000"] in said
    assert not [line for line in said if line[:1] == ["cold"]]


def test_what_can_be_measured(tmp_path: Path) -> None:
    assert [subject.name for subject in find(["relu", "chain:9", COMMANDS], tmp_path, tmp_path)] == ["relu", "chain:9"]
    assert COMMANDS in USUAL
    assert {"stepwell --version", "stepwell run --help", "stepwell pipeline", "stepwell-opt --help"} <= commands().keys()
    with pytest.raises(Failure, match="GRAPH:NODES"):
        find(["nothing"], tmp_path, tmp_path)
    with pytest.raises(FileNotFoundError, match="no folder compiler"):
        sides({"theirs": tmp_path}, tmp_path / "copies")
    assert median([2.0]) == "2.00"
