"""The strategy `droplet`: coordinate descent on measured times, also the last stage behind other strategies."""

from collections.abc import Mapping, Sequence
from itertools import takewhile
from random import Random

from stepwell.tuning.proposals import Scores, Untried, fastest
from stepwell.tuning.spaces import Score, Space, Trial, register_strategy


@register_strategy("droplet")
class Droplet:
    """Coordinate descent from the fastest trial; it is over where no step in any knob is faster.

    After M. Canesche et al., "The Droplet Search Algorithm for Kernel Scheduling", ACM TACO 2024: times change smoothly along a knob near good
    schedules, so that the search only looks at neighbours, and does not look past one that is slower. Beside each neighbour, it proposes the one in
    the middle of the rest of its line, so that an optimum that is far away costs few rounds.
    """

    def propose(self, space: Space, trials: Sequence[Trial], score: Score, count: int, effort: int, random: Random) -> list[str]:
        """See `Strategy.propose`."""
        return descend(space, trials, score, count, effort)


def descend(space: Space, trials: Sequence[Trial], score: Score, count: int, effort: int) -> list[str]:
    """At most `count` candidates around the fastest trial, or around the default if nothing was measured: the nearest first, then by score.

    Call it again after each measurement, until it returns none. It uses no random numbers.
    """
    times = {trial.text: trial.log_ratio for trial in trials}
    best = next(iter(fastest(space, trials)), space.default)
    steps: dict[str, int] = {} if best in times else {best: 0}  # the smaller, the sooner
    for line in space.lines(best).values():
        place = line.index(best)
        for side in (line[:place][::-1], line[place + 1 :]):
            for step, text in enumerate(ahead(side, times, times.get(best)), start=1):
                steps[text] = min(step, steps.get(text, step))
    scores = Scores(score, effort)
    scores.add(sorted(steps, key=steps.__getitem__))
    nearest = sorted(scores.known, key=lambda text: (steps[text], -scores.known[text]))
    return Untried(space, trials).take(nearest, count)


def ahead(side: Sequence[str], times: Mapping[str, float | None], best: float | None) -> list[str]:
    """The candidates to try in one direction: the next one, and, in case that it is faster, the middle one of those that may be faster still.

    These are all up to the first one that was measured to be slower. Failed and equal ones are passed over.
    """
    slower = (text for text in side if (time := times.get(text)) is not None and (best is None or time > best))
    end = next(slower, None)
    new = [text for text in takewhile(lambda text: text != end, side) if text not in times]
    return list(dict.fromkeys([*new[:1], *new[len(new) // 2 :][:1]]))
