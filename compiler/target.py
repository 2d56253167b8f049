"""What the code is compiled for: instruction set, vector width, cores; read from the host or named."""

import os
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from stepwell.dialects.errors import InputError


@dataclass(frozen=True)
class Target:
    """A machine, as far as schedules and code generation depend on it."""

    name: str
    triple: str
    cpu: str
    features: frozenset[str]
    """Names of the instruction-set extensions that it has, as LLVM spells them."""
    vector_bits: int
    """Width of a vector register."""
    vector_registers: int
    fma: bool
    """Whether a multiplication and an addition are one instruction."""
    cores: int
    """Cores that the process may use."""

    def lanes(self, bits: int) -> int:
        """How many elements of `bits` bits a vector register holds."""
        return max(1, self.vector_bits // bits)

    @property
    def runs_here(self) -> bool:
        """Whether this machine has all that code for the target may use."""
        return self.triple.split("-")[0] == host().triple.split("-")[0] and self.features <= host().features

    @property
    def narrows_host(self) -> bool:
        """Whether this machine runs the target's code, and has instructions beyond it."""
        return self.runs_here and self.features < host().features


_X86_V3 = frozenset({"sse2", "sse4.2", "avx", "avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe", "popcnt"})
_X86_V4 = _X86_V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_NAMED = {
    "x86-64-v2": ("x86_64-unknown-linux-gnu", "x86-64-v2", frozenset({"sse2", "sse4.2", "popcnt"})),
    "x86-64-v3": ("x86_64-unknown-linux-gnu", "x86-64-v3", _X86_V3),
    "x86-64-v4": ("x86_64-unknown-linux-gnu", "x86-64-v4", _X86_V4),
    "aarch64-neon": ("aarch64-unknown-linux-gnu", "generic", frozenset({"neon", "fp-armv8"})),
}
NAMES = ("host", *_NAMED)
# The lines of /proc/cpuinfo that LLVM's name of a processor and its features follow from, on x86 and on Arm.
_TOLD = (
    "vendor_id", "cpu family", "model", "model name", "stepping", "flags",
    "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features",
)  # fmt: skip


def resolve(target: "str | Target") -> Target:
    """The target named `target`: `host` or one of `NAMES`. Raises InputError for another name."""
    if isinstance(target, Target):
        return target
    if check_name(target) == "host":
        return host()
    triple, cpu, features = _NAMED[target]
    return _describe(target, triple, cpu, features)


def check_name(target: str) -> str:
    """`target` itself. Raises InputError if no target has that name."""
    if target not in NAMES:
        raise InputError(f"unknown target '{target}'; known: {', '.join(NAMES)}")
    return target


@cache
def host() -> Target:
    """This machine, as LLVM sees it."""
    import llvmlite.binding as llvm  # here, because it takes 40 MB, and who runs code that is there does not need it

    features = frozenset(name for name, there in llvm.get_host_cpu_features().items() if there)
    return _describe("host", llvm.get_process_triple(), llvm.get_host_cpu_name(), features)


@cache
def identity() -> str:
    """What tells this machine from others that code may have been made for: all that `host` depends on, without asking LLVM where that can be."""
    told = (f"{key.strip()}: {value.strip()}" for key, _, value in (line.partition(":") for line in _first_processor()) if key.strip() in _TOLD)
    text = "; ".join((platform.machine(), f"{available_cores()} cores", *told))
    return text if any(f"; {key}: " in text for key in ("flags", "Features")) else repr(sorted(vars(host()).items(), key=str))


def _first_processor() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text().split("\n\n", 1)[0].splitlines()
    except OSError:
        return []  # not Linux


def _describe(name: str, triple: str, cpu: str, features: frozenset[str]) -> Target:
    bits, registers, fma = _vectors(triple, features)
    return Target(name, triple, cpu, features, bits, registers, fma, available_cores())


def _vectors(triple: str, features: frozenset[str]) -> tuple[int, int, bool]:
    """Width and number of the vector registers, and whether they have FMA."""
    if triple.startswith(("aarch64", "arm64")):
        return 128, 32, True
    if "avx512f" in features:
        return 512, 32, True
    return 256 if "avx" in features else 128, 16, "fma" in features


@cache
def available_cores() -> int:
    """How many cores the process may use: those it is bound to, within the quota of its control group; never less than 1."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota() if platform.system() == "Linux" else None
    return bound if quota is None else max(1, min(bound, quota))


def _quota() -> int | None:
    """The CPU quota of the control group in whole cores, rounded up, where there is one."""
    try:
        allowed, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        return None  # no control groups of version 2 here, or none with a quota
    return None if allowed == "max" else -(-int(allowed) // int(period))
