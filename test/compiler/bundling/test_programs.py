"""Programs in C use bundles without Python: built by cmake and pkg-config, with many callers, under valgrind and sanitizers."""

import json
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import bundle_models
import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

import stepwell

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"
CALLERS = Path(__file__).with_name("callers.c")
TARGET = "x86-64-v3"  # valgrind knows no AVX-512
PATH = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that nobody may write to, with bundles of every kind of two models."""
    folder = tmp_path_factory.mktemp("bundles")
    kinds = ("static", "shared", "object")
    stepwell.bundle(DIGITS, folder / "digits", shapes={"image": (1, 1, 8, 8)}, target=TARGET, kinds=kinds)
    loop = next(case for case in bundle_models.plain_cases() if case.name == "loop")
    stepwell.bundle(loop.model, folder / "loop", prefix="loop", target=TARGET, kinds=kinds)
    places = [folder, *folder.rglob("*")]
    for place in places:
        place.chmod(place.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
    yield folder
    for place in places:
        place.chmod(place.stat().st_mode | stat.S_IWUSR)


def run(*command: object, folder: Path | None = None, seconds: float = 300) -> str:
    """Run a command in an environment without anything but a path; returns what it prints."""
    if shutil.which(str(command[0]), path=PATH["PATH"]) is None:
        pytest.skip(f"there is no {command[0]} (test/debian-packages.txt)")
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=PATH, cwd=folder, timeout=seconds, check=False)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-3000:]}"
    return done.stdout + done.stderr


def expected_digits() -> np.ndarray:
    """What `callers` prints: the result for its image."""
    image = (np.arange(64) * 37 % 17).astype(np.float32).reshape(1, 1, 8, 8)
    model = stepwell.compile(DIGITS, shapes={"image": (1, 1, 8, 8)}, target=TARGET, threads=1)
    result: np.ndarray = model(image)[0]
    return result.reshape(-1)


def build(bundles: Path, folder: Path, *flags: str, sources: bool = False) -> Path:
    """The program with many callers; with `sources`, the run time is compiled with it."""
    parts: list[object] = []
    for name in ("digits", "loop"):
        own = bundles / name
        parts += [f"-I{own}", *([own / f"{name}.c", own / f"{name}.o"] if sources else [own / f"lib{name}.a"])]
    warnings = ("-std=gnu99", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
    run("cc", *warnings, *flags, CALLERS, *parts, "-o", folder / "callers", "-lm", "-lpthread")
    return folder / "callers"


def call(program: Path, bundles: Path, callers: int, runs: int, threads: int, spin: int, *before: object) -> str:
    weights = [bundles / name / f"{name}.weights" for name in ("digits", "loop")]
    return run(*before, program, *weights, callers, runs, threads, spin)


def test_two_models_in_one_program_with_many_callers(bundles: Path, tmp_path: Path) -> None:
    program = build(bundles, tmp_path, "-O2")
    for callers, runs, threads, spin in ((8, 200, 1, -1), (8, 200, 2, 0), (2, 200, 3, 50)):
        found = np.array(call(program, bundles, callers, runs, threads, spin).split(), np.float32)
        assert found.tobytes() == expected_digits().tobytes()


def test_the_run_time_is_clean_under_sanitizers(bundles: Path, tmp_path: Path) -> None:
    for flags in (("-fsanitize=address,undefined", "-fno-sanitize-recover=all"), ("-fsanitize=thread",)):
        program = build(bundles, tmp_path, "-O1", "-g", *flags, sources=True)
        for spin in (0, 50):
            call(program, bundles, 4, 20, 2, spin)


def test_the_run_time_is_clean_under_valgrind(bundles: Path, tmp_path: Path) -> None:
    program = build(bundles, tmp_path, "-O1", "-g")
    valgrind = ("valgrind", "--error-exitcode=9", "-q")
    call(program, bundles, 2, 5, 2, 0, *valgrind, "--leak-check=full", "--show-leak-kinds=all", "--errors-for-leak-kinds=definite,indirect")
    call(program, bundles, 2, 5, 2, 0, *valgrind, "--tool=helgrind")


def test_cmake_and_pkg_config_find_a_bundle(bundles: Path, tmp_path: Path) -> None:
    for name, inputs in (("digits", ()), ("loop", ())):
        folder = tmp_path / name
        run("cmake", "-S", bundles / name, "-B", folder, "-DCMAKE_BUILD_TYPE=Release")
        run("cmake", "--build", folder)
        said = run(folder / "example", bundles / name / f"{name}.weights", *inputs, folder="/")  # type: ignore[arg-type]
        assert said.startswith("probability: " if name == "digits" else "y: 0 0 0 0")
    flags = run("env", f"PKG_CONFIG_PATH={bundles / 'digits'}", "pkg-config", "--cflags", "--libs", "--static", "digits").split()
    run("cc", bundles / "digits" / "example.c", *flags, f"-Wl,-rpath,{bundles / 'digits'}", "-o", tmp_path / "example")
    assert run(tmp_path / "example", bundles / "digits" / "digits.weights").startswith("probability: ")


def test_libraries_need_only_the_system_and_show_only_the_header(bundles: Path, tmp_path: Path) -> None:
    for name in ("digits", "loop"):
        header = (bundles / name / f"{name}.h").read_text()
        with (bundles / name / f"lib{name}.so").open("rb") as file:
            library = ELFFile(file)
            dynamic, symbols = library.get_section_by_name(".dynamic"), library.get_section_by_name(".dynsym")
            needed = {tag.needed for tag in dynamic.iter_tags("DT_NEEDED")}
            assert needed <= {"libc.so.6", "libm.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2"}
            assert not list(dynamic.iter_tags("DT_TEXTREL"))
            shown = {symbol.name for symbol in symbols.iter_symbols() if symbol["st_shndx"] != "SHN_UNDEF" and symbol.name}
        assert shown
        assert all(f" {symbol}(" in header or f"*{symbol}(" in header for symbol in shown), shown
        with (bundles / name / f"{name}.o").open("rb") as file:
            table = ELFFile(file).get_section_by_name(".symtab")
            owned = [symbol for symbol in table.iter_symbols() if symbol["st_info"]["bind"] != "STB_LOCAL" and symbol["st_shndx"] != "SHN_UNDEF"]
        assert all(symbol.name.startswith(f"{name}_") and symbol["st_other"]["visibility"] == "STV_HIDDEN" for symbol in owned)


def test_a_small_model_is_a_small_library(bundles: Path, tmp_path: Path) -> None:
    run("strip", "-o", tmp_path / "stripped", bundles / "digits" / "libdigits.so")
    assert (tmp_path / "stripped").stat().st_size <= 64 << 10


def test_the_raw_function_needs_no_run_time(bundles: Path, tmp_path: Path) -> None:
    folder = bundles / "digits"
    manifest = json.loads((folder / "manifest.json").read_text())
    program = tmp_path / "raw.c"
    program.write_text(f"""
