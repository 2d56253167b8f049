"""The story of a finished run, from the records of the database."""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from stepwell.database.records import Candidate, Decision, Phase, Provenance, Run, Samples, State, Workload, WorkloadInfo
from stepwell.dialects.sched.plan_file import Plan
from stepwell.tuning.story import Attempt, Milestone, Outcome, Ratio, SelfTest, Site, Story, StoryFault

FAULTS = (State.CRASHED, State.TIMED_OUT, State.DIFFERS)
"""The states that are faults of the compiler; a candidate that is refused or cannot be compiled is part of a normal search."""
Estimate = Callable[[Sequence[float]], Ratio]
"""Computes a ratio and its interval from the log ratios of blocks, of which there is at least one."""


@dataclass(frozen=True)
class SiteRecords:
    """The records of one site of a run."""

    workload: Workload
    info: WorkloadInfo
    candidates: Sequence[Candidate]
    """In the order in which they were tried, the default among them."""
    samples: Sequence[Samples] = ()
    """In the order in which they were taken."""
    decision: Decision | None = None
    site: str = ""
    """The site's name in plan files; `info.name` if it is empty."""
    default: str = ""
    """The default's text; if it is empty, that of the decision or of the candidate whose strategy is `default`."""
    share: float | None = None
    """Its share of the time of the untuned network, from 0 to 1; None if it is unknown."""
    space: int | None = None
    at: Mapping[str, float] = field(default_factory=dict)
    """Seconds from the beginning of the run until a candidate's result, by its text."""

    @property
    def name(self) -> str:
        """The site."""
        return self.site or self.info.name

    @property
    def default_text(self) -> str:
        """The default's text; empty if no record names it."""
        named = (candidate.text for candidate in self.candidates if candidate.strategy == "default")
        return self.default or (self.decision.default if self.decision is not None else "") or next(named, "")


def mean_ratio(log_ratios: Sequence[float]) -> Ratio:
    """The geometric mean of ratios and its interval by Student's t distribution (Student, The probable error of a mean, 1908).

    The interval of a single ratio is unknown.
    """
    mean = statistics.fmean(log_ratios)
    if len(log_ratios) < 2:
        return Ratio(math.exp(mean))
    from scipy.special import stdtrit  # imported here, because few commands need it

    error = float(stdtrit(len(log_ratios) - 1, 0.975)) * statistics.stdev(log_ratios) / math.sqrt(len(log_ratios))
    return Ratio(math.exp(mean), math.exp(mean - error), math.exp(mean + error))


def story_from_records(
    run: Run,
    provenance: Provenance,
    records: Sequence[SiteRecords],
    *,
    identifier: str = "",
    command: str = "",
    untuned: float | None = None,
    estimate: Estimate = mean_ratio,
) -> Story:
    """The story of a run that the database holds. `untuned` is the seconds of one run of the untuned network.

    Shares of time that a site does not state follow from the median time of its default, if `untuned` is known.
    """
    told = [_SiteTeller(site, untuned, estimate) for site in records]
    attempts = sorted((entry for teller in told for entry in teller.attempts()), key=lambda attempt: math.inf if attempt.at is None else attempt.at)
    sites = [teller.site() for teller in told]
    # On one thread CPU time decides, and no block is lost.
    discarded = sum(samples.discarded for site in records for samples in site.samples) if run.threads > 1 else 0
    notes = [f"{discarded} blocks of measurements were thrown away, because other processes took cores."] if discarded else []
    return Story(
        run, provenance, identifier, command, untuned, sites, attempts, _milestones(run, sites, attempts),
        [test for teller in told for test in teller.self_tests()], [fault for teller in told for fault in teller.faults()], notes,
    )  # fmt: skip


