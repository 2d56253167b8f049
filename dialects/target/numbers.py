"""The numbers of a machine that schedules depend on: caches, and what a core does in a cycle."""

from dataclasses import dataclass
from math import gcd

LINE = 64
"""Bytes that a cache fetches at a time."""


@dataclass(frozen=True)
class Caches:
    """Sizes in bytes of the data caches: those of one core, and the last one, which cores may share."""

    l1d: int
    l2: int
    l3: int
    l3_cores: int = 1
    """How many of the process's cores share the last one."""
    l1d_ways: int = 8
    """How many lines a set of the first one holds."""

    def lines_kept(self, stride: int) -> int:
        """How many lines that lie `stride` bytes apart the first one holds at once: few, where they fall on few of its sets."""
        sets = max(1, self.l1d // (LINE * self.l1d_ways))
        return self.l1d_ways * (sets if stride % LINE else sets // gcd(sets, stride // LINE))

    @property
    def per_core(self) -> tuple[int, int, int]:
        """The part of each that one core has when all are busy, innermost first."""
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
class Vectors:
    """The vector registers of a machine."""

    bits: int
    """Width of one."""
    count: int
    fma: bool
    """Whether a multiplication and an addition are one instruction."""


COMMON_CACHES = Caches(32 << 10, 1 << 20, 8 << 20, 4)
"""The caches of a machine of which nothing else is known."""
COMMON_PIPES = Pipes(fmas=2, latency=4, loads=2)
"""The pipes of such a machine: those of most cores of the last ten years."""