#include "digits.h"
#include <stdio.h>
static _Alignas(64) unsigned char weights[{manifest["weights"]["bytes"]}], workspace[STEPWELL_WORKSPACE_digits];
int main(int count, char **given) {{
    float x[64], y[10];
    FILE *file = count > 1 ? fopen(given[1], "rb") : NULL;
    if (!file || fseek(file, STEPWELL_WEIGHTS_OFFSET_digits, SEEK_SET) || fread(weights, 1, sizeof weights, file) != sizeof weights) return 1;
    for (int i = 0; i < 64; ++i) x[i] = (float)(i * 37 % 17);
    if (digits(weights, workspace, x, y)) return 2;
    for (int i = 0; i < 10; ++i) printf("%.9g ", (double)y[i]);
    return 0;
}}
""")
    run("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-DSTEPWELL_BARE", f"-I{folder}", program, folder / "digits.c", folder / "digits.o", "-lm",
        "-o", tmp_path / "raw")  # fmt: skip
    found = np.array(run(tmp_path / "raw", folder / "digits.weights").split(), np.float32)
    assert found.tobytes() == expected_digits().tobytes()
    undefined = run("nm", "-u", tmp_path / "raw")
    assert not any(name in undefined for name in ("malloc", "pthread", "mmap"))


def test_without_a_c_compiler_there_is_an_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(stepwell.ResourceError, match="there is no cc, gcc or clang; --kind object needs no C compiler"):
        stepwell.bundle(DIGITS, tmp_path / "no", shapes={"image": (1, 1, 8, 8)})
    folder = stepwell.bundle(DIGITS, tmp_path / "yes", shapes={"image": (1, 1, 8, 8)}, kinds=("object",))
    assert {file.name for file in folder.iterdir()} >= {"digits.o", "digits.c", "digits.h", "digits_tables.h", "stepwell_runtime.c", "digits.weights"}
    assert shutil.which("cc", path=os.defpath) is None or (folder / "digits.o").stat().st_size < 64 << 10
    with pytest.raises(stepwell.ModelError, match="expected a bundle with a shared library"):
        stepwell.load(folder)
