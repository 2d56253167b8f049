"""The strategy `random`: uniform sampling, against which the others are judged."""

from collections.abc import Sequence
from random import Random

from stepwell.tuning.proposals import Untried
from stepwell.tuning.spaces import Score, Space, Trial, register_strategy


@register_strategy("random")
class Uniform:
    """Random candidates, without a model.

    In large spaces it is hard to beat with few trials (J. Bergstra and Y. Bengio, "Random Search for Hyper-Parameter Optimization", JMLR 2012).
    """

    def propose(self, space: Space, trials: Sequence[Trial], score: Score, count: int, effort: int, random: Random) -> list[str]:
        """See `Strategy.propose`. Nothing is scored."""
        return Untried(space, trials).sample(random, count)
