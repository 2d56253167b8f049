"""scripts/test: which checks a command line runs, what it prints and counts, and its budget."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import checks
import costs
import pytest
from affected import Affected
from budget import Budget
from checks import Counts

ROOT = Path(__file__).resolve().parents[2]
BUDGET = Budget(unit=0.5, whole=100.0, fast=50.0, fast_tests=20.0)
BURN = "import time\nwhile time.process_time() < {seconds}: pass\n"


def burn(seconds: float) -> None:
    subprocess.run([sys.executable, "-S", "-c", BURN.format(seconds=seconds)], check=True)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Checks that do nothing but say that they ran; one passes with a skip, one fails."""
    ran: list[str] = []

    def fake(name: str, counts: Callable[[], Counts]) -> Callable[..., Counts]:
        def check(*arguments: object, **options: object) -> Counts:
            ran.append(" ".join([name, *map(str, arguments), *(f"{key}={value}" for key, value in options.items())]))
            return counts()

        return check

    found = {"ruff": lambda: Counts(1), "mypy": lambda: Counts(0, 1), "lit": lambda: Counts(3), "pytest": lambda: Counts(5, 0, ["skipped: one"])}
    for name, counts in found.items():
        monkeypatch.setattr(checks, name, fake(name, counts))
    monkeypatch.setattr(checks, "CHECKS", {name: getattr(checks, name) for name in found})
    monkeypatch.setattr(checks, "BUILD", tmp_path)
    monkeypatch.setattr(checks, "measured_unit", lambda: 0.5)
    monkeypatch.setattr(Budget, "from_project", staticmethod(lambda project: BUDGET))
    return ran


def test_all_checks_run_and_a_failure_does_not_end_them(ran: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert checks.main([]) == 1
    assert ran == ["ruff", "mypy", "lit", "pytest"]
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "9 passed, 1 failed"
    assert "budget   0 of 100 CPU s" in lines[-2]
    assert "skipped: one" in lines


def test_named_checks_have_no_budget(ran: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert checks.main(["lit", "ruff"]) == 0
    assert ran == ["lit", "ruff"]
    out = capsys.readouterr().out
    assert out.endswith("\n4 passed, 0 failed\n")
    assert "budget" not in out


def test_fast_gives_the_behaviour_tests_a_budget(ran: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    checks.main(["--fast"])
    assert ran == ["ruff", "mypy", "lit", "pytest budget=20.0"]
    assert "budget   0 of 50 CPU s" in capsys.readouterr().out


def test_for_runs_what_belongs_to_files(ran: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[list[str]] = []
    found = Affected(("a.py",), False, ("a.mlir",), {"": ("test_a.py",), "full": ("test_b.py",)})
    monkeypatch.setattr(checks, "affected", lambda root, files: (asked.append(files), found)[1])
    assert checks.main(["--for", str(ROOT / "scripts" / "checks.py")]) == 0
    assert asked == [["scripts/checks.py"]]
    assert ran == ["ruff ('a.py',)", "lit ('a.mlir',)", "pytest ('test_a.py',) ", "pytest ('test_b.py',) full"]
    assert capsys.readouterr().out.endswith("\n14 passed, 0 failed\n")
    monkeypatch.setattr(checks, "changed", lambda root: ["docs/testing.md"])
    checks.main(["--for"])
    assert asked[1:] == [["docs/testing.md"]]


def test_what_exceeds_the_budget_is_a_failure(ran: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(checks, "CHECKS", {"lit": checks.lit, "pytest": checks.pytest, "burn": lambda: (burn(0.3), Counts(1))[1]})
    monkeypatch.setattr(Budget, "from_project", staticmethod(lambda project: Budget(unit=0.5, whole=0.2, fast=0.2, fast_tests=0.1)))
    assert checks.main([]) == 1
    out = capsys.readouterr().out
    assert out.endswith("\n9 passed, 1 failed\n")
    assert "over budget" in out
    monkeypatch.setattr(checks, "measured_unit", lambda: 50.0)  # a machine that takes a hundred times as long may take that
    assert checks.main([]) == 0


def test_the_project_has_a_budget() -> None:
    budget = Budget.from_project(ROOT / "pyproject.toml")
    assert budget.whole > budget.fast > budget.fast_tests > budget.unit > 0


def test_a_wrong_command_line_is_told(ran: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["nothing"], ["lit", "--fast"], ["--fast", "--record"], ["--for", "/"], ["--for", "no-such-file.py"]):
        with pytest.raises(SystemExit) as end:
            checks.main(arguments)
        assert end.value.code == 2
        assert "error: " in capsys.readouterr().err
    assert ran == []


def test_a_test_costs_what_its_processes_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(costs.VARIABLE, str(tmp_path / "costs"))
    meter = costs.Meter()
    burn(0.2)
    meter.write("ended")
    monkeypatch.setattr(costs, "_OFTEN", 0.0)
    running = subprocess.Popen([sys.executable, "-S", "-c", BURN.format(seconds=0.2) + "print(flush=True); input()"], stdin=-1, stdout=-1)
    assert running.stdout is not None
    running.stdout.readline()
    meter.write("running")
    running.communicate(b"\n")
    meter.write("nothing")
    found = costs.read(tmp_path / "costs")
    assert 0.2 <= found["ended"] < 0.5
    assert 0.15 <= found["running"] < 0.5
    assert found["nothing"] < 0.15


def test_lit_and_pytest_write_what_tests_cost(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(checks, "BUILD", tmp_path)
    monkeypatch.setattr(checks, "workers", lambda waiting=0: "1")
    assert checks.lit(["test/dialects/flow"]).failed == 0
    assert min(costs.read(checks.cost_file("lit")).values()) > 0
    quick = "test/scripts/test_quick.py"
    assert checks.pytest([quick], "record").passed > 0
    assert {name.partition("::")[0] for name in costs.read(checks.cost_file("pytest"))} == {quick}
    assert json.dumps(checks.pytest([quick], "no_test_has_this_name").__dict__) == '{"passed": 0, "failed": 0, "skipped": []}'
