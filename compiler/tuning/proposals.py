"""Helpers of search strategies: the candidates that they may still propose, those to start from, and scores within a limit."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from math import inf, isnan
from random import Random

from stepwell.tuning.spaces import Score, Space, Trial

LISTED = 1024
"""The largest number of candidates of a space that is listed in order to take random ones of the rest. Larger spaces are sampled."""
DRAWS = 16
"""Random candidates that are drawn for each one wanted, because some of them were tried before."""
MORE_DRAWS = 64
"""The number of random candidates that are drawn besides, for small requests."""
VISITED = 64
"""The largest number of candidates whose neighbours are listed if drawing does not find enough that are new."""


class Untried:
    """The candidates that a strategy may still propose: legal, not among the trials, each once."""

    def __init__(self, space: Space, trials: Iterable[Trial]) -> None:
        self._space = space
        self._seen = {trial.text for trial in trials}

    def take(self, texts: Iterable[str], count: int) -> list[str]:
        """The first `count` of the texts that may be proposed; they are not proposed again. `texts` must end."""
        found: list[str] = []
        ahead = iter(texts)
        while len(found) < count and (text := next(ahead, None)) is not None:
            if text not in self._seen:
                self._seen.add(text)
                if self._space.refusal(text) is None:
                    found.append(text)
        return found

    def sample(self, random: Random, count: int) -> list[str]:
        """At most `count` random candidates that may be proposed.

        Of a small space, they are equally likely, and fewer than `count` are all that is left. A large space is sampled; if that finds too few new
        ones, because nearly all is tried or only few of its combinations are legal, then candidates follow that neighbours lead to from the default.
        """
        size = self._space.size()
        if size <= LISTED:
            rest = [text for text in dict.fromkeys(islice(self._space.every(), size)) if text not in self._seen]
            random.shuffle(rest)
            return self.take(rest, count)
        found = self.take((self._space.sample(random) for _ in range(DRAWS * count + MORE_DRAWS)), count)
        return found + self.take(self._reachable(), count - len(found))

    def _reachable(self) -> Iterator[str]:
        """The default, and the candidates to which its neighbours lead, the nearest ones first."""
        found = [self._space.default]
        seen = set(found)
        yield from found
        for place in range(VISITED):
            if place == len(found):
                return
            for text in self._space.near(found[place]):
                if text not in seen:
                    seen.add(text)
                    found.append(text)
                    yield text


class Scores:
    """The scores of candidates: each is computed once, and at most `effort` are."""

    def __init__(self, score: Score, effort: int) -> None:
        self._score, self._effort = score, max(effort, 1)
        self.known: dict[str, float] = {}

    @property
    def left(self) -> int:
        """The number of candidates that may still be scored."""
        return self._effort - len(self.known)

    @property
    def left_share(self) -> float:
        """The same as a fraction of the effort."""
        return self.left / self._effort

    def add(self, texts: Iterable[str]) -> None:
        """Score those that have no score yet, in order, as many as the effort allows. A score that is not a number counts as the smallest one."""
        new = [text for text in dict.fromkeys(texts) if text not in self.known][: self.left]
        if new:
            self.known.update((text, -inf if isnan(score) else float(score)) for text, score in zip(new, self._score(new), strict=True))

    def best(self) -> list[str]:
        """The candidates with a score above minus infinity, the largest score first; among equals, the one that was scored first."""
        return sorted((text for text, score in self.known.items() if score > -inf), key=self.known.__getitem__, reverse=True)


def fastest(space: Space, trials: Iterable[Trial]) -> list[str]:
    """The legal candidates that were measured, the fastest one first."""
    measured = sorted((trial.log_ratio, place, trial.text) for place, trial in enumerate(trials) if trial.log_ratio is not None)
    return [text for _, _, text in measured if space.refusal(text) is None]


def starts(space: Space, trials: Iterable[Trial], count: int, random: Random) -> list[str]:
    """At most `count` distinct candidates from which a search goes on: the default, the fastest trials, and at least half of them at random."""
    known = [space.default, *fastest(space, trials)]
    drawn = (space.sample(random) for _ in range(2 * count))
    return list(dict.fromkeys([*known[: (count + 1) // 2], *drawn]))[:count]


def mixed(untried: Untried, ranked: Sequence[str], count: int, share: float, random: Random) -> list[str]:
    """The first of `ranked`, and behind them a share of random candidates, on average: epsilon-greedy exploration.

    If there are too few of `ranked`, more are random.
    """
    found = untried.take(ranked, count - int(share * count + random.random()))
    return found + untried.sample(random, count - len(found))
