"""Linking objects into the process: what runs, what is refused, what is given back."""

import ctypes
import gc
import math
import platform
import subprocess
import sys
import threading
import weakref
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from handmade import compile_and_load, llvm_module, lower

from stepwell.backends.llvm_cpu.objects import split_module
from stepwell.backends.llvm_cpu.pool import compile_units
from stepwell.dialects.support.buffers import address, aligned_empty
from stepwell.dialects.support.errors import CodegenError
from stepwell.dialects.target.families import family_of
from stepwell.dialects.target.host import host
from stepwell.runtime.loader import LoadedCode, load

TABLE = np.array([1.5, -2.0, 3.25, 4.0] * 2, np.float32)


def run_main(code: LoadedCode, x: np.ndarray, bias: np.ndarray) -> np.ndarray:
    weights, workspace, y = aligned_empty(96), aligned_empty(2048), np.empty_like(x)
    weights[64:].view(np.float32)[:] = bias
    code.function("main", 4)(address(x), address(y), address(weights), address(workspace))
    return y


def reference(x: np.ndarray, bias: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf)(x.astype(np.float64)) * TABLE + bias


def test_objects_run_linked_with_openmp_and_libm() -> None:
    rng = np.random.default_rng(3)
    x, bias = rng.standard_normal((64, 8), np.float32), rng.standard_normal(8, np.float32)
    y = run_main(load(compile_units(split_module(lower()), jobs=0)), x, bias)
    # erff has 2 ulp, then one multiplication and one addition of values below 8.
    assert np.abs(y - reference(x, bias)).max() < 8 * 4 * np.finfo(np.float32).eps


def test_a_process_that_compiles_nothing_is_made_ready_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux keeps AMX's registers for processes that ask for them alone, and whoever loads from the cache never asked what the machine is."""
    objects, asked = compile_units(split_module(lower()), jobs=0), []
    family = replace(family_of(platform.machine()), before_code=lambda: asked.append(True))
    monkeypatch.setattr("stepwell.runtime.loader.family_of", lambda triple: family)
    load(objects)
    assert asked == [True]


def test_two_programs_may_define_the_same_names() -> None:
    source = "func.func @main(%y: memref<1xi32>) {{ %v = func.call @k() : () -> i32  affine.store %v, %y[0] : memref<1xi32>  return }}\n"
    source += "func.func @k() -> i32 attributes {{llvm.no_inline}} {{ %c = arith.constant {} : i32  return %c : i32 }}"
    first, second = compile_and_load(source.format(11)), compile_and_load(source.format(22))
    y = np.zeros(1, np.int32)
    for code, value in ((first, 11), (second, 22), (first, 11)):
        code.function("main", 1)(address(y))
        assert y[0] == value


def executable_mappings() -> int:
    return sum("x" in line.split()[1] for line in Path("/proc/self/maps").read_text().splitlines())


def test_memory_is_given_back() -> None:
    objects = compile_units(split_module(lower()), jobs=0)
    load(objects).close()
    gc.collect()
    before = executable_mappings()
    kept = [load(objects) for _ in range(20)]
    assert executable_mappings() >= before + 20
    del kept
    gc.collect()
    assert executable_mappings() <= before + 1


def test_function_keeps_the_code_alive() -> None:
    code = compile_and_load("func.func @main(%y: memref<1xi32>) { %c = arith.constant 5 : i32  affine.store %c, %y[0] : memref<1xi32>  return }")
    function, alive = code.function("main", 1), weakref.ref(code)
    del code
    gc.collect()
    assert alive() is not None
    y = np.zeros(1, np.int32)
    function(address(y))
    assert y[0] == 5
    del function
    gc.collect()
    assert alive() is None


def test_closed_code_is_not_handed_out() -> None:
    code = load(compile_units(split_module(lower()), jobs=0))
    code.close()
    code.close()
    with pytest.raises(CodegenError, match="@main: the code was unloaded"):
        code.function("main", 4)


def test_only_exports_have_addresses() -> None:
    code = load(compile_units(split_module(lower()), jobs=0), ("main", "erf_ab12"))
    assert code.address("erf_ab12") != code.address("main")
    with pytest.raises(CodegenError, match="@add_cd34 is not exported; exported: erf_ab12, main"):
        code.address("add_cd34")


def test_missing_functions_are_named_with_who_needs_them() -> None:
    objects = compile_units(split_module(lower()), jobs=0)
    with pytest.raises(CodegenError, match=r"@add_cd34, called by @main; @erf_ab12, called by @main"):
        load({"main": objects["main"]})
    with pytest.raises(CodegenError, match=r"@main, exported"):
        load({"erf_ab12": objects["erf_ab12"]})
    source = "llvm.func @nothing_like_this()\nllvm.func @main() { llvm.call @nothing_like_this() : () -> ()  llvm.return }"
    with pytest.raises(CodegenError, match=r"@nothing_like_this, called by @main"):
        load(compile_units(split_module(llvm_module(source)), jobs=0))


def test_function_of_two_objects_is_refused() -> None:
    objects = compile_units(split_module(lower()), jobs=0)
    with pytest.raises(CodegenError, match=r"is defined by two objects: of @main and of @other"):
        load({**objects, "other": objects["main"]})


@pytest.mark.parametrize("length", [0, 3, 4, 60, 64, 500, -64, -1])
def test_truncated_object_is_refused(length: int) -> None:
    objects = compile_units(split_module(lower()), jobs=0)
    with pytest.raises(CodegenError):
        load({**objects, "main": objects["main"][:length]})


