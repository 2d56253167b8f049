"""The description of a target: instruction set, vectors, caches, cores, and numeric policy."""

from dataclasses import dataclass
from math import gcd

from stepwell.dialects.target.cores import available_cores

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
    contraction: bool = True
    """Whether `a * b + c` may be rounded once, where the machine has an instruction for that."""
    vector_maths: bool = True
    """Whether exp, tanh and the like are our own vector code; else they are the system's libm, element by element."""

    @property
    def family(self) -> str:
        """What schedules may be registered for: `x86_64` or `aarch64`."""
        return family_of(self.triple)

    @property
    def contracts(self) -> bool:
        """Whether `a * b + c` is rounded once."""
        return self.fma and self.contraction

    @property
    def digest(self) -> str:
        """A digest of all that code depends on: equal for machines without a `difference`."""
        import hashlib  # here, because OpenSSL takes long to load

        values = [getattr(self, name) for name in _DECISIVE]
        return hashlib.sha256(repr([sorted(v) if isinstance(v, frozenset) else v for v in values]).encode()).hexdigest()[:16]

    def difference(self, other: "Target") -> str | None:
        """The difference of `other` that makes code for this machine wrong for it, as text; None if there is none.

        Sizes of caches and numbers of cores only say what is fast: they do not count.
        """
        for name in _DECISIVE:
            mine, others = getattr(self, name), getattr(other, name)
            if mine == others:
                continue
            if isinstance(mine, frozenset):
                parts = [f"{who.name} has {_some(more)}" for who, more in ((self, mine - others), (other, others - mine)) if more]
                return "; ".join(parts)
            return f"{self.name} has {name} {mine}, {other.name} has {others}"
        return None

    def lanes(self, bits: int) -> int:
        """How many elements of `bits` bits a vector register holds."""
        return max(1, self.vector_bits // bits)


_DECISIVE = ("triple", "cpu", "features", "vector_bits", "vector_registers", "fma", "contraction", "vector_maths")


def _some(names: frozenset[str]) -> str:
    return ", ".join(sorted(names)[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


# What named targets are taken to have, and the host where its system does not say: what is common among the machines of each kind.
CACHES = {"x86_64": Caches(32 << 10, 1 << 20, 8 << 20, 4), "aarch64": Caches(64 << 10, 512 << 10, 4 << 20, 4, l1d_ways=4)}
_PIPES = Pipes(fmas=2, latency=4, loads=2)
# Cores whose paths are half as wide as their vectors (Zen 4: AVX-512 in two halves; Agner Fog, "Instruction tables", 2023).
_HALF_WIDTH = {"znver4": Pipes(fmas=1, latency=4, loads=1)}


def describe(name: str, triple: str, cpu: str, features: frozenset[str], caches: Caches | None = None) -> Target:
    """A machine by LLVM's name; fields that are not given have values that are common for its kind."""
    bits, registers, fma = _vectors(triple, features)
    pipes = _HALF_WIDTH.get(cpu, _PIPES) if bits == 512 else _PIPES
    return Target(name, triple, cpu, features, bits, registers, fma, available_cores(), caches or CACHES[family_of(triple)], pipes)


def family_of(triple: str) -> str:
    """The family of a triple: what schedules may be registered for."""
    return "aarch64" if triple.startswith(("aarch64", "arm64")) else "x86_64"


def _vectors(triple: str, features: frozenset[str]) -> tuple[int, int, bool]:
    """Width and number of the vector registers, and whether they have FMA."""
    if family_of(triple) == "aarch64":
        return 128, 32, True
    if "avx512f" in features:
        return 512, 32, True
    return 256 if "avx" in features else 128, 16, "fma" in features


REQUIRES = "stepwell.requires."
"""What the names of symbols of objects begin with that say, behind a colon, which features code needs beyond those of the machine that made it."""

GENERIC = Target("generic", "x86_64-unknown-unknown", "generic", frozenset(), 256, 16, False, 1, CACHES["x86_64"], _PIPES)
"""The target that passes assume if none was named."""
