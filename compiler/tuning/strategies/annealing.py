"""The strategy `annealing`: simulated annealing of many chains on the score."""

from collections.abc import Sequence
from math import exp, inf
from random import Random

from stepwell.tuning.proposals import Scores, Untried, mixed, starts
from stepwell.tuning.spaces import Score, Space, Trial, register_strategy

CHAINS = 16
"""The largest number of chains."""
TRIES = 4
"""The number of neighbours that a step looks at. To list the neighbours of a candidate costs as much as to score them, so one would be a waste."""
SHORTEST = 8
"""The number of steps that a chain gets at least: with less effort there are fewer chains."""
ROUNDS = 4
"""Rounds relative to those that the effort suffices for: a step to a candidate that has a score already costs no effort."""
AT_RANDOM = 0.15
"""The share of random candidates among those proposed."""


@register_strategy("annealing")
class Annealing:
    """Simulated annealing on the score, then the best of all candidates that it met, with 15 % of random ones behind them.

    The strategy of AutoTVM (T. Chen et al., "Learning to Optimize Tensor Programs", NeurIPS 2018). The chains start from the default, the fastest
    trials and random candidates. A step goes to the best of a few random neighbours. The temperature begins with the spread of the scores at the
    start, so that scores of any unit will do, and falls linearly to zero.
    """

    def propose(self, space: Space, trials: Sequence[Trial], score: Score, count: int, effort: int, random: Random) -> list[str]:
        """See `Strategy.propose`."""
        scores = Scores(score, effort)
        anneal(space, starts(space, trials, max(1, min(CHAINS, effort // (TRIES * SHORTEST))), random), scores, random)
        return mixed(Untried(space, trials), scores.best(), count, AT_RANDOM, random)


def anneal(space: Space, chains: list[str], scores: Scores, random: Random) -> None:
    """Walk from each of `chains` to larger scores, and sometimes to smaller ones, until the effort is spent. The result is in `scores`."""
    scores.add(chains)
    chains = [text for text in chains if text in scores.known]
    hottest = spread([scores.known[text] for text in chains])
    for _ in range(ROUNDS * (scores.left // (TRIES * len(chains)) + 1)):
        if scores.left == 0:
            break
        steps = [[space.move(text, random) for _ in range(TRIES)] for text in chains]
        scores.add(text for step in steps for text in step)
        temperature = hottest * scores.left_share
        for chain, step in enumerate(steps):
            new = max((text for text in step if text in scores.known), key=scores.known.__getitem__, default=chains[chain])
            if accepts(scores.known[chains[chain]], scores.known[new], temperature, random):
                chains[chain] = new


def accepts(old: float, new: float, temperature: float, random: Random) -> bool:
    """The criterion of Metropolis et al. (1953): always to a score that is not smaller, else with a chance that falls with the loss."""
    return new >= old or (temperature > 0 and random.random() < exp((new - old) / temperature))


def spread(scores: Sequence[float]) -> float:
    """The distance between the quartiles of the finite scores: a few very bad candidates do not change it."""
    finite = sorted(score for score in scores if abs(score) < inf)
    return finite[3 * (len(finite) - 1) // 4] - finite[(len(finite) - 1) // 4] if finite else 0.0
