"""The RISC-V family of 64 bits: the vector extension, as vectors of a fixed width."""

import re

from stepwell.dialects.target.capabilities import Capabilities
from stepwell.dialects.target.families import Family, register_family
from stepwell.dialects.target.numbers import COMMON_PIPES, Caches, Vectors

_HWCAP = 16  # the entry of Linux's auxiliary vector with a bit for each extension of one letter
_LENGTH = re.compile(r"zvl(\d+)b")


def _vectors(features: frozenset[str]) -> Vectors:
    """The smallest vectors that machines with these features have: code does not ask for the real width."""
    found = [int(match[1]) for name in features if (match := _LENGTH.fullmatch(name))]
    return Vectors(max(found, default=128), 32, fma=True)


RISCV64 = register_family(Family(
    "riscv64", ("riscv64",), _vectors, Caches(32 << 10, 512 << 10, 2 << 20, 4), lambda *_: COMMON_PIPES,
    feature_bits=lambda: {name: (_HWCAP, 0, 0, ord(name) - ord("a")) for name in "mafdcv"},
    capabilities=lambda _: Capabilities(folds_in_halves=False), abi="lp64d",  # each machine has its own order of a sum of lanes (`vfredusum`)
))  # fmt: skip
