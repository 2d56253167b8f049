"""The interfaces of search spaces and strategies, and the registry of strategies."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol, TypeVar

from stepwell.dialects.support.errors import InputError, shown
from stepwell.dialects.support.extensions import extension


class Space(Protocol):
    """The candidates of a site, as texts: all knobs that have an effect, or the name of a choice. Equal texts are equal candidates."""

    default: str
    """The candidate that the compiler takes by itself."""

    def size(self) -> int:
        """The number of candidates; of several knobs an upper bound, their product."""

    def every(self) -> Iterator[str]:
        """All candidates, the default first, if there are few enough to list; the caller may stop."""

    def sample(self, random: Random) -> str:
        """A random legal candidate."""

    def near(self, text: str) -> Sequence[str]:
        """The legal candidates that differ in one knob from `text` (and in others only as needed)."""

    def move(self, text: str, random: Random) -> str:
        """A random one of `near`, found without listing all of them; `text` itself if none was found."""

    def lines(self, text: str) -> Mapping[str, Sequence[str]]:
        """For each knob, the legal candidates that differ from `text` in that knob alone, ordered by its value, `text` among them."""

    def cross(self, one: str, other: str, random: Random) -> str:
        """A legal candidate with some knobs of each of two; `one` if there is none."""

    def refusal(self, text: str) -> str | None:
        """Why a candidate is not legal, in this space; None if it is."""

    def predict(self, texts: Sequence[str]) -> list[float | None]:
        """Seconds by the analytic model; None for a candidate that it refuses, such as a tile that exceeds the registers."""

    def features(self, text: str) -> Mapping[str, float]:
        """Numbers from which a model may learn."""


@dataclass(frozen=True)
class Trial:
    """A candidate that was tried."""

    text: str
    log_ratio: float | None
    """The logarithm of its time relative to the default's, below 0 if it is faster; None if it could not be built or run."""


Score = Callable[[Sequence[str]], Sequence[float]]
"""Scores candidates, larger is better: the learned model's probability that each belongs to the fastest tenth, or the analytic prediction."""


class Strategy(Protocol):
    """Proposes candidates. Register a class with `register_strategy`; an instance serves one site."""

    def propose(self, space: Space, trials: Sequence[Trial], score: Score, count: int, effort: int, random: Random) -> list[str]:
        """At most `count` legal candidates to build next, the most promising first, none of them among `trials`; none if the search is over.

        `effort` bounds the number of candidates that may be scored. Only `random` may be used for random numbers.
        """


S = TypeVar("S", bound=type[Strategy])
_STRATEGIES: dict[str, type[Strategy]] = {}


def register_strategy(name: str) -> Callable[[S], S]:
    """Register a class (see `Strategy`) under a name, for `stepwell tune --strategy NAME`."""

    def add(cls: S) -> S:
        _STRATEGIES[name] = cls
        extension(cls)
        return cls

    return add


def strategies() -> dict[str, type[Strategy]]:
    """All strategies by name, including those of plugins."""
    from stepwell.tuning.strategies import built_in  # imported here, because strategies import this file

    built_in()
    return dict(sorted(_STRATEGIES.items()))


def find_strategy(name: str) -> type[Strategy]:
    """The strategy of that name. Raises InputError."""
    known = strategies()
    if name not in known:
        raise InputError(f"strategy: expected one of {', '.join(known)}, got {shown(name)}")
    return known[name]
