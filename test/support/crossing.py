"""Bundles for other machines, run by qemu's user mode: their outputs, and those of code for this machine by the same schedules."""

import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from bundle_models import Case, Feed

import stepwell
from stepwell.bundling.manifest import ONNX_NUMBERS

RUNNER = Path(__file__).resolve().parents[1] / "compiler" / "bundling" / "runner.c"
DTYPES = {number: np.dtype(name) for name, number in ONNX_NUMBERS.items()}
FAST = "-O0"
"""For tests that are not about the run time in C: compiling it takes most of their time otherwise."""


@dataclass(frozen=True)
class Emulated:
    """How a target is emulated: by a processor that has no more than the target asks for, and by one that has less."""

    machine: str
    has: tuple[str, ...]
    """Options of qemu for a processor of the target; empty if qemu emulates none."""
    lacks: tuple[str, ...]
    """Options for a processor that lacks `missing`."""
    missing: str

    @property
    def compiler(self) -> str:
        """The C compiler's name."""
        return "cc" if self.machine == "x86_64" else f"{self.machine}-linux-gnu-gcc"


_RISCV = "rv64,v={},vlen=128,elen=64,vext_spec=v1.0"
EMULATED = {
    "x86-64-v2": Emulated("x86_64", ("-cpu", "Nehalem"), ("-cpu", "Conroe"), "popcnt"),
    "x86-64-v3": Emulated("x86_64", ("-cpu", "max"), ("-cpu", "Nehalem"), "avx"),
    "x86-64-v4": Emulated("x86_64", (), ("-cpu", "max"), "avx512bw"),
    "aarch64-neon": Emulated("aarch64", ("-cpu", "cortex-a57"), (), ""),
    "aarch64-dotprod": Emulated("aarch64", ("-cpu", "neoverse-n1"), ("-cpu", "cortex-a57"), "dotprod"),
    "riscv64-v": Emulated("riscv64", ("-cpu", _RISCV.format("true")), ("-cpu", _RISCV.format("false")), "v"),
}


def needed(target: str) -> Emulated:
    """How the target is emulated; skips the test where the compiler or qemu is missing, or the machine is none whose code can be compared."""
    if platform.machine() != "x86_64":
        pytest.skip("compares with code for x86-64")
    emulated = EMULATED[target]
    missing = [name for name in (emulated.compiler, f"qemu-{emulated.machine}") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"there is no {' or '.join(missing)} (test/debian-packages.txt)")
    return emulated


def made_bundle(case: Case, target: str, folder: Path) -> Path:
    """The bundle of a case for a target, with a static library."""
    return stepwell.bundle(case.model, folder / case.name, prefix=case.name, kinds=("static",), target=target, **case.options)


def program(bundle: Path, name: str, target: str) -> Path:
    """A program without shared libraries that runs a bundle."""
    made = bundle / f"{name}_program"
    defines = [f"-DNAME={name}", f'-DNAME_HEADER="{name}.h"', f"-I{bundle}"]
    command = [EMULATED[target].compiler, "-static", *defines, str(RUNNER), str(bundle / f"lib{name}.a"), "-lm", "-lpthread", "-o", str(made)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return made


def emulate(
    program: Path, target: str, feeds: Sequence[Feed], *, threads: int = 1, lacking: bool = False
) -> "subprocess.CompletedProcess[str]":  # fmt: skip
    """Run a program on inputs in order; with `lacking`, on a processor that lacks a feature. Its outputs are in the file `out` beside it."""
    emulated, given = EMULATED[target], program.with_name("in")
    given.write_bytes(np.int64(len(feeds)).tobytes() + b"".join(packed(array) for feed in feeds for array in feed.values()))
    weights = str(program).removesuffix("_program") + ".weights"
    options = emulated.lacks if lacking else emulated.has
    command = [f"qemu-{emulated.machine}", *options, str(program), weights, str(given), str(program.with_name("out")), str(threads)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def outputs(program: Path, target: str, feeds: Sequence[Feed], *, threads: int = 1) -> list[np.ndarray]:
    """The outputs of all runs of a program."""
    done = emulate(program, target, feeds, threads=threads)
    assert done.returncode == 0, f"{program.name}: {done.returncode} {done.stderr}"
    return unpacked(program.with_name("out").read_bytes())


def expected(case: Case, target: str) -> list[np.ndarray]:
    """The outputs of code for this machine by the schedules for the target."""
    options: Mapping[str, object] = {**case.options, "target": target, "specialise": "never"}
    model = stepwell.compile(case.model, threads=1, **options)  # type: ignore[arg-type]
    return [array for feed in case.feeds for array in model.run(feed).values()]


def assert_equal(got: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> None:
    """Equal types, shapes and bits; a NaN has any bits, since each family of machines makes its own."""
    assert [(array.dtype, array.shape) for array in got] == [(array.dtype, array.shape) for array in wanted]
    assert all(same_bits(a, b) for a, b in zip(got, wanted, strict=True))


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays of one type and shape have equal bits, where they are not both NaN."""
    if a.tobytes() == b.tobytes():
        return True
    nan = np.isnan(a) & np.isnan(b) if a.dtype.kind in "fV" else np.zeros(a.shape, bool)
    return a[~nan].tobytes() == b[~nan].tobytes()


def packed(array: np.ndarray) -> bytes:
    """An array as the runner reads it."""
    header = [ONNX_NUMBERS[array.dtype.name], array.ndim, *array.shape]
    return np.array(header, np.int64).tobytes() + array.tobytes()


def unpacked(data: bytes) -> list[np.ndarray]:
    """The arrays that the runner has written."""
    arrays, at = [], 0
    while at < len(data):
        number, rank = np.frombuffer(data, np.int64, 2, at)
        shape = tuple(np.frombuffer(data, np.int64, int(rank), at + 16).tolist())
        dtype, at = DTYPES[int(number)], at + 16 + 8 * int(rank)
        arrays.append(np.frombuffer(data, dtype, int(np.prod(shape)), at).reshape(shape))
        at += arrays[-1].nbytes
    return arrays
