"""The lit format that runs commands in forks: tests end as with lit's own format, whatever a command does, and no process remains."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIT = Path(sys.executable).parent / "lit"
CONFIG = f"""
lit_config.load_config(config, {str(ROOT / "lit.cfg.py")!r})
config.test_source_root = config.test_exec_root = {{folder!r}}
config.test_format.limit = {{limit}}
"""
PLUGINS = {
    "abort": "import os; os.abort()",
    "segfault": "import ctypes; ctypes.string_at(0)",
    "hang": "import os, time, pathlib; pathlib.Path(__file__).with_name('pid').write_text(str(os.getpid())); time.sleep(600)",
    "chatter": "import sys\nfor i in range(20000):\n    print('out', i); print('err', i, file=sys.stderr)",
    "where": "import os, sys; print('word', os.environ.get('WORD'), 'in', os.getcwd(), 'forked', 'lit.worker' in sys.modules)",
    "raising": "raise ValueError('of the plugin')",
}
# The RUN lines of a test of that name, what it checks, and how it ends.
CASES = {
    "right": ("stepwell-opt %s | stepwell-opt - | FileCheck %s", "CHECK: module", "PASS"),
    "wrong": ("stepwell-opt %s | FileCheck %s", "CHECK: no such text", "FAIL"),
    "aborts": ("stepwell-opt %s --load %S/abort.py", "", "FAIL"),
    "aborts_under_not": ("not stepwell-opt %s --load %S/abort.py", "", "FAIL"),
    "segfaults": ("stepwell-opt %s --load %S/segfault.py | FileCheck --allow-empty %s", "CHECK-NOT: module", "FAIL"),
    "hangs": ("stepwell-opt %s --load %S/hang.py", "", "FAIL"),
    "status": ("not stepwell-opt %s --nothing 2>&1 \\\n// RUN: | FileCheck %s", "CHECK: unknown option or pass --nothing", "PASS"),
    "no_error": ("not stepwell-opt %s", "", "FAIL"),
    "or": ("stepwell-opt %s --nothing || stepwell-opt < %s > %t && FileCheck %s < %t", "CHECK: module", "PASS"),
    "output": ("stepwell-opt %s --load %S/chatter.py >%t.out 2>%t.err && diff %t.out %S/out.txt && diff %t.err %S/err.txt", "", "PASS"),
    "environment": ("env WORD=told stepwell-opt %s --load %S/where.py | FileCheck %s", "CHECK: word told in {{.*}} forked True", "PASS"),
    "raises": ("not stepwell-opt %s --load %S/raising.py 2>&1 | FileCheck %s", "CHECK: of the plugin", "PASS"),
    "unnamed_target": ("stepwell-opt %s --attach-target", "", "FAIL"),
    "named_target": ("stepwell-opt %s --attach-target --target x86-64-v3 | FileCheck %s", "CHECK: target.description", "PASS"),
    "expected": ("stepwell-opt %s --nothing\n// XFAIL: *", "", "XFAIL"),
    "required": ("stepwell-opt %s\n// REQUIRES: a-feature-nobody-has", "", "UNSUPPORTED"),
    "other_modules": ("%python -c \"print('a program')\" | FileCheck %s", "CHECK: a program", "PASS"),
}
TOLD = {
    "aborts": "exit status: -6", "segfaults": "exit status: -11", "hangs": "exit status: -14", "unnamed_target": "the RUN line names no target",
    "wrong": "no such text",
}  # fmt: skip


def write_suite(folder: Path, cases: dict[str, tuple[str, str, str]], limit: int) -> None:
    (folder / "lit.cfg.py").write_text(CONFIG.format(folder=str(folder), limit=limit))
    for name, source in PLUGINS.items():
        (folder / f"{name}.py").write_text(source)
    module = "module {}\n"
    for name, (line, check, _) in cases.items():
        (folder / f"{name}.mlir").write_text(f"// RUN: {line}\n// {check}\n{module}")


def test_tests_end_as_they_should(tmp_path: Path) -> None:
    write_suite(tmp_path, CASES, limit=5)
    output = subprocess.run([sys.executable, "-m", "stepwell.cli.opt", str(tmp_path / "right.mlir")], capture_output=True, text=True, check=True)
    for name in ("out", "err"):
        lines = "".join(f"{name} {i}\n" for i in range(20000))
        (tmp_path / f"{name}.txt").write_text(lines + (output.stdout if name == "out" else ""))
    report = tmp_path / "report.json"
    subprocess.run([LIT, "-q", "-j2", "--output", report, tmp_path], capture_output=True, check=False, timeout=600)
    tests = {test["name"].rpartition("/")[2].rpartition(" ")[2]: test for test in json.loads(report.read_text())["tests"]}
    shown = "\n".join(test["output"] for name, test in tests.items() if test["code"] != CASES[name.removesuffix(".mlir")][2])
    assert {name: test["code"] for name, test in tests.items()} == {f"{name}.mlir": code for name, (_, _, code) in CASES.items()}, shown
    for name, text in TOLD.items():
        assert text in tests[f"{name}.mlir"]["output"], name


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_no_command_outlives_lit(number: signal.Signals, tmp_path: Path) -> None:
    write_suite(tmp_path, {"hangs": CASES["hangs"]}, limit=600)
    process = subprocess.Popen([LIT, "-q", tmp_path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=heed_interrupts)
    pid = tmp_path / "pid"
    wait_until(lambda: pid.exists() and pid.read_text() != "", "the command has not started")
    process.send_signal(number)
    process.wait(60)
    wait_until(lambda: not is_running(int(pid.read_text())), "the command still runs")


def heed_interrupts() -> None:
    """A shell has what it starts in the background ignore interrupts, and so has all that these start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(condition, message: str) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end, message
        time.sleep(0.05)
