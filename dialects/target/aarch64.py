"""The AArch64 family: Neon, and the dot-product extension."""

from stepwell.dialects.target.families import Family, register_family
from stepwell.dialects.target.numbers import COMMON_PIPES, Caches, Vectors

AARCH64 = register_family(Family(
    "aarch64", ("aarch64", "arm64"), lambda _: Vectors(128, 32, fma=True), Caches(64 << 10, 512 << 10, 4 << 20, 4, l1d_ways=4),
    lambda *_: COMMON_PIPES, dot_products="stepwell.dialects.target.aarch64_dot_products",
    intrinsics={"llvm.aarch64.neon.": ("neon",)},
))  # fmt: skip
