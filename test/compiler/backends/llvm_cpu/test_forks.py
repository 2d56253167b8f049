"""Compiler processes that are forked: only where no thread forbids it; the same objects and errors as from those that are spawned."""

import os
from pathlib import Path

from processes import gone, run_script

FORKED = """
import os, threading
from stepwell.backends.llvm_cpu import forks, pool
from stepwell.backends.llvm_cpu.objects import Unit
from stepwell.backends.llvm_cpu.pool import compile_units
from stepwell.dialects.support.errors import CodegenError

units = [Unit(f"f{i}", f"llvm.func @f{i}() {{ llvm.return }}".encode()) for i in range(6)]
fatal = Unit("fatal", b'''llvm.func @fatal(%a: vector<4xf32>) -> vector<4xf32> {
  %0 = llvm.call_intrinsic "llvm.aarch64.neon.frecpe.v4f32"(%a) : (vector<4xf32>) -> vector<4xf32>
  llvm.return %0 : vector<4xf32> }''')
print("before", forks.may_fork())
forks.allow_forks()
print("allowed", forks.may_fork())
pool.prestart(3)
print("few", pool._pool.warm)
pool.prestart(6)
workers = pool._pool._workers
print("forked", [type(worker._process).__name__ for worker in workers] == ["Forked"] * min(len(os.sched_getaffinity(0)), 6))
print("same", compile_units(units, jobs=2) == compile_units(units, jobs=0))
try:
    compile_units([*units, fatal], jobs=2)
except CodegenError as error:
    print("crash", "@fatal: the compiler process ended by SIGABRT, having said" in str(error), "LLVM ERROR" in str(error))
print("again", len(compile_units(units, jobs=2)))
done = threading.Event()
thread = threading.Thread(target=done.wait)
thread.start()
print("thread", forks.may_fork())
done.set()
print("pids", *(worker._process.pid for worker in workers))
"""

KILLED = """
import os, time
from stepwell.backends.llvm_cpu import forks, pool
forks.allow_forks()
pool._pool.start(2)
print("pids", *(worker._process.pid for worker in pool._pool._workers), flush=True)
os.kill(os.getpid(), 9)
"""


def test_forked_processes(tmp_path: Path) -> None:
    found = dict(line.split(" ", 1) for line in run_script(FORKED, tmp_path).splitlines())
    assert all(not Path(f"/proc/{pid}").exists() for pid in found.pop("pids").split()), "a worker outlived the program"
    expected = {"before": "False", "allowed": "True", "few": "False", "forked": "True", "same": "True", "crash": "True True", "again": "6"}
    if len(os.sched_getaffinity(0)) > 1:  # else nothing is compiled elsewhere
        assert found == {**expected, "thread": "False"}


def test_forked_processes_end_with_a_killed_parent(tmp_path: Path) -> None:
    _, *pids = run_script(KILLED, tmp_path, status=-9).split()
    assert len(pids) == 2
    assert all(gone(int(pid)) for pid in pids)
