"""The numbers of a machine that schedules depend on: caches and pipelines."""

from dataclasses import dataclass
from math import gcd

LINE = 64
"""Bytes of a cache line."""
SHUFFLED_BITS = 128
"""Bits of the part of a register within which every family shuffles elements in one instruction (`vpshufb`, `tbl`): no use for shorter rows."""
SHUFFLED_STRIDE = 4
"""The largest distance, in elements, of the elements of a vector up to which shuffling whole vectors is faster than loading single elements."""


@dataclass(frozen=True)
class Caches:
    """Sizes in bytes of the data caches: those of one core, and the last one, which cores may share."""

    l1d: int
    l2: int
    l3: int
    l3_cores: int = 1
    """The number of the process's cores that share the last cache."""
    l1d_ways: int = 8
    """The number of lines in a set of the first cache."""

    def lines_kept(self, stride: int) -> int:
        """The number of lines, `stride` bytes apart, that the first cache holds at once: few if they fall on few of its sets."""
        sets = max(1, self.l1d // (LINE * self.l1d_ways))
        return self.l1d_ways * (sets if stride % LINE else sets // gcd(sets, stride // LINE))

    @property
    def per_core(self) -> tuple[int, int, int]:
        """The share of each cache that one core has when all cores are busy, innermost first."""
        return self.l1d, self.l2, self.l3 // self.l3_cores


@dataclass(frozen=True)
class Pipes:
    """The throughput of a core's full-width vector instructions, as far as the cost of schedules depends on it."""

    fmas: float
    """Fused multiply-adds (or other arithmetic) started per cycle."""
    latency: int
    """Latency in cycles, from one instruction to the next that uses its result."""
    loads: float
    """Full-width vector loads started per cycle."""


@dataclass(frozen=True)
class Vectors:
    """The vector registers of a machine."""

    bits: int
    """Width of a register in bits."""
    count: int
    fma: bool
    """Whether a multiplication and an addition are one instruction."""


COMMON_CACHES = Caches(32 << 10, 1 << 20, 8 << 20, 4)
"""The caches of a machine of which nothing else is known."""
COMMON_PIPES = Pipes(fmas=2, latency=4, loads=2)
"""The pipelines of such a machine: those of most cores of the last ten years."""
COMMON_VECTORS = Vectors(512, 32, fma=True)
"""The vectors by which decisions are made that must be the same for all machines. Narrower registers hold such a vector in several parts."""
