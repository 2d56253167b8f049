"""The x86-64 family: SSE, AVX, AVX-512 and its extensions, AMX."""

import ctypes
import platform
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

from stepwell.dialects.target.capabilities import Capabilities, TileRegisters
from stepwell.dialects.target.families import Family, register_family
from stepwell.dialects.target.numbers import COMMON_CACHES, COMMON_PIPES, Pipes, Vectors

_HALF_WIDTH = frozenset({"znver4"})
"""Cores whose data paths are half as wide as their vectors of 512 bits (Agner Fog, "Instruction tables", 2023)."""
_MASKS = frozenset({"avx", "avx2", "avx512f"})
_SCALES = frozenset({"avx512f", "avx512vl"})
_AMX = "amx-tile"
AMX_REGISTERS = TileRegisters(count=8, rows=16, row_bytes=64, group=4)
"""Palette 1, the only one so far (Intel, "Architectures Software Developer's Manual", volume 1, chapter 18)."""
_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA = 158, 0x1023, 18  # a system call of x86-64, one of its codes, and the state that it concerns


def _vectors(features: frozenset[str]) -> Vectors:
    if "avx512f" in features:
        return Vectors(512, 32, fma=True)
    return Vectors(256 if "avx" in features else 128, 16, "fma" in features)


def _pipes(cpu: str, vectors: Vectors) -> Pipes:
    return Pipes(fmas=1, latency=4, loads=1) if vectors.bits == 512 and cpu in _HALF_WIDTH else COMMON_PIPES


def _capabilities(features: frozenset[str]) -> Capabilities:
    return Capabilities(
        masked_bits=frozenset({32, 64}) if features & _MASKS else frozenset(),
        maximum_selects=True,
        conversion_rounds=True,
        bf16_rounding=((16, _round_to_bf16), (8, _round_to_bf16)) if "avx512bf16" in features else (),
        power_scaling=tuple((lanes, _scale_by_power) for lanes in (16, 8, 4)) if features >= _SCALES else (),
        tile_registers=AMX_REGISTERS if _AMX in features else None,
    )


def _round_to_bf16(x: Any) -> Any:
    from stepwell.dialects.target.x86_code import round_to_bf16  # imported here, because it loads the bindings

    return round_to_bf16(x)


def _scale_by_power(x: Any, n: Any) -> Any:
    from stepwell.dialects.target.x86_code import scale_by_power  # imported here, because it loads the bindings

    return scale_by_power(x, n)


def _usable(features: frozenset[str]) -> frozenset[str]:
    """The features, without those of AMX if the system does not save its registers for this process."""
    if _AMX in features and not _may_use_tiles():
        return frozenset(name for name in features if not name.startswith("amx-"))
    return features


@cache
def _may_use_tiles() -> bool:
    """Ask Linux to save the registers of AMX for this process and its forks (Documentation/arch/x86/xstate.rst). Returns whether it does."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    return ctypes.CDLL(None, use_errno=True).syscall(_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA) == 0


def _feature_bits() -> Mapping[str, tuple[int, int, int, int]]:
    from stepwell.dialects.target.x86_cpuid import BITS  # imported here, because only bundles need it

    return BITS


X86 = register_family(Family(
    "x86_64", ("x86", "i386", "i686"), _vectors, COMMON_CACHES, _pipes, _capabilities, usable=_usable, before_code=_may_use_tiles,
    dot_products="stepwell.dialects.target.x86_dot_products", feature_bits=_feature_bits,
    intrinsics={
        "llvm.x86.avx512bf16.": ("avx512bf16",), "llvm.x86.avx512.vpdp": ("avx512vnni", "avxvnni"), "llvm.x86.avx512.": ("avx512f",),
        "llvm.x86.avx2.": ("avx2",), "llvm.x86.t": (_AMX,),
    },
))  # fmt: skip
