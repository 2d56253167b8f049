"""Finding the OpenMP runtime, doing without, and the number of threads."""

import ctypes
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from handmade import compile_and_load

from stepwell.dialects.support.buffers import address
from stepwell.runtime.openmp import find_libomp, openmp

# Every iteration notes the thread that ran it.
WHO = """
func.func private @omp_get_thread_num() -> i32
func.func @main(%y: memref<64xi32>) {
  affine.parallel (%i) = (0) to (64) {
    %t = func.call @omp_get_thread_num() : () -> i32
    affine.store %t, %y[%i] : memref<64xi32>
  }
  return }"""


def test_packaged_library_is_found() -> None:
    path = find_libomp()
    assert path is not None
    assert Path(path).name.startswith("libomp")


def test_number_of_threads_is_of_the_call_and_restored() -> None:
    runtime = openmp()
    assert runtime is not None
    function = compile_and_load(WHO).function("main", 1)
    for threads in (1, 3, 2):
        y = np.full(64, -1, np.int32)
        before = runtime.set_threads(threads)
        function(address(y))
        assert runtime.set_threads(before) == threads
        assert sorted(set(y.tolist())) == list(range(threads))


def run(script: str, **environment: str) -> str:
    paths = os.pathsep.join(path for path in sys.path if path)
    result = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": paths, **environment}, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    return result.stdout + result.stderr


def test_without_a_library_there_is_one_clear_note() -> None:
    script = "from stepwell.runtime.openmp import openmp\nprint(openmp(), openmp())"
    text = run(script, STEPWELL_LIBOMP="/nowhere/libomp.so")
    assert "None None" in text
    assert text.count("no libomp was found; models run on one thread. `pip install cmeel-libomp`") == 1


def test_a_library_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    path = tmp_path / "libomp.so"
    path.write_bytes(b"not a library")
    text = run("from stepwell.runtime.openmp import openmp\nprint(openmp())", STEPWELL_LIBOMP=str(path))
    assert "None" in text
    assert f"{path} cannot be used: " in text


def test_a_runtime_that_is_loaded_already_is_taken() -> None:
    # Two of LLVM's OpenMP runtimes in one process abort: so with Intel's name for it loaded, there is no other choice.
    packaged = find_libomp()
    assert packaged is not None
    other = Path(packaged).with_name("libiomp5.so")
    if not other.exists():
        pytest.skip("the package has no second name of the library")
    script = f"import ctypes; ctypes.CDLL({str(other)!r})\nfrom stepwell.runtime.openmp import find_libomp\nprint(find_libomp())"
    assert run(script).strip() == str(other)


def test_no_warning_when_all_is_well() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        openmp.cache_clear()
        assert isinstance(openmp().library, ctypes.CDLL)  # type: ignore[union-attr]
