"""Forks of the command server end as processes do, and see what processes see."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from command_server import commands_folder, started
from processes import gone

SEEN = """
import os, sys
print(sys.argv[1:], sys.stdin.read(), os.getcwd(), os.environ.get("WORD"), __name__, os.umask(0), sorted(map(int, os.listdir("/proc/self/fd")))[:3])
print("stepwell.driver.lowering" in sys.modules, "torch_mlir" in sys.modules, "stepwell_test" in sys.modules, file=sys.stderr)
sys.exit(7)
"""


def run(*arguments: object, **how: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(started([sys.executable, *arguments]), capture_output=True, text=True, timeout=120, check=False, **how)  # type: ignore[call-overload]


def test_a_fork_sees_what_a_process_sees(tmp_path: Path) -> None:
    umask = os.umask(0o27)
    try:
        ended = run("-c", SEEN, "a b", "\udcff", input="told", cwd=tmp_path, env={**os.environ, "WORD": "said"})
    finally:
        os.umask(umask)
    assert ended.stdout == f"['a b', '\\udcff'] told {tmp_path} said __main__ {0o27} [0, 1, 2]\n"
    assert (ended.returncode, ended.stderr) == (7, "True True False\n"), "it is a fork, whose modules are those of the server"
    (tmp_path / "beside.py").write_text("X = 5\n")
    (tmp_path / "program.py").write_text("import sys\nfrom beside import X\nprint(X, sys.argv[0], __file__)\n")
    file = tmp_path / "program.py"
    assert run(file).stdout == f"5 {file} {file}\n"


def test_a_fork_ends_as_a_process_does() -> None:
    for code, status, said in (
        ("raise SystemExit('why')", 1, "why\n"), ("1 / 0", 1, "ZeroDivisionError"), ("import os; os.abort()", -signal.SIGABRT, ""),
        ("import os; os.close(1)", 0, ""), ("import atexit; atexit.register(print, 'end')", 0, ""),
        ("import os, threading, time; threading.Thread(target=lambda: (time.sleep(0.1), os.write(1, b'end'))).start()", 0, ""),
    ):  # fmt: skip
        ended = run("-c", code)
        assert ended.returncode == status, code
        assert said in ended.stderr, code
        assert ended.stdout.strip() == ("end" if "'end'" in code else ""), code
    assert run("-m", "stepwell.cli.main", "--version").stdout.startswith("stepwell ")
    assert run("-m", "stepwell.cli.opt", "--nothing").returncode == 2


def test_what_python_reads_at_its_start_is_read(tmp_path: Path) -> None:
    text = "import sys; print(sys.flags.utf8_mode, sys.path[1] if len(sys.path) > 1 else '', 'numpy' in sys.modules)"
    ended = run("-c", text, env={**os.environ, "PYTHONUTF8": "1", "PYTHONPATH": str(tmp_path)})
    assert ended.stdout == f"1 {tmp_path} False\n"
    assert "usage: " in run("-m", "json.tool", "--help").stdout


def test_a_fork_ends_with_its_client_and_has_its_files() -> None:
    reading, writing = os.pipe()
    code = f"import os, time; os.write({writing}, str(os.getpid()).encode()); os.close({writing}); time.sleep(100)"
    process = subprocess.Popen(started([sys.executable, "-c", code]), pass_fds=[writing])
    os.close(writing)
    pid = int(os.read(reading, 100))
    assert os.read(reading, 100) == b"", "nobody else has the pipe"
    os.close(reading)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert gone(pid)


def test_a_shell_finds_the_commands(tmp_path: Path) -> None:
    path = f"{commands_folder(tmp_path)}{os.pathsep}{os.environ['PATH']}"
    line = "stepwell --version | tr a-z A-Z && ! stepwell-opt --nothing 2> err && cat err"
    ended = subprocess.run(line, shell=True, cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False)
    assert ended.stdout.startswith("STEPWELL ")
    assert "unknown option or pass --nothing" in ended.stdout
