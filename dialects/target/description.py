"""The description of a target: instruction set, vectors, caches, cores, and numeric policy."""

from dataclasses import dataclass

from stepwell.dialects.target import aarch64, x86  # they register their families
from stepwell.dialects.target.capabilities import Capabilities
from stepwell.dialects.target.cores import available_cores
from stepwell.dialects.target.costs import COMMON, Costs
from stepwell.dialects.target.families import capabilities_of, family_of
from stepwell.dialects.target.numbers import COMMON_CACHES, COMMON_PIPES, Caches, Pipes

__all__ = ["GENERIC", "REQUIRES", "TRIPLE", "Caches", "Costs", "Pipes", "Target", "aarch64", "describe", "x86"]

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
    costs: Costs = COMMON
    """What things cost on it."""

    @property
    def family(self) -> str:
        """The name of its family, for which schedules may be registered: `x86_64`, `aarch64`, or one of a plugin's."""
        return family_of(self.triple).name

    @property
    def capabilities(self) -> Capabilities:
        """What its instructions can do."""
        return capabilities_of(self.triple, self.features)

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

    def seconds(self, operations: float = 0.0, moved: float = 0.0) -> float:
        """About how long one core takes for floating-point operations of f32 at its peak, and for bytes that it reads from memory or writes there."""
        costs = self.costs
        rate = 2 * self.lanes(32) * self.pipes.fmas * costs.clock
        return (operations + costs.flops_per_byte * moved) / rate


_DECISIVE = ("triple", "cpu", "features", "vector_bits", "vector_registers", "fma", "contraction", "vector_maths")


def _some(names: frozenset[str]) -> str:
    return ", ".join(sorted(names)[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def describe(name: str, triple: str, cpu: str, features: frozenset[str], caches: Caches | None = None) -> Target:
    """A machine by LLVM's names; fields that are not given have values that are common for its family."""
    family = family_of(triple)
    vectors = family.vectors(features)
    pipes = family.pipes(cpu, vectors)
    return Target(
        name, triple, cpu, features, vectors.bits, vectors.count, vectors.fma, available_cores(), caches or family.caches, pipes, costs=family.costs
    )


REQUIRES = "stepwell.requires."
"""What the names of symbols of objects begin with that say, behind a colon, which features code needs beyond those of the machine that made it."""

TRIPLE = "llvm.target_triple"
"""The attribute of a module with instructions of another family than the host's: only an emitter for that triple takes it."""

GENERIC = Target("generic", "x86_64-unknown-unknown", "generic", frozenset(), 256, 16, False, 1, COMMON_CACHES, COMMON_PIPES)
"""The target that passes assume if none was named."""
