"""How an x86-64 machine tells its features: the bits of `cpuid` (Intel, "Software Developer's Manual", volume 2, CPUID; AMD, volume 3, appendix E).

Features that only a system or a hypervisor uses, and those that every x86-64 machine has, are left out: code does not depend on them.
"""

from typing import NamedTuple

_EAX, _EBX, _ECX, _EDX = range(4)


class Bit(NamedTuple):
    """A bit of a register after `cpuid` with a leaf and a subleaf."""

    leaf: int
    subleaf: int
    register: int
    bit: int


BITS = {
    "sse3": Bit(1, 0, _ECX, 0), "pclmul": Bit(1, 0, _ECX, 1), "ssse3": Bit(1, 0, _ECX, 9), "fma": Bit(1, 0, _ECX, 12), "cx16": Bit(1, 0, _ECX, 13),
    "sse4.1": Bit(1, 0, _ECX, 19), "sse4.2": Bit(1, 0, _ECX, 20), "movbe": Bit(1, 0, _ECX, 22), "popcnt": Bit(1, 0, _ECX, 23),
    "aes": Bit(1, 0, _ECX, 25), "avx": Bit(1, 0, _ECX, 28), "f16c": Bit(1, 0, _ECX, 29),
    "bmi": Bit(7, 0, _EBX, 3), "avx2": Bit(7, 0, _EBX, 5), "bmi2": Bit(7, 0, _EBX, 8), "avx512f": Bit(7, 0, _EBX, 16),
    "avx512dq": Bit(7, 0, _EBX, 17),
    "adx": Bit(7, 0, _EBX, 19), "avx512ifma": Bit(7, 0, _EBX, 21), "avx512cd": Bit(7, 0, _EBX, 28), "sha": Bit(7, 0, _EBX, 29),
    "avx512bw": Bit(7, 0, _EBX, 30), "avx512vl": Bit(7, 0, _EBX, 31),
    "avx512vbmi": Bit(7, 0, _ECX, 1), "avx512vbmi2": Bit(7, 0, _ECX, 6), "gfni": Bit(7, 0, _ECX, 8), "vaes": Bit(7, 0, _ECX, 9),
    "vpclmulqdq": Bit(7, 0, _ECX, 10), "avx512vnni": Bit(7, 0, _ECX, 11), "avx512bitalg": Bit(7, 0, _ECX, 12),
    "avx512vpopcntdq": Bit(7, 0, _ECX, 14), "movdiri": Bit(7, 0, _ECX, 27), "movdir64b": Bit(7, 0, _ECX, 28),
    "avx512vp2intersect": Bit(7, 0, _EDX, 8), "amx-bf16": Bit(7, 0, _EDX, 22), "avx512fp16": Bit(7, 0, _EDX, 23), "amx-tile": Bit(7, 0, _EDX, 24),
    "amx-int8": Bit(7, 0, _EDX, 25),
    "avxvnni": Bit(7, 1, _EAX, 4), "avx512bf16": Bit(7, 1, _EAX, 5), "amx-fp16": Bit(7, 1, _EAX, 21), "avxifma": Bit(7, 1, _EAX, 23),
    "avxvnniint8": Bit(7, 1, _EDX, 4), "avxneconvert": Bit(7, 1, _EDX, 5), "avxvnniint16": Bit(7, 1, _EDX, 10),
    "lzcnt": Bit(0x80000001, 0, _ECX, 5), "xop": Bit(0x80000001, 0, _ECX, 11), "fma4": Bit(0x80000001, 0, _ECX, 16),
    "tbm": Bit(0x80000001, 0, _ECX, 21),
}  # fmt: skip
"""The bit of each feature, by LLVM's name."""
