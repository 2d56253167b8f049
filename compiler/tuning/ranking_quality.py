"""How well predictions order the candidates of a network from which nothing was learned: rank correlation and regret, analytic and learned."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, inf

import numpy as np
from numpy.typing import NDArray

from stepwell.tuning.outcomes import Record, Tried, tried
from stepwell.tuning.ranking import Ranking, scores, train_on

BEST = 8
"""The number of candidates whose regret is looked at: a quarter of those that are built in a round."""
FEWEST_RANKED = 5
"""The fewest measured candidates of a workload for a rank correlation: with fewer, chance alone often reaches one."""


@dataclass(frozen=True)
class Quality:
    """How well scores order candidates."""

    correlation: float | None
    """Spearman's rank correlation with the speed, the mean over workloads with enough measured candidates; None if there is none."""
    regret: float | None
    """The time of the best of the first `BEST` by score, or of the default if that is faster, relative to the fastest of all; at least 1.

    It is the geometric mean over workloads with more candidates than `BEST`; None if there is none.
    """
    precision: float | None
    """The share of fast ones among as many candidates as are fast, those with the largest scores: the base rate is a tenth. None if none is fast."""


@dataclass(frozen=True)
class HeldOut:
    """The quality of predictions for one kind of choice in one network, none of whose workloads was learned from."""

    network: str
    kind: str
    workloads: int
    candidates: int
    """The number of candidates with an outcome."""
    analytic: Quality
    learned: Quality | None
    """None if the other networks have too few records to learn from."""


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Spearman's rank correlation of two sequences of equal length; ties have their mean rank. None if one has no two different values."""
    if len(set(one)) < 2 or len(set(other)) < 2:
        return None
    return float(np.corrcoef(_ranks(one), _ranks(other))[0, 1])


def regret_of_best(scored: Sequence[float], log_times: Sequence[float | None], k: int, default: float = inf) -> float | None:
    """The time of the fastest of the `k` candidates with the largest scores, relative to the fastest of all: at least 1.

    `log_times` are logarithms, None for a candidate that failed: it takes one of the `k` places. `default`, the logarithm of the default's time,
    competes without a place, as it does in a tuning. Infinite if all fail; None if no candidate has a time.
    """
    times = [inf if time is None else time for time in log_times]
    best = sorted(range(len(times)), key=lambda place: -scored[place])[:k]
    fastest = min([*times, default])
    return None if fastest == inf else exp(min([default, *(times[place] for place in best)]) - fastest)


def held_out(records: Iterable[Record], *, best: int = BEST, seed: int = 0) -> list[HeldOut]:
    """For each network and kind, the quality of the analytic predictions, and of trees learned from all other networks.

    A workload that the network shares with another one is not learned from either: its outcomes would be known. Raises InputError without lightgbm.
    """
    workloads = tried(records)
    found = []
    for network in sorted({name for one in workloads for name in one.networks}):
        ours = [one for one in workloads if network in one.networks]
        learned = train_on([one for one in workloads if network not in one.networks], seed=seed, demanded=True)
        for kind in sorted({one.workload.kind for one in ours}):
            theirs = [one for one in ours if one.workload.kind == kind]
            found.append(
                HeldOut(
                    network, kind, len(theirs), sum(len(one.outcomes) for one in theirs), quality(Ranking(), theirs, best),
                    quality(learned, theirs, best) if kind in learned.learned else None,
                )
            )  # fmt: skip
    return found


def quality(ranking: Ranking, workloads: Sequence[Tried], best: int = BEST) -> Quality:
    """How well the scores of a ranking order the candidates of each workload."""
    correlations, regrets, hits, fast_ones = [], [], 0, 0
    for one in workloads:
        scored, times, fast = scores(ranking, one), [outcome.log_time for outcome in one.outcomes], one.fast()
        measured = [(score, -time) for score, time in zip(scored, times, strict=True) if time is not None]
        if len(measured) >= FEWEST_RANKED and len({time for _, time in measured}) > 1:
            correlations.append(rank_correlation(*zip(*measured, strict=True)) or 0.0)  # equal scores say nothing about the order
        if len(times) > best and (regret := regret_of_best(scored, times, best, inf if one.default is None else 0.0)) is not None:
            regrets.append(regret)
        order = sorted(range(len(times)), key=lambda place: -scored[place])
        hits += sum(fast[place] for place in order[: sum(fast)])
        fast_ones += sum(fast)
    return Quality(
        sum(correlations) / len(correlations) if correlations else None, exp(float(np.mean(np.log(regrets)))) if regrets else None,
        hits / fast_ones if fast_ones else None,
    )  # fmt: skip


def _ranks(values: Sequence[float]) -> NDArray[np.float64]:
    """The rank of each value; equal ones share the mean of their ranks."""
    _, places, counts = np.unique(np.asarray(values, np.float64), return_inverse=True, return_counts=True)
    ranks: NDArray[np.float64] = (np.cumsum(counts) - (counts - 1) / 2)[places]
    return ranks
