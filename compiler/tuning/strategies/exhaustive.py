"""The strategy `exhaustive`: all candidates, in order."""

import sys
from collections.abc import Sequence
from itertools import islice
from random import Random

from stepwell.tuning.proposals import Untried
from stepwell.tuning.spaces import Score, Space, Trial, register_strategy


@register_strategy("exhaustive")
class Exhaustive:
    """All candidates in the order of `Space.every`, the default first, without a model: plain enumeration, for spaces of a few hundred.

    It goes on behind what was tried. Of a space that is too large to list, it proposes what `every` yields, and no more.
    """

    def propose(self, space: Space, trials: Sequence[Trial], score: Score, count: int, effort: int, random: Random) -> list[str]:
        """See `Strategy.propose`. Nothing is scored."""
        return Untried(space, trials).take(islice(space.every(), min(space.size(), sys.maxsize)), count)
