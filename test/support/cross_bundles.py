"""Bundles for other machines, run by qemu."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from bundle_models import Case

import stepwell
from stepwell.bundling.manifest import ONNX_NUMBERS

RUNNER = Path(__file__).resolve().parents[1] / "compiler" / "bundling" / "runner.c"
DTYPES = {number: np.dtype(name) for name, number in ONNX_NUMBERS.items() if number <= 13}
MACHINES = {"aarch64-neon": "aarch64", "aarch64-dotprod": "aarch64", "riscv64-v": "riscv64"}
QEMU = {"riscv64-v": ("-cpu", "rv64,v=true,vlen=128,elen=64,vext_spec=v1.0")}


def needs(target: str) -> str:
    """The compiler for a target; skips the test where it or qemu is missing."""
    if (reason := missing(target)) is not None:
        pytest.skip(reason)
    return f"{MACHINES[target]}-linux-gnu-gcc"


def missing(target: str) -> str | None:
    """Why bundles for a target cannot be built and run here; None if they can."""
    machine = MACHINES[target]
    if all(map(shutil.which, (f"{machine}-linux-gnu-gcc", f"qemu-{machine}"))):
        return None
    return f"there is no {machine}-linux-gnu-gcc or qemu-{machine} (apt install gcc-{machine}-linux-gnu qemu-user)"


def packed(array: np.ndarray) -> bytes:
    header = [ONNX_NUMBERS[array.dtype.name], array.ndim, *array.shape]
    return np.array(header, np.int64).tobytes() + array.tobytes()


def unpacked(data: bytes) -> list[np.ndarray]:
    arrays, at = [], 0
    while at < len(data):
        number, rank = np.frombuffer(data, np.int64, 2, at)
        shape = tuple(np.frombuffer(data, np.int64, int(rank), at + 16).tolist())
        dtype, at = DTYPES[int(number)], at + 16 + 8 * int(rank)
        arrays.append(np.frombuffer(data, dtype, int(np.prod(shape)), at).reshape(shape))
        at += arrays[-1].nbytes
    return arrays


def outputs_of(case: Case, target: str, folder: Path, threads: int = 1) -> list[np.ndarray]:
    """The outputs of all runs of a case, by a bundle for a target, in qemu."""
    compiler, machine = needs(target), MACHINES[target]
    made = stepwell.bundle(case.model, folder / case.name, prefix=case.name, kinds=("static",), target=target, **case.options)
    given = folder / "in"
    given.write_bytes(np.int64(len(case.feeds)).tobytes() + b"".join(packed(array) for feed in case.feeds for array in feed.values()))
    defines = [f"-DNAME={case.name}", f'-DNAME_HEADER="{case.name}.h"', f"-I{made}"]
    program = folder / f"{case.name}_program"
    command = [compiler, "-static", *defines, str(RUNNER), str(made / f"lib{case.name}.a"), "-lm", "-lpthread", "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    run = [f"qemu-{machine}", *QEMU.get(target, ()), str(program), str(made / f"{case.name}.weights"), str(given), str(folder / "out"), str(threads)]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{case.name}: {done.returncode} {done.stderr}"
    return unpacked((folder / "out").read_bytes())
