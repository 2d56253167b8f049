"""Families of machines: what an instruction set says of all machines that have it. A plugin may add one (`register_family`)."""

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
    """The machines of one instruction set. Features are spelled as LLVM spells them."""

    name: str
    """What schedules are registered for."""
    architectures: tuple[str, ...]
    """The beginnings of the triples that LLVM gives its machines."""
    vectors: Callable[[frozenset[str]], Vectors]
    """The vector registers of a machine with these features."""
    caches: Caches
    """The caches that a machine is taken to have if nothing else is known: those that are common in the family."""
    pipes: Callable[[str, Vectors], Pipes]
    """What a core of that name, as LLVM calls it, does in a cycle."""
    capabilities: Callable[[frozenset[str]], Capabilities] = lambda _: PLAIN
    """What a machine with these features can do."""
    costs: Costs = COMMON
    """What things cost on its machines."""
    usable: Callable[[frozenset[str]], frozenset[str]] = lambda features: features
    """Those of the host's features that this process may use; the system may have to be asked for some."""
    before_code: Callable[[], object] = lambda: None
    """Called before a process runs code of this machine's family, wherever that was compiled: the system may have to be asked for registers."""
    dot_products: str = ""
    """The module that registers its dot products, imported when a pass asks for them; empty where they are registered at once, or are none."""
    intrinsics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For beginnings of the names of LLVM's intrinsics: the features of which a machine must have one. The longest beginning counts."""


_FAMILIES: dict[str, Family] = {}


def register_family(family: Family) -> Family:
    """Add a family; returns it. Raises InputError if another one has its name, or machines of the same architecture."""
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
    """The family of a triple; one whose machines have nothing beyond plain vectors if none is registered for it."""
    known = (family for family in _FAMILIES.values() if triple.startswith(family.architectures))
    return next(known, None) or _plain(triple.partition("-")[0])


def _plain(architecture: str) -> Family:
    return Family(
        architecture, (architecture,), lambda _: Vectors(128, 16, fma=False), COMMON_CACHES, lambda *_: COMMON_PIPES
    )


@cache
def capabilities_of(triple: str, features: frozenset[str]) -> Capabilities:
    """What the instructions of a machine with these features can do."""
    return family_of(triple).capabilities(features)


@cache
def features_of_intrinsic(name: str) -> tuple[str, ...]:
    """The features of which a machine must have one for an intrinsic of LLVM's; none for one that LLVM has on every machine."""
    known = {start: features for family in _FAMILIES.values() for start, features in family.intrinsics.items() if name.startswith(start)}
    return known[max(known, key=len)] if known else ()
