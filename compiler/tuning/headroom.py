"""An estimate of how much a site can still gain, and for what effort: tuning takes the sites in this order.

For a site with the share s of the network's time, whose best untried candidates have predicted log ratios p to the incumbent (below 0 is faster):

    gain(n)  = (trust · max over p of chance(p) · (1 - exp(p))  +  UNSEEN) / (1 + n / HALVED)       as a fraction of the site's time
    trust    = (PRIOR · PRIOR_TRUST + Σ realised) / (PRIOR + Σ promised)                            over the tried candidates predicted to be faster
    worth(k) = s · (gain(n) - gain(n + k)) / (k · seconds per candidate)                            fraction of the network's time per second

n candidates were tried; `promised` is how much faster a tried candidate was predicted to be, `realised` how much of that came true (0 for a failure).
chance(p) is the learned model's probability that the candidate is among the fastest tenth, 1 without such a model: then `trust` alone shrinks p. A
site without untried candidates gains nothing.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

PRIOR = 0.2
"""The predicted gain (a sum of log ratios, such as of four candidates by 5 %) whose outcome counts as much as what is assumed before any."""
PRIOR_TRUST = 0.5
"""The share of a predicted gain that is assumed to come true before anything was tried at a site."""
UNSEEN = 0.02
"""The fraction of a site's time that is assumed to be gained where no model predicts a gain. In a trial with the eight heaviest kernels of networks,
the best of 31 random schedules was 2 % faster than the default in the mean, although the default is near the model's optimum."""
HALVED = 32
"""The number of tried candidates after which the remaining gain is half of that at the beginning: a round of building."""
BATCH = 32
"""The number of candidates of a site that are tried before sites are compared again."""
MOST_BATCHES = 10_000
"""The largest number of batches that a forecast looks ahead."""


@dataclass(frozen=True)
class Prospect:
    """One of the best untried candidates of a site."""

    log_ratio: float
    """The predicted logarithm of its time relative to the incumbent's."""
    chance: float = 1.0
    """The learned probability that it is among the fastest tenth of its workload; 1 without a learned model."""


@dataclass(frozen=True)
class Attempt:
    """A tried candidate: prediction and outcome, both as logarithms of the time relative to that of the same other candidate, such as the default."""

    predicted: float | None
    """None without a prediction."""
    measured: float | None
    """None if it failed."""


@dataclass(frozen=True)
class SiteState:
    """The facts about a site from which its headroom is estimated."""

    name: str
    share: float
    """The fraction of the network's time that its incumbent takes, 0 to 1."""
    prospects: tuple[Prospect, ...]
    """The best untried candidates; empty if none is left."""
    attempts: tuple[Attempt, ...] = ()
    seconds: float = 1.0
    """The time that it takes to build and measure one candidate."""


def trust(site: SiteState) -> float:
    """The share of a predicted gain that is expected to come true at a site, 0 to 1, by what came true so far."""
    promised, realised = PRIOR, PRIOR * PRIOR_TRUST
    for attempt in site.attempts:
        if attempt.predicted is not None and attempt.predicted < 0:
            promised -= attempt.predicted
            realised += min(-attempt.predicted, max(0.0, 0.0 if attempt.measured is None else -attempt.measured))
    return realised / promised


def headroom(site: SiteState, more: int = 0) -> float:
    """The fraction of the site's time that it can still gain, after `more` further candidates: `gain` above."""
    if not site.prospects:
        return 0.0
    predicted = max(one.chance * (1 - exp(min(0.0, one.log_ratio))) for one in site.prospects)
    return (trust(site) * predicted + UNSEEN) / (1 + (len(site.attempts) + more) / HALVED)


def worth(site: SiteState, batch: int = BATCH) -> float:
    """The fraction of the network's time that the next `batch` candidates are expected to gain, per second spent."""
    return site.share * (headroom(site) - headroom(site, batch)) / (batch * max(site.seconds, 1e-6))


def in_order(sites: Sequence[SiteState], batch: int = BATCH) -> list[SiteState]:
    """The sites that can gain something, the one that is worth most first; among equals, in their order."""
    return sorted((site for site in sites if worth(site, batch) > 0), key=lambda site: -worth(site, batch))


def expected_gain(sites: Sequence[SiteState], seconds: float, batch: int = BATCH) -> float:
    """The fraction of the network's time that is expected to be gained in so many more seconds.

    Batch by batch, the site that is worth most at that point is taken. A site whose next batch no longer fits is left out.
    """
    waiting = [(-worth(site, batch), place, 0) for place, site in enumerate(sites) if worth(site, batch) > 0]
    heapq.heapify(waiting)
    gained, left = 0.0, seconds
    for _ in range(MOST_BATCHES):
        if not waiting:
            break
        _, place, done = heapq.heappop(waiting)
        site = sites[place]
        cost = batch * max(site.seconds, 1e-6)
        if cost > left:
            continue
        left -= cost
        gained += site.share * (headroom(site, done) - headroom(site, done + batch))
        again = site.share * (headroom(site, done + batch) - headroom(site, done + 2 * batch)) / cost
        heapq.heappush(waiting, (-again, place, done + batch))
    return gained
