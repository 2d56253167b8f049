"""The AArch64 family: Neon, and the dot-product extension."""

from stepwell.dialects.target.capabilities import Capabilities
from stepwell.dialects.target.families import Family, register_family
from stepwell.dialects.target.numbers import COMMON_PIPES, Caches, Vectors

_HWCAP, _HWCAP2 = 16, 26  # entries of Linux's auxiliary vector (uapi/linux/auxvec.h, arch/arm64/include/uapi/asm/hwcap.h)
_BITS = {
    "neon": (_HWCAP, 0, 0, 1), "fullfp16": (_HWCAP, 0, 0, 10), "dotprod": (_HWCAP, 0, 0, 20),
    "i8mm": (_HWCAP2, 0, 0, 13), "bf16": (_HWCAP2, 0, 0, 14),
}  # fmt: skip

AARCH64 = register_family(Family(
    "aarch64", ("aarch64", "arm64"), lambda _: Vectors(128, 32, fma=True), Caches(64 << 10, 512 << 10, 4 << 20, 4, l1d_ways=4),
    lambda *_: COMMON_PIPES, dot_products="stepwell.dialects.target.aarch64_dot_products", feature_bits=lambda: _BITS,
    capabilities=lambda _: Capabilities(folds_in_halves=False),  # a sum of lanes adds neighbours (`faddp`)
    intrinsics={"llvm.aarch64.neon.": ("neon",)},
))  # fmt: skip
