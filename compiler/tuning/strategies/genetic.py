"""The strategy `genetic`: evolution of a population by crossing and mutation, on the score."""

from collections.abc import Sequence
from random import Random

from stepwell.tuning.proposals import Scores, Untried, mixed, starts
from stepwell.tuning.spaces import Score, Space, Trial, register_strategy

POPULATION = 64
"""The largest number of candidates in a generation."""
GENERATIONS = 8
"""The number of generations that the effort suffices for at least: with less effort the population is smaller."""
ROUNDS = 4
"""Generations relative to those that the effort suffices for: a child that has a score already costs no effort."""
KEPT = 0.25
"""The share of a generation, the best ones, that stays in the next."""
CROSSED = 0.5
"""The chance that a child has two parents."""
MUTATED = 0.85
"""The chance that a child is changed in one knob, as in Ansor."""
AT_RANDOM = 0.05
"""The share of random candidates among those proposed, as in Ansor."""


@register_strategy("genetic")
class Genetic:
    """Evolutionary search on the score, then the best of all candidates that it met, with 5 % of random ones behind them.

    After Ansor (L. Zheng et al., "Ansor: Generating High-Performance Tensor Programs for Deep Learning", OSDI 2020). Parents are drawn by their
    rank (J. E. Baker, "Adaptive Selection Methods for Genetic Algorithms", 1985) rather than by their score, which may have any unit and sign.
    """

    def propose(self, space: Space, trials: Sequence[Trial], score: Score, count: int, effort: int, random: Random) -> list[str]:
        """See `Strategy.propose`."""
        scores = Scores(score, effort)
        size = max(2, min(POPULATION, effort // GENERATIONS))
        evolve(space, starts(space, trials, size, random), size, scores, random)
        return mixed(Untried(space, trials), scores.best(), count, AT_RANDOM, random)


def evolve(space: Space, population: list[str], size: int, scores: Scores, random: Random) -> None:
    """Let generations of `size` candidates follow each other until the effort is spent. The result is in `scores`."""
    scores.add(population)
    for _ in range(ROUNDS * (scores.left // size + 1)):
        if scores.left == 0:
            break
        ranked = sorted((text for text in population if text in scores.known), key=scores.known.__getitem__, reverse=True)[:size]
        weights = range(len(ranked), 0, -1)
        kept = ranked[: max(1, int(KEPT * size))]
        children = [child(space, random.choices(ranked, weights, k=2), random) for _ in range(size - len(kept))]
        scores.add(children)
        population = list(dict.fromkeys([*kept, *children]))


def child(space: Space, parents: Sequence[str], random: Random) -> str:
    """A candidate from two parents, or from the first alone."""
    one, other = parents
    if random.random() < MUTATED:
        one = space.move(one, random)
    return space.cross(one, other, random) if random.random() < CROSSED else one
