"""The outcomes of tried candidates, from records: their times relative to the default's, and which are among the fastest tenth."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from stepwell.database.records import Candidate, Phase, Samples, State, Workload, WorkloadInfo

Record = tuple[Workload, WorkloadInfo, Candidate, Sequence[Samples], str]
"""A candidate of a workload with its samples, and the name of the network in which they were taken."""

FAST = 0.1
"""The share of a workload's candidates, the fastest ones, that are worth building."""
FAILURES = (State.FAILED, State.CRASHED, State.TIMED_OUT, State.DIFFERS)
"""The states of candidates that were tried and have no time. They are not fast."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a candidate that was tried."""

    candidate: Candidate
    log_time: float | None
    """The logarithm of its time relative to the default's; None if it failed."""


@dataclass(frozen=True)
class Tried:
    """A workload with the outcomes of its candidates, ordered by their texts."""

    workload: Workload
    info: WorkloadInfo
    networks: frozenset[str]
    """The networks in which it was measured: equal workloads share their records."""
    default: Candidate | None
    outcomes: tuple[Outcome, ...]

    def fast(self) -> list[bool]:
        """For each outcome, whether it is in the fastest tenth of all that were tried, failures included; one at least is, if any has a time."""
        times = sorted(outcome.log_time for outcome in self.outcomes if outcome.log_time is not None)
        if not times:
            return [False] * len(self.outcomes)
        limit = times[min(len(times), max(1, round(FAST * len(self.outcomes)))) - 1]
        return [outcome.log_time is not None and outcome.log_time <= limit for outcome in self.outcomes]


@dataclass
class _Found:
    """The records of a workload that were read so far."""

    info: WorkloadInfo
    networks: set[str] = field(default_factory=set)
    candidates: dict[str, Candidate] = field(default_factory=dict)
    samples: dict[Samples, None] = field(default_factory=dict)


def tried(records: Iterable[Record]) -> list[Tried]:
    """The workloads with two or more candidates whose outcome is known, in an order that does not depend on that of the records."""
    found: dict[Workload, _Found] = {}
    for workload, info, candidate, samples, network in records:
        entry = found.setdefault(workload, _Found(info))
        entry.networks.add(network)
        entry.candidates[candidate.text] = candidate
        entry.samples.update(dict.fromkeys(samples))
    made = [_tried(workload, found[workload]) for workload in sorted(found, key=lambda w: (w.kind, w.content, w.above, w.target, w.threads))]
    return [one for one in made if len(one.outcomes) > 1]


def _tried(workload: Workload, found: _Found) -> Tried:
    """The outcomes of one workload. A candidate with the code of another one has its time; refused and unmeasured ones have no outcome."""
    candidates = [found.candidates[text] for text in sorted(found.candidates)]
    default = next((one for one in candidates if one.strategy == "default"), None)
    times = log_times(list(found.samples), None if default is None else default.text)
    by_code = {one.code: times[one.text] for one in candidates if one.text in times and one.code}
    outcomes = []
    for one in candidates:
        if one.state in FAILURES:
            outcomes.append(Outcome(one, None))
        elif one.text in times or (one.state == State.SAME_CODE and one.code in by_code):
            outcomes.append(Outcome(one, times[one.text] if one.text in times else by_code[one.code]))
    return Tried(workload, found.info, frozenset(found.networks), default, tuple(outcomes))


def log_times(samples: Iterable[Samples], default: str | None) -> dict[str, float]:
    """The logarithm of the time of each candidate relative to the default's, from comparisons of pairs.

    Candidates were compared with the best one of their time, which changed. These are the numbers whose differences fit the median log ratios of
    the pairs best, by weighted least squares; the weight of a pair is its number of blocks (HodgeRank: X. Jiang et al., "Statistical Ranking and
    Combinatorial Hodge Theory", 2011). Candidates that no chain of comparisons joins to the default are left out. Without a default, the candidate
    that most others were compared with has its place. Samples of whole networks do not count.
    """
    pairs = sorted(
        (one.text, one.against, float(np.median(one.log_ratios)), len(one.log_ratios)) for one in samples
        if one.phase != Phase.WHOLE and one.log_ratios and one.text != one.against
    )  # fmt: skip
    beside: dict[str, set[str]] = defaultdict(set)
    for text, against, _, _ in pairs:
        beside[text].add(against)
        beside[against].add(text)
    origin = default if default is not None else max(sorted(beside), key=lambda text: len(beside[text]), default=None)
    if origin is None:
        return {}
    joined = _joined(origin, beside)
    places = {text: place for place, text in enumerate(joined)}
    laplacian, flow = np.zeros((len(joined), len(joined))), np.zeros(len(joined))
    for text, against, ratio, weight in (pair for pair in pairs if pair[0] in places):
        i, j = places[text], places[against]
        laplacian[[i, j], [i, j]] += weight
        laplacian[[i, j], [j, i]] -= weight
        flow[i] += weight * ratio
        flow[j] -= weight * ratio
    solved = np.linalg.solve(laplacian[1:, 1:], flow[1:]) if len(joined) > 1 else np.zeros(0)
    return {origin: 0.0, **dict(zip(joined[1:], map(float, solved), strict=True))}


def _joined(origin: str, beside: Mapping[str, set[str]]) -> list[str]:
    """The candidates that chains of comparisons lead to, `origin` first."""
    found = [origin]
    seen = {origin}
    for text in found:
        new = sorted(beside.get(text, set()) - seen)
        seen.update(new)
        found += new
    return found
