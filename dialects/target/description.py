"""The description of a target: instruction set, vectors, caches, cores, and numeric policy."""

from dataclasses import dataclass, replace

from stepwell.dialects.target import aarch64, riscv64, wasm32, x86  # they register their families
from stepwell.dialects.target.capabilities import Capabilities
from stepwell.dialects.target.cores import available_cores
from stepwell.dialects.target.costs import COMMON, Costs
from stepwell.dialects.target.families import capabilities_of, family_of
from stepwell.dialects.target.numbers import COMMON_CACHES, COMMON_PIPES, COMMON_VECTORS, Caches, Pipes

__all__ = ["GENERIC", "REQUIRES", "TRIPLE", "Caches", "Costs", "Pipes", "Target", "aarch64", "describe", "riscv64", "wasm32", "x86"]


@dataclass(frozen=True)
class Target:
    """A machine, as far as schedules and code generation depend on it."""

    name: str
    triple: str
    cpu: str
    features: frozenset[str]
    """Names of its instruction-set extensions, as LLVM spells them."""
    vector_bits: int
    """Width of a vector register in bits."""
    vector_registers: int
    fma: bool
    """Whether a multiplication and an addition are one instruction."""
    cores: int
    """The number of cores that the process may use."""
    caches: Caches
    pipes: Pipes
    contraction: bool = True
    """Whether `a * b + c` may be rounded once, if the machine has an instruction for that."""
    vector_maths: bool = True
    """Whether exp, tanh and similar functions are our own vector code; otherwise they are the system's libm, element by element."""
    costs: Costs = COMMON
    """Its costs."""
    reproducible: bool = False
    """Whether results have the same bits on every machine: `deciding` makes all decisions that may change a rounding."""

    @property
    def deciding(self) -> "Target":
        """The machine by whose vectors, caches and costs passes decide: this one, or if results are reproducible one that is the same for all.

        Its instructions are this machine's, so passes may ask it whether an exact instruction exists.
        """
        if not self.reproducible:
            return self
        vectors, cores = COMMON_VECTORS, COMMON_CACHES.l3_cores
        return replace(
            self, vector_bits=vectors.bits, vector_registers=vectors.count, fma=vectors.fma, cores=cores, caches=COMMON_CACHES, pipes=COMMON_PIPES,
            costs=COMMON,
        )  # fmt: skip

    @property
    def family(self) -> str:
        """The name of its family, for which schedules may be registered: `x86_64`, `aarch64`, or a plugin's family."""
        return family_of(self.triple).name

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of its instructions."""
        return capabilities_of(self.triple, self.features)

    @property
    def contracts(self) -> bool:
        """Whether `a * b + c` is rounded once: by an instruction, or for reproducible results by several (`expand-fma`)."""
        return self.contraction and (self.fma or self.reproducible)

    @property
    def digest(self) -> str:
        """A digest of everything that code depends on: equal for machines without a `difference`."""
        import hashlib  # imported here, because OpenSSL takes long to load

        values = [getattr(self, name) for name in _DECISIVE if name != "reproducible" or self.reproducible]
        return hashlib.sha256(repr([sorted(v) if isinstance(v, frozenset) else v for v in values]).encode()).hexdigest()[:16]

    def difference(self, other: "Target") -> str | None:
        """The property of `other` that makes code for this machine wrong for it, as text; None if there is none.

        Cache sizes and core counts only affect speed, so they do not count.
        """
        for name in _DECISIVE:
            mine, others = getattr(self, name), getattr(other, name)
            if mine == others:
                continue
            if isinstance(mine, frozenset):
                parts = [f"{who.name} has {_listed(more)}" for who, more in ((self, mine - others), (other, others - mine)) if more]
                return "; ".join(parts)
            return f"{self.name} has {name} {mine}, {other.name} has {others}"
        return None

    def lanes(self, bits: int) -> int:
        """The number of elements of `bits` bits in a vector register."""
        return max(1, self.vector_bits // bits)

    def seconds(self, operations: float = 0.0, moved: float = 0.0, *, cycles: float = 0.0) -> float:
        """The approximate seconds that one core takes for `operations` in f32 at its peak, `moved` bytes from or to memory, and `cycles`."""
        costs = self.costs
        rate = 2 * self.lanes(32) * self.pipes.fmas * costs.clock
        return (operations + costs.flops_per_byte * moved) / rate + cycles / costs.clock


_DECISIVE = ("triple", "cpu", "features", "vector_bits", "vector_registers", "fma", "contraction", "vector_maths", "reproducible")


def _listed(names: frozenset[str]) -> str:
    """Up to four names, and the number of the others."""
    return ", ".join(sorted(names)[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def describe(name: str, triple: str, cpu: str, features: frozenset[str], caches: Caches | None = None) -> Target:
    """A machine by LLVM's names; fields that are not given have common values of its family."""
    family = family_of(triple)
    vectors = family.vectors(features)
    pipes = family.pipes(cpu, vectors)
    return Target(
        name, triple, cpu, features, vectors.bits, vectors.count, vectors.fma, available_cores(), caches or family.caches, pipes, costs=family.costs
    )


REQUIRES = "stepwell.requires."
"""The prefix of symbols in objects that list, after a colon, the features that code needs beyond those of the compiling machine."""

TRIPLE = "llvm.target_triple"
"""The attribute of a module with instructions of another family than the host's: only an emitter for that triple accepts it."""

GENERIC = Target("generic", "x86_64-unknown-unknown", "generic", frozenset(), 256, 16, False, 1, COMMON_CACHES, COMMON_PIPES)
"""The target that passes assume if none is named."""
