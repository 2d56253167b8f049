"""This machine, as described by LLVM and the system."""

import platform
from dataclasses import replace
from functools import cache
from pathlib import Path

from stepwell.dialects.target.cores import available_cores
from stepwell.dialects.target.description import Caches, Target, describe
from stepwell.dialects.target.families import family_of

# The lines of /proc/cpuinfo that determine LLVM's name and features of a processor, on x86 and on Arm.
_LINES = (
    "vendor_id", "cpu family", "model", "model name", "stepping", "flags",
    "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features",
)  # fmt: skip


@cache
def host() -> Target:
    """This machine, as LLVM sees it."""
    import llvmlite.binding as llvm  # imported here, because it takes 40 MB, and running cached code does not need it

    triple = llvm.get_process_triple()
    features = family_of(triple).usable(frozenset(name for name, there in llvm.get_host_cpu_features().items() if there))
    return describe("host", triple, llvm.get_host_cpu_name(), features, _system_caches())


@cache
def identity() -> str:
    """A text that identifies this machine: everything `host` depends on, without loading LLVM if possible."""
    told = {key: value for key, value in first_processor().items() if key in _LINES}
    text = "; ".join((platform.machine(), f"{available_cores()} cores", f"{_system_caches()}", *(f"{key}: {value}" for key, value in told.items())))
    return text if {"flags", "Features"} & set(told) else repr(sorted(vars(host()).items(), key=str))


@cache
def hardware() -> str:
    """A text that identifies the model of processor and the sizes of its caches: the same for all processes, whatever cores each may use.

    Features are left out: Linux lists others after an update. The digest of a target has those that code depends on.
    """
    caches = _system_caches()
    told = {key: value for key, value in first_processor().items() if key in _LINES and key not in ("flags", "Features")} or {"cpu": host().cpu}
    sizes = "unknown" if caches is None else f"{caches.l1d}, {caches.l2}, {caches.l3}"
    return "; ".join((platform.machine(), f"caches: {sizes}", *(f"{key}: {value}" for key, value in told.items())))


@cache
def first_processor() -> dict[str, str]:
    """The lines of /proc/cpuinfo about the first processor, by key; empty on other systems than Linux."""
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n", 1)[0].splitlines()
    except OSError:
        return {}
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}


def _system_caches(folder: str = "/sys/devices/system/cpu/cpu0/cache") -> Caches | None:
    """The data caches of the first core as Linux describes them; None if some of the information is missing."""
    sizes: dict[int, int] = {}
    sharing, ways = 1, 0
    for entry in sorted(Path(folder).glob("index*")):
        try:
            level, kind, size, cores = ((entry / name).read_text().strip() for name in ("level", "type", "size", "shared_cpu_list"))
            if kind not in ("Data", "Unified"):
                continue
            sizes[int(level)] = int(size.rstrip("KMG")) << {"K": 10, "M": 20, "G": 30}.get(size[-1:], 0)
            sharing = _count(cores) if int(level) == 3 else sharing
            if int(level) == 1 and (told := entry / "ways_of_associativity").exists():
                ways = int(told.read_text())
        except (OSError, ValueError):
            return None
    if not {1, 2} <= set(sizes) or min(sizes.values()) <= 0:
        return None
    last = sizes.get(3, sizes[2])  # without a third level, memory follows the second
    known = Caches(sizes[1], sizes[2], last, max(1, min(sharing, available_cores())))
    return replace(known, l1d_ways=ways) if ways > 0 else known


def _count(cores: str) -> int:
    """The number of entries in a list of ranges: `0-3,8` has five."""
    ends = [part.split("-") for part in cores.split(",")]
    return sum(int(end[-1]) - int(end[0]) + 1 for end in ends)


def runs_here(target: Target) -> bool:
    """Whether this machine has every feature that code for the target may use."""
    return target.triple.split("-")[0] == host().triple.split("-")[0] and target.features <= host().features


def narrows_host(target: Target) -> bool:
    """Whether this machine runs the target's code, and has more instructions."""
    return runs_here(target) and target.features < host().features