def test_other_formats_are_refused() -> None:
    with pytest.raises(CodegenError, match="the object of @main is not an ELF object"):
        load({"main": b"\xcf\xfa\xed\xfe" + bytes(200)})


def test_foreign_elf_is_refused() -> None:
    with pytest.raises(CodegenError):
        load({"main": Path("/bin/sh").read_bytes()})


BF16 = """func.func @main(%x: memref<4096x{0}>, %y: memref<4096xbf16>) {{
  affine.for %i = 0 to 4096 {{
    %v = affine.load %x[%i] : memref<4096x{0}>
    %n = arith.truncf %v : {0} to bf16
    affine.store %n, %y[%i] : memref<4096xbf16>
  }}
  return }}"""


@pytest.mark.parametrize(("element", "dtype"), [("f32", np.float32), ("f64", np.float64)])
def test_rounding_to_bfloat16(element: str, dtype: type) -> None:
    rng = np.random.default_rng(1)
    # Random bit patterns (all exponents, NaN), values at and just beside the halfway points, and the special ones.
    with np.errstate(invalid="ignore"):
        patterns = rng.integers(0, 1 << 32, 2000, np.uint32).view(np.float32).astype(dtype)
        halves = (rng.integers(0, 1 << 16, 2000, np.uint32) << 16 | 0x8000).view(np.float32).astype(dtype)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, -3.4e38, 1e-45, 9.2e-41, -9.1e-41, 1.0], dtype)
    with np.errstate(invalid="ignore"):
        beside = [np.nextafter(halves, dtype(0)), np.nextafter(halves, dtype(np.inf))]
    x = np.resize(np.concatenate([special, patterns, halves, *beside]), 8192)
    if dtype is np.float64:
        x = np.concatenate([np.nextafter(x[4096:], 0.0), x[:4096]])  # below the resolution of f32: where rounding twice shows
        x[:3] = [1e300, -1e300, 1e-300]
    elif "avx512bf16" in host().features:
        x[np.abs(x) < np.finfo(np.float32).tiny] = 1.0  # there LLVM takes an instruction that flushes them; the pipeline's arith-expand does not
    code = compile_and_load(BF16.format(element))
    for part in (x[:4096].copy(), x[4096:].copy()):
        y = np.empty(4096, ml_dtypes.bfloat16)
        code.function("main", 2)(address(part), address(y))
        want = _to_bfloat16(part)
        nan = np.isnan(part)
        assert np.isnan(y[nan].astype(np.float32)).all()
        np.testing.assert_array_equal(y[~nan].view(np.uint16), want[~nan].view(np.uint16))


def _to_bfloat16(x: np.ndarray) -> np.ndarray:
    """Correctly rounded: of the two neighbours the nearer one, at the same distance the even one."""
    with np.errstate(invalid="ignore", over="ignore"):
        near = x.astype(np.float32).astype(ml_dtypes.bfloat16)
    bits = near.view(np.uint16)
    candidates = np.stack([bits, bits - np.uint16(1), bits + np.uint16(1)]).view(ml_dtypes.bfloat16)
    with np.errstate(invalid="ignore", over="ignore"):
        values = candidates.astype(np.float64)
        values = np.where(np.isinf(values), np.sign(values) * 2.0**128, values)  # where the next number would be
        error = np.abs(values - np.clip(x.astype(np.float64), -(2.0**129), 2.0**129))
        error = np.where(np.isnan(values) | (np.signbit(values) != np.signbit(x)), np.inf, error)
    odd = candidates.view(np.uint16) & 1
    best = np.lexsort((odd, error), axis=0)[0]
    return np.take_along_axis(candidates.view(np.uint16), best[None], axis=0)[0].view(ml_dtypes.bfloat16)


def test_half_precision_comes_from_the_compiler_runtime() -> None:
    source = BF16.replace("bf16", "f16").format("f64")
    rng = np.random.default_rng(2)
    x = rng.standard_normal(4096) * 100
    y = np.empty(4096, np.float16)
    compile_and_load(source).function("main", 2)(address(x), address(y))
    np.testing.assert_array_equal(y, x.astype(np.float16))


def test_gil_is_released() -> None:
    # The function waits until the value it reads has changed, which another Python thread does.
    source = """llvm.func @main(%p: !llvm.ptr) {
      llvm.br ^wait
    ^wait:
      %v = llvm.load volatile %p : !llvm.ptr -> i64
      %zero = llvm.mlir.constant(0 : i64) : i64
      %again = llvm.icmp "eq" %v, %zero : i64
      llvm.cond_br %again, ^wait, ^end
    ^end:
      llvm.return }"""
    function = load(compile_units(split_module(llvm_module(source)), jobs=0)).function("main", 1)
    flag = ctypes.c_int64(0)
    timer = threading.Timer(0.05, lambda: setattr(flag, "value", 1))
    timer.start()
    function(ctypes.addressof(flag))
    timer.join()
    assert flag.value == 1


def test_the_end_of_the_program_is_quiet() -> None:
    """Code that is held by a module which outlives the loader's: as where a C extension keeps references."""
    script = """
import ctypes, json
import stepwell.runtime.loader as loader
for module in (loader, json):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(module))
json.code = loader.LoadedCode({}, lambda: print("unloaded"))
"""
    result = subprocess.run([sys.executable, "-X", "dev", "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert (result.stdout, result.stderr) == ("", "")
