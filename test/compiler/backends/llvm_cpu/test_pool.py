"""Compiling in worker processes: the same objects, typed errors for everything that can happen to a process, no leftovers."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from every import every
from handmade import llvm_module, lower
from processes import gone, run_script

from stepwell.backends.llvm_cpu import pool
from stepwell.backends.llvm_cpu.objects import Unit, split_module
from stepwell.backends.llvm_cpu.pool import compile_units
from stepwell.dialects.support.errors import CodegenError

# Selecting instructions of another CPU is a fatal error inside of LLVM: it aborts.
FATAL = """llvm.func @fatal_12(%a: vector<4xf32>) -> vector<4xf32> {
  %0 = llvm.call_intrinsic "llvm.aarch64.neon.frecpe.v4f32"(%a) : (vector<4xf32>) -> vector<4xf32>
  llvm.return %0 : vector<4xf32> }"""


@pytest.fixture(autouse=True)
def _no_workers_before_and_after() -> Iterator[None]:
    pool.shut_down()
    yield
    pool.shut_down()


def trivial(count: int) -> list[Unit]:
    return split_module(llvm_module("\n".join(f"llvm.func @f{i}() {{ llvm.return }}" for i in range(count))))


def test_processes_give_the_same_objects_in_order() -> None:
    units = split_module(lower())
    there = compile_units(units, jobs=2)
    assert list(there) == ["erf_ab12", "add_cd34", "main"]
    assert there == compile_units(units, jobs=0)


def test_few_units_need_no_process() -> None:
    compile_units(trivial(2))
    assert not pool._pool.warm


def test_processes_are_kept_and_shared_out() -> None:
    compile_units(trivial(20), jobs=2)
    first = [worker._process.pid for worker in pool._pool._workers]
    compile_units(trivial(1))
    assert [worker._process.pid for worker in pool._pool._workers] == first
    assert len(set(first)) == 2


def test_crash_names_the_function_and_the_pool_goes_on() -> None:
    units = [*trivial(4), *split_module(llvm_module(FATAL))]
    with pytest.raises(CodegenError, match=r"@fatal_12: the compiler process ended by SIGABRT, having said:\s+LLVM ERROR: Cannot select"):
        compile_units(units, jobs=2)
    assert len(compile_units(trivial(4), jobs=2)) == 4


def test_killed_process_names_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_START", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(CodegenError, match=r"@f0: the compiler process ended by SIGKILL"):
        compile_units(trivial(1), jobs=1)


def test_what_llvm_says_comes_before_its_details(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["warning: something", "LLVM ERROR: Cannot select: a store", *(f"  operand {i}" for i in range(20)), "In function: f0"]
    monkeypatch.setattr(pool, "_START", f"import os, sys; sys.stderr.write({chr(10).join(lines)!r}); sys.stderr.flush(); os.abort()")
    with pytest.raises(CodegenError, match=r"ended by SIGABRT, having said:\s+LLVM ERROR: Cannot select: a store\s+operand 0"):
        compile_units(trivial(1), jobs=1)


def test_a_process_that_dies_in_a_pass_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the traceback that native code leaves when it dies: each pass is called by a function of its name."""
    lines = ["import faulthandler, os", "from stepwell.passes.framework.crash_record import named", "faulthandler.enable()"]
    started = chr(10).join(["import sys; sys.path[:] = {path!r}", *lines, 'named("pass \'expand-math\'", os.abort)'])
    monkeypatch.setattr(pool, "_START", started)
    with pytest.raises(CodegenError, match=r"@f0: the compiler process ended by SIGABRT in pass 'expand-math', having said"):
        compile_units(trivial(1), jobs=1)


def test_process_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_START", "import nothing_like_this")
    with pytest.raises(CodegenError, match=r"(?s)@f0: the compiler process ended with status 1.*No module named 'nothing_like_this'"):
        compile_units(trivial(1), jobs=1)


def test_hanging_process_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_START", "import time; time.sleep(600)")
    with pytest.raises(CodegenError, match=r"@f0: .*not done in time"):
        compile_units(trivial(1), jobs=1, timeout=0.3)


def test_error_in_a_worker_comes_back_typed() -> None:
    bad = Unit("odd_77", b"nonsense {")
    with pytest.raises(CodegenError, match=r"@odd_77 cannot be translated") as raised:
        compile_units([*trivial(3), bad], jobs=2)
    assert raised.value.code == "SW007"


def test_nothing_to_do() -> None:
    assert compile_units([], jobs=2) == {}
    assert compile_units([]) == {}


