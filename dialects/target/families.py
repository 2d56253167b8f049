"""Families of machines: the properties of all machines with one instruction set. A plugin may add one (`register_family`)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

from stepwell.dialects.support.errors import InputError
from stepwell.dialects.support.extensions import extension
from stepwell.dialects.target.capabilities import PLAIN, Capabilities
from stepwell.dialects.target.costs import COMMON, Costs
from stepwell.dialects.target.numbers import COMMON_CACHES, COMMON_PIPES, Caches, Pipes, Vectors


@dataclass(frozen=True)
class Family:
    """The machines with one instruction set. Features are spelled as LLVM spells them."""

    name: str
    """The name for which schedules are registered."""
    architectures: tuple[str, ...]
    """The prefixes of the triples that LLVM gives its machines."""
    vectors: Callable[[frozenset[str]], Vectors]
    """The vector registers of a machine with these features."""
    caches: Caches
    """The default caches of a machine, common in the family."""
    pipes: Callable[[str, Vectors], Pipes]
    """The pipelines of a core, by LLVM's name of it."""
    capabilities: Callable[[frozenset[str]], Capabilities] = lambda _: PLAIN
    """The capabilities of a machine with these features."""
    costs: Costs = COMMON
    """The costs of its machines."""
    usable: Callable[[frozenset[str]], frozenset[str]] = lambda features: features
    """The host's features that this process may use; for some of them, the system must give permission."""
    before_code: Callable[[], object] = lambda: None
    """Called before a process runs code of this machine's family, wherever it was compiled: the system may have to be asked for registers."""
    dot_products: str = ""
    """The module that registers its dot products, imported when a pass asks for them; empty if they are registered at once, or do not exist."""
    feature_bits: Callable[[], Mapping[str, tuple[int, int, int, int]]] = dict
    """Where a program asks the machine for each feature: on x86-64 the leaf, subleaf, register and bit of `cpuid`, elsewhere an entry of Linux's
    auxiliary vector, two zeros and a bit. Other features are not asked for."""
    abi: str = ""
    """The calling convention, by LLVM's name; empty for the only one."""
    compiles_halves: bool = True
    """Whether LLVM compiles all that its own passes do with f16. Where it does not, it never ends on comparisons of vectors, and conversions to f64
    become invalid code: both must go by way of f32."""
    relocations: str = "pic"
    """LLVM's model of addresses in objects: independent of the place of the code, or `static`."""
    intrinsics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Maps prefixes of the names of LLVM's intrinsics to the features, of which a machine needs one. The longest prefix wins."""


_FAMILIES: dict[str, Family] = {}


def register_family(family: Family) -> Family:
    """Add a family and return it. Raises InputError if another one has its name, or covers the same architecture."""
    for other in _FAMILIES.values():
        same = set(other.architectures) & set(family.architectures)
        if other.name == family.name or same:
            raise InputError(f"target family '{other.name}' is already there{f', for {min(same)}' if same else ''}")
    extension(family.vectors, code_generation=True)
    _FAMILIES[family.name] = family
    for known in (family_of, capabilities_of, features_of_intrinsic):
        known.cache_clear()
    return family


def families() -> tuple[Family, ...]:
    """All families, ours first."""
    return tuple(_FAMILIES.values())


@cache
def family_of(triple: str) -> Family:
    """The family of a triple; if none is registered for it, a family with only plain vectors."""
    known = (family for family in _FAMILIES.values() if triple.startswith(family.architectures))
    return next(known, None) or _plain(triple.partition("-")[0])


def _plain(architecture: str) -> Family:
    return Family(
        architecture, (architecture,), lambda _: Vectors(128, 16, fma=False), COMMON_CACHES, lambda *_: COMMON_PIPES
    )


@cache
def capabilities_of(triple: str, features: frozenset[str]) -> Capabilities:
    """The capabilities of a machine with these features."""
    return family_of(triple).capabilities(features)


@cache
def features_of_intrinsic(name: str) -> tuple[str, ...]:
    """The features of which a machine needs one for an intrinsic of LLVM; empty for an intrinsic that every machine has."""
    known = {start: features for family in _FAMILIES.values() for start, features in family.intrinsics.items() if name.startswith(start)}
    return known[max(known, key=len)] if known else ()
