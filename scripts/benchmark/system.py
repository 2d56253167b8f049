"""Facts from the operating system: memory of this process, and the machine. Linux; None elsewhere."""

import os
import platform
from pathlib import Path

__all__ = ["describe_machine", "memory", "multiplies_bytes", "resident"]

PROCESSORS = Path("/proc/cpuinfo")


def memory() -> dict[str, int]:
    """Memory of this process in bytes, by the kernel's names: VmRSS (resident now), VmHWM (its peak), RssAnon, RssFile; empty if unknown."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.split(":", 1) for line in lines)
    return {name: int(value.split()[0]) * 1024 for name, value in pairs if name in ("VmRSS", "VmHWM", "RssAnon", "RssFile")}


def resident() -> int | None:
    """Resident memory of this process, in bytes."""
    return memory().get("VmRSS")


def multiplies_bytes(processors: Path = PROCESSORS) -> bool:
    """Whether this processor is of x86 and has instructions that multiply bytes and sum in 32 bits without saturating: VNNI."""
    try:
        flags = next((line for line in processors.read_text().splitlines() if line.startswith("flags")), "")
    except OSError:
        return False
    return not {"avx512_vnni", "avx_vnni"}.isdisjoint(flags.split())


def describe_machine() -> dict[str, str]:
    """The processor, the number of cores that this process may use, the system and Python."""
    model = platform.processor() or platform.machine()
    try:
        for line in PROCESSORS.read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass  # not Linux: what platform says must do
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {"processor": model, "cores": str(cores), "system": f"{platform.system()} {platform.machine()}", "python": platform.python_version()}