def test_worker_imports_only_what_it_needs() -> None:
    compile_units(trivial(1), jobs=1)
    maps = Path(f"/proc/{pool._pool._workers[0]._process.pid}/maps").read_text()
    assert "torch_mlir" in maps
    assert "onnx" not in maps


def test_script_without_main_guard_runs_once(tmp_path: Path) -> None:
    script = """
print("start")
from stepwell.backends.llvm_cpu import pool
from stepwell.backends.llvm_cpu.objects import Unit
from stepwell.backends.llvm_cpu.pool import compile_units
unit = Unit("f", b"llvm.func @f() { llvm.return }")
print(len(compile_units([unit], jobs=2)), pool._pool._workers[0]._process.pid)
"""
    # A module of the user's that hides one of ours or of Python's must not get into the workers more than into the script.
    (tmp_path / "notes.txt").write_text("")
    start, last = run_script(script, tmp_path).splitlines()
    assert start == "start"
    count, pid = last.split()
    assert count == "1"
    assert not Path(f"/proc/{pid}").exists(), "the worker outlived the program"


def test_worker_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    script = """
import os
from stepwell.backends.llvm_cpu import pool
pool._pool.start(1)
print(pool._pool._workers[0]._process.pid, flush=True)
os.kill(os.getpid(), 9)
"""
    assert gone(int(run_script(script, tmp_path, status=-9)))


ENDLESS = """
class Quick:
    def answer(self):
        return b""

class Endless:
    def answer(self):
        open("busy", "w").close()
        return sum(range(1 << 40)).to_bytes(16, "little")  # in one step of Python, which lets no other thread in
"""
BUSY = """
import os, threading, time
from endless import Endless, Quick
from stepwell.backends.llvm_cpu import forks, pool
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process ends when Python gets to it")
@every("how", ["spawned", "forked", "of a thread that has ended"])
def test_a_worker_ends_in_the_middle_of_its_work(how: str, tmp_path: Path) -> None:
    """It reads no input then, and its siblings hold ends of its pipes."""
    (tmp_path / "endless.py").write_text(ENDLESS)
    script = BUSY + f"""
if {how == "forked"}:
    forks.allow_forks()
workers = pool._pool._workers

def ask_all():
    pool._pool.start(2)
    for worker in workers:
        worker.ask(Quick(), "", 100.0)

if {how == "of a thread that has ended"}:
    starter = threading.Thread(target=ask_all)
    starter.start()
    starter.join()
ask_all()
threading.Thread(target=workers[0].ask, args=(Endless(), "", 100.0), daemon=True).start()
end = time.monotonic() + 60
while not os.path.exists("busy") and time.monotonic() < end:
    time.sleep(0.01)
print(type(workers[0]._process).__name__, *(worker._process.pid for worker in workers), flush=True)
os.kill(os.getpid(), 9)
"""
    kind, *pids = run_script(script, tmp_path, status=-9).split()
    assert kind == ("Forked" if how == "forked" else "Popen")
    assert all(gone(int(pid)) for pid in pids)


def test_a_closed_pipe_ends_a_process(tmp_path: Path) -> None:
    """As it does where the system does not: what may be read from the pipe is left to others."""
    script = """
import os, subprocess, sys
watch = "from stepwell.backends.llvm_cpu.lifetime import watch; watch(0)"
code = f"import sys, time; {watch}; print(sys.stdin.readline(), end='', flush=True); time.sleep(100)"
child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
child.stdin.write("read\\n")
child.stdin.flush()
print(child.stdout.readline().strip(), child.poll())
child.stdin.close()
print(child.wait(60))
"""
    assert run_script(script, tmp_path).split() == ["read", "None", "1"]


def test_forked_child_has_processes_and_a_lock_of_its_own(tmp_path: Path) -> None:
    script = """
import os, signal, threading
from stepwell.backends.llvm_cpu import pool
from stepwell.backends.llvm_cpu.objects import Unit
from stepwell.backends.llvm_cpu.pool import compile_units
unit = Unit("f", b"llvm.func @f() { llvm.return }")
first = compile_units([unit], jobs=1)
worker = pool._pool._workers[0]._process.pid
held, done = threading.Event(), threading.Event()

def compile_elsewhere():
    with pool._pool._lock:
        held.set()
        done.wait()

threading.Thread(target=compile_elsewhere).start()
held.wait()
pid = os.fork()
if pid == 0:
    signal.alarm(30)
    right = compile_units([unit], jobs=1) == first and pool._pool._workers[0]._process.pid != worker
    pool.shut_down()
    os._exit(0 if right else 1)
done.set()
print(os.waitpid(pid, 0)[1], compile_units([unit], jobs=1) == first)
"""
    assert run_script(script, tmp_path).split() == ["0", "True"]
