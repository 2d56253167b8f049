"""scripts/nightly: runs each net once, counts its cases, goes on after a failure, and compares with earlier reports."""

import json
import re
from pathlib import Path

import nets
import pytest
from nets import NETS, Net

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Net]:
    monkeypatch.setattr(nets, "measured_unit", lambda: 0.5)
    for name, source in {
        "right": "import os; print('12 cases of 3 ops, 0 wrong', os.environ.get('WORD'))",
        "wrong": "import sys; print('5 cases of 1 ops, 1 wrong'); print('\\x1b[31mred'); sys.exit(1)",
        "nothing": "print('0 cases of 0 ops')",
        "burning": "sum(range(3_000_000)); print('1 cases of 1 ops')",
    }.items():
        (tmp_path / f"{name}.py").write_text(source)
    commands = {"wrong": "wrong", "right": "right", "nothing": "nothing", "burning": "burning"}
    found = [Net(name, (str(tmp_path / f"{file}.py"),), r"(?m)^(\d+) cases of", {"WORD": "told"}) for name, file in commands.items()]
    return [*found, Net("none", (str(tmp_path / "wrong.py"),), "no such text", none=1)]


def test_a_failure_does_not_end_the_run(fakes: list[Net], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert nets.main([], fakes, tmp_path / "reports") == 1
    out = capsys.readouterr().out
    assert out.endswith("\n3 passed, 2 failed\n")
    assert "FAILED, status 1" in out
    assert "FAILED, status 0" in out  # it ran no case
    assert "\x1b" not in out
    (report,) = (tmp_path / "reports").glob("*.json")
    found = {net["name"]: net for net in json.loads(report.read_text())["nets"]}
    assert {name: (net["has_passed"], net["cases"]) for name, net in found.items()} == {
        "right": (True, 12), "wrong": (False, 5), "nothing": (False, 0), "burning": (True, 1), "none": (True, 0),
    }  # fmt: skip
    assert found["burning"]["cpu_seconds"] >= 0
    assert "told" in (tmp_path / "reports" / "right.log").read_text()


def test_the_trend_is_that_of_the_same_net_on_machines_of_any_speed(fakes: list[Net], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, unit, seconds in (("2001", 0.5, 10.0), ("2002", 1.0, 40.0), ("2003", 0.5, 30.0)):
        entries = [{"name": "right", "has_passed": True, "cpu_seconds": seconds}, {"name": "wrong", "has_passed": False, "cpu_seconds": 1.0}]
        (tmp_path / f"{name}.json").write_text(json.dumps({"unit": unit, "nets": entries}))
    before = nets.earlier(tmp_path)
    assert before == {"right": [20.0, 40.0, 60.0]}
    outcomes = [nets.Outcome(name, (), 0, True, 1, 15.0, 1.0) for name in ("right", "wrong")]
    columns = [list(column.cells) for column in nets.table(outcomes, before, 0.5).columns]
    assert [column[0] for column in columns[-3:]] == ["0.50", "0.75", "3"]
    assert [column[1] for column in columns[-3:]] == ["", "", ""]


def test_only_what_is_named_runs(fakes: list[Net], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert nets.main(["--only", "right"], fakes, tmp_path / "reports") == 0
    assert capsys.readouterr().out.endswith("\n1 passed, 0 failed\n")
    assert nets.main(["--list"], fakes, tmp_path / "nowhere") == 0
    assert "WORD=told" in capsys.readouterr().out
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(SystemExit) as end:
        nets.main(["--only", "unknown"], fakes, tmp_path)
    assert end.value.code == 2


def test_every_net_of_the_page_is_run() -> None:
    page = (ROOT / "docs" / "testing.md").read_text()
    run = {net.command[0] for net in NETS}
    scripts = {name for name in run if name.endswith(".py")}
    assert all((ROOT / "scripts" / name).is_file() for name in scripts)
    named = set(re.findall(r"`scripts/(\w+\.py)", "".join(line for line in page.splitlines() if line.startswith("|"))))
    assert named <= scripts


@pytest.mark.parametrize(
    ("name", "output", "cases"),
    [
        ("onnx-suite", "given                          10            2        1\none                             5            0        0\n", 18),
        ("ops", "x86-64-v3, plain: 12 cases, 0 wrong\n120 cases of 90 ops, 0 wrong\n", 120),
        ("nodes", "seed 0: Add 14 f32: wrong 7 of 8\n900 right, 30 not supported, 1 wrong in 70 s\n", 931),
        ("fuzz", "operators 0: 50 graphs so far, 0 wrong\nran 50 graphs and 100 nets, 0 wrong\n", 150),
        ("faults", "a.py: f: 1 -> 2: x = 1: survived; before: lit: a.mlir\nof 40 faults that a test saw before: 39 seen, 1 survived\n", 40),
        ("hostile", "fine   empty     0.1 s    90 MiB  SW001\nWRONG  deep      1.1 s    90 MiB  crashed\n", 2),
        ("scaling", "    chain nodes    import       sum\n            100     0.010     0.020\n       exponent      1.00      1.00\n", 1),
        ("memory", "weights 2.5 GB, written in 1.0 s\ncold    peak 2.9 GB = 1.1 x weights\ncached  peak 2.8 GB = 1.1 x weights\n", 2),
        ("free-sizes", "       2x3x224x224     1.000 (1.100)     1.000 (1.100)   1.000    1.000  1.2e-07\n", 1),
        ("vector-math", "exp      0.9000 ulp of at most 1 at (1.0) of 4294967296\n", 1),
        ("robustness", "....\n90 passed, 2 xfailed in 60.00s\n", 92),
    ],
)  # fmt: skip
def test_cases_are_counted_as_the_scripts_print_them(name: str, output: str, cases: int) -> None:
    assert next(net for net in NETS if net.name == name).count(output) == cases
