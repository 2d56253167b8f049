"""What the code is compiled for: instruction set, vector width, cores; read from the host or named."""

import operator
import os
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from stepwell.dialects.support.errors import InputError, shown


@dataclass(frozen=True)
class Caches:
    """Sizes in bytes of the data caches: those of one core, and the last one, which cores may share."""

    l1d: int
    l2: int
    l3: int
    l3_cores: int = 1
    """How many of the process's cores share the last one."""

    @property
    def per_core(self) -> tuple[int, int, int]:
        """What one core has of each when all are busy, the innermost first."""
        return self.l1d, self.l2, self.l3 // self.l3_cores


@dataclass(frozen=True)
class Pipes:
    """What a core does in a cycle with vectors of full width, as far as the cost of schedules depends on it."""

    fmas: float
    """Fused multiply-adds (or other arithmetic) started in a cycle."""
    latency: int
    """Cycles until the result of one can go into the next."""
    loads: float
    """Loads of vectors of full width started in a cycle."""


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
    caches: Caches
    pipes: Pipes

    @property
    def family(self) -> str:
        """What schedules may be registered for: `x86_64` or `aarch64`."""
        return _family(self.triple)

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
    "aarch64-dotprod": ("aarch64-unknown-linux-gnu", "neoverse-n1", frozenset({"neon", "fp-armv8", "dotprod"})),
}
NAMES = ("host", *_NAMED)
# The lines of /proc/cpuinfo that LLVM's name of a processor and its features follow from, on x86 and on Arm.
_TOLD = (
    "vendor_id", "cpu family", "model", "model name", "stepping", "flags",
    "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features",
)  # fmt: skip
# What named targets are taken to have, and the host where its system does not say: what is common among the machines of each kind.
_CACHES = {"x86_64": Caches(32 << 10, 1 << 20, 8 << 20, 4), "aarch64": Caches(64 << 10, 512 << 10, 4 << 20, 4)}
_PIPES = Pipes(fmas=2, latency=4, loads=2)
# Cores whose paths are half as wide as their vectors (Zen 4: AVX-512 in two halves; Agner Fog, "Instruction tables", 2023).
_HALF_WIDTH = {"znver4": Pipes(fmas=1, latency=4, loads=1)}


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
    return _describe("host", llvm.get_process_triple(), llvm.get_host_cpu_name(), features, _system_caches())


@cache
def identity() -> str:
    """What tells this machine from others that code may have been made for: all that `host` depends on, without asking LLVM where that can be."""
    told = (f"{key.strip()}: {value.strip()}" for key, _, value in (line.partition(":") for line in _first_processor()) if key.strip() in _TOLD)
    text = "; ".join((platform.machine(), f"{available_cores()} cores", f"{_system_caches()}", *told))
    return text if any(f"; {key}: " in text for key in ("flags", "Features")) else repr(sorted(vars(host()).items(), key=str))


def _first_processor() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text().split("\n\n", 1)[0].splitlines()
    except OSError:
        return []  # not Linux


def _describe(name: str, triple: str, cpu: str, features: frozenset[str], caches: Caches | None = None) -> Target:
    bits, registers, fma = _vectors(triple, features)
    pipes = _HALF_WIDTH.get(cpu, _PIPES) if bits == 512 else _PIPES
    return Target(name, triple, cpu, features, bits, registers, fma, available_cores(), caches or _CACHES[_family(triple)], pipes)


def _family(triple: str) -> str:
    return "aarch64" if triple.startswith(("aarch64", "arm64")) else "x86_64"


def _vectors(triple: str, features: frozenset[str]) -> tuple[int, int, bool]:
    """Width and number of the vector registers, and whether they have FMA."""
    if _family(triple) == "aarch64":
        return 128, 32, True
    if "avx512f" in features:
        return 512, 32, True
    return 256 if "avx" in features else 128, 16, "fma" in features


def _system_caches(folder: str = "/sys/devices/system/cpu/cpu0/cache") -> Caches | None:
    """The data caches of the first core as Linux describes them; None where it does not, or not all that is needed."""
    sizes: dict[int, int] = {}
    sharing = 1
    for entry in sorted(Path(folder).glob("index*")):
        try:
            level, kind, size, cores = ((entry / name).read_text().strip() for name in ("level", "type", "size", "shared_cpu_list"))
            if kind not in ("Data", "Unified"):
                continue
            sizes[int(level)] = int(size.rstrip("KMG")) << {"K": 10, "M": 20, "G": 30}.get(size[-1:], 0)
            sharing = _count(cores) if int(level) == 3 else sharing
        except (OSError, ValueError):
            return None
    if not {1, 2} <= set(sizes) or min(sizes.values()) <= 0:
        return None
    last = sizes.get(3, sizes[2])  # without a third level, memory comes after the second
    return Caches(sizes[1], sizes[2], last, max(1, min(sharing, available_cores())))


def _count(cores: str) -> int:
    """How many numbers a list of ranges has: `0-3,8` has five."""
    ends = [part.split("-") for part in cores.split(",")]
    return sum(int(end[-1]) - int(end[0]) + 1 for end in ends)


MAX_THREADS = 1024
"""For one run. OpenMP ends the process where the system has no more threads to give."""


def thread_count(threads: Any) -> int:
    """How many threads a run uses: `threads`, or one for each core that the process may use where it is None.

    Raises InputError for what is not a whole number from 1 to `MAX_THREADS`.
    """
    if threads is None:
        return min(available_cores(), MAX_THREADS)
    try:
        count = 0 if isinstance(threads, bool) else operator.index(threads)
    except TypeError:
        count = 0
    if not 1 <= count <= MAX_THREADS:
        raise InputError(f"threads: expected a whole number from 1 to {MAX_THREADS}, or None for one for each core, got {shown(threads)}")
    return count


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
