"""The registry of strategies that compute register tiles, and the choice for a nest."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from stepwell.dialects.support.errors import PassError, shown
from stepwell.dialects.support.extensions import extension
from stepwell.dialects.support.origins import line_of
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.linalg_to_affine.context import NestContext
from stepwell.passes.linalg_to_affine.strategies.base import TileStrategy

ORDER = ("constant-matrices", "tile-registers", "dot-products", "sums-in-lanes", "transposed", "plain")
"""The built-in strategies in the order in which they are tried. Those of plugins come first, the latest registration first."""
S = TypeVar("S", bound=type[TileStrategy])
Decline = Callable[[str, NoMatch], None]
"""Records why the named strategy does not compute a nest, or some of its tiles."""


@dataclass(frozen=True)
class _Registered:
    strategy: type[TileStrategy]
    kinds: frozenset[str]


_STRATEGIES: dict[str, _Registered] = {}


def register_tile_strategy(name: str, *, kinds: Sequence[str] = ("elementwise", "contraction", "reduction", "other")) -> Callable[[S], S]:
    """Register a class that computes the register tiles of ops of these kinds (see `Structured.kind`), if it fits."""

    def add(cls: S) -> S:
        known = _STRATEGIES.pop(name, None)
        if known is not None and known.strategy.__qualname__ != cls.__qualname__:
            _STRATEGIES[name] = known
            raise PassError(f"tile strategy '{name}' is already registered by {known.strategy.__module__}.{known.strategy.__qualname__}")
        cls.name = name
        _STRATEGIES[name] = _Registered(cls, frozenset(kinds))
        extension(cls)
        return cls

    return add


def tile_strategies(kind: str) -> list[type[TileStrategy]]:
    """The strategies for ops of a kind, in the order in which they are tried."""
    brought = [name for name in reversed(_STRATEGIES) if name not in ORDER]
    return [_STRATEGIES[name].strategy for name in (*brought, *ORDER) if kind in _STRATEGIES[name].kinds]


def has_own_strategies(kind: str) -> bool:
    """Whether plugins have brought strategies for ops of a kind, which may add in another order."""
    return any(name not in ORDER and kind in found.kinds for name, found in _STRATEGIES.items())


def choose(context: NestContext, decline: Decline) -> TileStrategy:
    """The first strategy that fits a nest, with the ones behind it that fit as its `rest`. Records why those before it do not.

    Raises PassError if none fits, or if `fits` returns anything else.
    """
    found: list[TileStrategy] = []
    for cls in tile_strategies(context.root.kind):
        answer = cls.fits(context)
        if isinstance(answer, TileStrategy):
            answer.name = cls.name  # it may be of another class
            found.append(answer)
        elif answer is not None and not isinstance(answer, NoMatch):
            raise PassError(f"tile strategy '{cls.name}': fits must give a TileStrategy, NoMatch or None, got {shown(answer)}{line_of(cls.fits)}")
        elif answer is not None and not found:
            decline(cls.name, answer)
    if not found:
        raise PassError(f"no tile strategy fits '{context.root.operation.name}' at {context.root.operation.location}")
    for strategy, rest in pairwise(found):
        strategy.rest = rest
    return found[0]