class _SiteTeller:
    """Derives the parts of a story from the records of one site."""

    def __init__(self, records: SiteRecords, untuned: float | None, estimate: Estimate) -> None:
        self.records, self.estimate = records, estimate
        self.default = records.default_text
        times = [samples.seconds for samples in records.samples if samples.text == self.default]
        self.seconds = statistics.median(times) if times else None
        """The default's, in one run of the network."""
        self.share = records.share
        if self.share is None and untuned and self.seconds is not None:
            self.share = self.seconds / untuned
        if self.seconds is None and untuned and self.share is not None:
            self.seconds = untuned * self.share
        self.found = self._relative_times()

    def _relative_times(self) -> dict[str, Ratio]:
        """The time of each measured candidate relative to the default's.

        A candidate is measured against the best one of its time, whose own relative time is known by then. Later samples replace earlier ones.
        """
        found = {self.default: Ratio(1.0, 1.0, 1.0)}
        for samples in self.records.samples:
            base = found.get(samples.against)
            if samples.phase == Phase.SEARCH and samples.text != samples.against and samples.log_ratios and base is not None:
                relative = self.estimate(samples.log_ratios)
                found[samples.text] = Ratio(base.value * relative.value, base.value * relative.low, base.value * relative.high)
        return found

    def attempts(self) -> Iterator[Attempt]:
        """The candidates other than the default."""
        records = self.records
        predictions = {candidate.text: candidate.predicted for candidate in records.candidates}
        base = predictions.get(self.default)
        for candidate in records.candidates:
            if candidate.text != self.default:
                predicted = candidate.predicted / base if candidate.predicted is not None and base else None
                yield Attempt(
                    records.workload.kind, records.name, candidate.text, candidate.strategy, candidate.state.value, candidate.message,
                    records.at.get(candidate.text), predicted, self.found.get(candidate.text),
                )  # fmt: skip

    def self_tests(self) -> Iterator[SelfTest]:
        """The measurements of the A/A arm."""
        for samples in self.records.samples:
            if samples.text == samples.against and samples.log_ratios:
                yield SelfTest(self.records.workload.kind, self.records.name, samples.phase.value, self.estimate(samples.log_ratios))

    def faults(self) -> Iterator[StoryFault]:
        """The candidates that show a fault of the compiler, each with a plan that selects it."""
        kind, name = self.records.workload.kind, self.records.name
        for candidate in self.records.candidates:
            if candidate.state in FAULTS:
                plan = Plan({}, choices={kind: {name: candidate.text}}).text
                yield StoryFault(kind, name, candidate.text, candidate.state.value, candidate.message, plan)

    def site(self) -> Site:
        """The site with its outcome."""
        records, decision = self.records, self.records.decision
        tried = sum(candidate.text != self.default for candidate in records.candidates)
        outcome, chosen, best, saved = Outcome.KEPT if tried else Outcome.UNTRIED, "", None, None
        fastest = min((text for text in self.found if text != self.default), key=lambda text: self.found[text].value, default=None)
        if decision is not None and decision.text != self.default:
            outcome, chosen, best = Outcome.CONFIRMED, decision.text, Ratio(decision.ratio, decision.low, decision.high)
            saved = None if self.seconds is None else self.seconds * (1 - decision.ratio)
        elif fastest is not None:
            chosen, best = fastest, self.found[fastest]
        confirmations = [s for s in records.samples if s.phase == Phase.CONFIRM and s.text not in (s.against, self.default) and s.log_ratios]
        if outcome != Outcome.CONFIRMED and confirmations:
            last = confirmations[-1]
            outcome, chosen, best = Outcome.ROLLED_BACK, last.text, self.estimate(last.log_ratios)
        kind, nodes = records.workload.kind, tuple(records.info.nodes)
        return Site(kind, records.name, self.default, outcome, nodes, self.share, records.space, tried, best, chosen, saved)


def _milestones(run: Run, sites: Sequence[Site], attempts: Sequence[Attempt]) -> list[Milestone]:
    """The estimated time of the network after each candidate that improved it, then the confirmed one.

    A candidate counts as an improvement if its whole interval lies below the best relative time of its site. Sites whose share of time is unknown
    add nothing.
    """
    shares = {(site.kind, site.name): site.share or 0.0 for site in sites}
    best: dict[tuple[str, str], float] = {}
    ratio, found = 1.0, [Milestone(Ratio(1.0), 0, 0.0)]
    for count, attempt in enumerate(attempts, 1):
        key, measured = (attempt.kind, attempt.site), attempt.measured
        if measured is not None and measured.high < best.get(key, 1.0):
            ratio -= shares[key] * (best.get(key, 1.0) - measured.value)
            best[key] = measured.value
            found.append(Milestone(Ratio(ratio), count, attempt.at))
    confirmed = [site for site in sites if site.outcome == Outcome.CONFIRMED]
    if confirmed:
        saved = sum((site.share or 0.0) * (1 - site.best.value) for site in confirmed if site.best is not None)
        found.append(Milestone(Ratio(1 - saved), len(attempts), run.spent or None, confirmed=True))
    return found
