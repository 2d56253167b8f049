"""Target descriptions: the host's and the named ones."""

import os
import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from onnx import TensorProto, helper

import stepwell
from stepwell.dialects.support.errors import InputError
from stepwell.dialects.target import cores as target_cores, host
from stepwell.dialects.target.description import Caches
from stepwell.dialects.target.host import narrows_host, runs_here
from stepwell.dialects.target.numbers import LINE
from stepwell.dialects.target.registry import resolve, target_names


def test_named_targets() -> None:
    described = {name: resolve(name) for name in target_names() if name != "host"}
    assert {name: (t.vector_bits, t.vector_registers, t.fma, t.lanes(32)) for name, t in described.items()} == {
        "x86-64-v2": (128, 16, False, 4),
        "x86-64-v3": (256, 16, True, 8),
        "x86-64-v4": (512, 32, True, 16),
        "avx-vnni": (256, 16, True, 8),
        **dict.fromkeys(("x86-64-v4-vnni", "x86-64-v4-bf16", "x86-64-v4-amx"), (512, 32, True, 16)),
        "aarch64-neon": (128, 32, True, 4),
        "aarch64-dotprod": (128, 32, True, 4),
        "riscv64-v": (128, 32, True, 4),
        "wasm32-simd128": (128, 16, False, 4),
    }
    assert all(t.name == name for name, t in described.items())
    assert {name: t.family for name, t in described.items() if t.family != "x86_64"} == {
        "aarch64-neon": "aarch64", "aarch64-dotprod": "aarch64", "riscv64-v": "riscv64", "wasm32-simd128": "wasm32",
    }  # fmt: skip


def test_what_runs_here() -> None:
    host = resolve("host")
    assert runs_here(host)
    assert not narrows_host(host)
    assert runs_here(replace(host, features=host.features | {"another"})) is False
    less = replace(host, features=host.features - {min(host.features)})
    assert runs_here(less)
    assert narrows_host(less)
    assert not runs_here(replace(less, triple="z80-unknown"))


@pytest.mark.skipif(not runs_here(resolve("x86-64-v3")), reason="has instructions to leave out where the machine has AVX2")
def test_code_has_only_what_the_target_has() -> None:
    """In kernels and in what their threads run."""
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("MatMul", ["a", "b"], ["c"])]
    inputs, outputs = [value("a", TensorProto.FLOAT, [60, 64]), value("b", TensorProto.FLOAT, [64, 128])], [value("c", TensorProto.FLOAT, [60, 128])]
    model = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs), opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    for name, there, absent in (("x86-64-v2", ("mulps", "xmm"), ("ymm", "zmm", "fmadd")), ("x86-64-v3", ("fmadd", "ymm"), ("zmm",))):
        compiled = stepwell.compile(model, target=name, threads=2)
        text = compiled.ir("asm")
        assert "omp_par" in text
        assert all(word in text for word in there), name
        assert not any(word in text for word in absent), name
        assert f'target_cpu = "{name}"' in compiled.ir("llvm")


def test_unknown_target_lists_the_known_ones() -> None:
    names = "host, x86-64-v2, x86-64-v3, x86-64-v4, avx-vnni, x86-64-v4-vnni, x86-64-v4-bf16, x86-64-v4-amx, aarch64-neon, aarch64-dotprod, riscv64-v"
    with pytest.raises(InputError, match=f"unknown target 'z80'; known: {names}"):
        resolve("z80")


def test_a_description_stands_for_itself() -> None:
    mine = resolve("x86-64-v3")
    assert resolve(mine) is mine


@pytest.mark.skipif(platform.machine() != "x86_64" or not os.path.exists("/proc/cpuinfo"), reason="reads Linux's list of x86 features")
def test_host_agrees_with_the_system() -> None:
    with open("/proc/cpuinfo") as file:
        flags = next(line for line in file if line.startswith("flags")).split()
    host = resolve("host")
    assert host.triple.startswith("x86_64")
    assert host.vector_bits == (512 if "avx512f" in flags else 256 if "avx" in flags else 128)
    assert host.fma == ("fma" in flags)
    assert {"sse2"} <= host.features


def test_named_targets_state_their_caches() -> None:
    for name in target_names():
        caches = resolve(name).caches
        assert 0 < caches.l1d < caches.l2 <= caches.l3
        assert caches.per_core == (caches.l1d, caches.l2, caches.l3 // caches.l3_cores)


@pytest.mark.parametrize(("stride", "lines"), [(4096, 8), (12288, 8), (6144, 16), (3072, 32), (4096 + 64, 512), (4096 + 16, 512), (0, 8)])
def test_lines_that_the_first_cache_holds_at_once(stride: int, lines: int) -> None:
    """Those of as many sets as a walk in such steps comes to."""
    caches = Caches(32 << 10, 1 << 20, 8 << 20)
    assert caches.lines_kept(stride) == lines
    walked = {step * stride // LINE % 64 for step in range(64)}
    assert stride % LINE or len(walked) * caches.l1d_ways == lines


def write_caches(folder: Path, *entries: tuple[str, str, str, str]) -> None:
    for i, entry in enumerate(entries):
        (folder / f"index{i}").mkdir()
        for name, text in zip(("level", "type", "size", "shared_cpu_list"), entry, strict=True):
            (folder / f"index{i}" / name).write_text(text + "\n")


FIRST, SECOND = ("1", "Data", "48K", "0"), ("2", "Unified", "2M", "0")


def test_caches_as_the_system_describes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "available_cores", lambda: 16)
    write_caches(tmp_path, FIRST, ("1", "Instruction", "32K", "0"), SECOND, ("3", "Unified", "32768K", "0-3,8"))
    assert host._system_caches(str(tmp_path)) == host.Caches(48 << 10, 2 << 20, 32 << 20, 5)


@pytest.mark.parametrize(("told", "ways"), [("12", 12), ("0", 8)])
def test_ways_of_the_first_cache(told: str, ways: int, tmp_path: Path) -> None:
    write_caches(tmp_path, FIRST, SECOND)
    for index, text in enumerate((told, "20")):
        (tmp_path / f"index{index}" / "ways_of_associativity").write_text(text + "\n")
    caches = host._system_caches(str(tmp_path))
    assert caches is not None
    assert caches.l1d_ways == ways


def test_a_machine_without_a_third_cache(tmp_path: Path) -> None:
    write_caches(tmp_path, FIRST, SECOND)
    assert host._system_caches(str(tmp_path)) == host.Caches(48 << 10, 2 << 20, 2 << 20, 1)


@pytest.mark.parametrize("entries", [[], [FIRST], [FIRST, ("2", "Unified", "0K", "0")], [FIRST, ("2", "Unified", "many", "0")]])
def test_caches_that_the_system_does_not_tell(entries: list[tuple[str, str, str, str]], tmp_path: Path) -> None:
    write_caches(tmp_path, *entries)
    assert host._system_caches(str(tmp_path)) is None


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cannot bind a process to a core here")
def test_cores_are_those_the_process_may_use() -> None:
    script = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from stepwell.dialects.target.cores import available_cores; print(available_cores())"
    )
    paths = os.pathsep.join(path for path in sys.path if path)
    result = subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "1"


@pytest.mark.parametrize(
    ("text", "cores"), [("max 100000", None), ("200000 100000", 2), ("150000 100000", 2), ("50000 100000", 1), ("garbage", None)]
)
def test_quota_of_the_control_group(text: str, cores: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_cores.Path, "read_text", lambda self: text)
    assert target_cores._quota() == cores
