"""One round of the search: candidates are proposed at some sites, built, compared bit by bit with the default, and race in the network."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from stepwell.database.records import Candidate, Samples, State
from stepwell.tuning.compete import Competition, Outcome, Pace, compete
from stepwell.tuning.device import Arm, Built, Contest, Device, Fault
from stepwell.tuning.race import Rules
from stepwell.tuning.spaces import Trial
from stepwell.tuning.state import DEFAULT_CODE, PartState, SiteState
from stepwell.tuning.subject import Subject, TunedSite, site_key


@dataclass
class Proposal:
    """A candidate of one site that is to be tried."""

    part: PartState
    site: SiteState
    text: str
    strategy: str
    predicted: float | None = None
    """The predicted logarithm of its time relative to the default's."""
    state: State = State.BUILT
    message: str = ""
    built: Built | None = None

    @property
    def texts(self) -> dict[str, str]:
        """The candidates of its part: those of the incumbent but for its own site."""
        return {**self.part.texts, site_key(self.site.site): self.text}

    def fail(self, fault: Fault) -> None:
        """Record why it is out of the race."""
        self.state, self.message = fault.state, fault.message

    def record(self) -> Candidate:
        """The record of the candidate."""
        code = "" if self.built is None else self.built.digest
        seconds = 0.0 if self.built is None else self.built.seconds
        return candidate(self.site.site, self.text, self.strategy, self.state, self.message, code, seconds)


@dataclass(frozen=True)
class Raced:
    """The result of a round for one part."""

    part: PartState
    proposals: Sequence[Proposal]
    """The candidates that raced, in the order of the arms from the third on."""
    outcome: Outcome

    def samples(self) -> dict[str, list[Samples]]:
        """The samples by the key of the site: those of its candidates, against the incumbent's candidate there; those of the twin at the first."""
        found: dict[str, list[Samples]] = {}
        by_name = {proposal_name(proposal): proposal for proposal in self.proposals}
        for samples in self.outcome.samples:
            proposal = by_name.get(samples.text)
            site = proposal.site if proposal is not None else next(iter(self.part.sites.values()))
            incumbent = self.part.texts.get(site_key(site.site), site.site.space.default)
            text = incumbent if proposal is None else proposal.text
            found.setdefault(site_key(site.site), []).append(
                Samples(text, incumbent, samples.phase, samples.log_ratios, samples.seconds, samples.clock, samples.discarded)
            )
        return found


def candidate(
    site: TunedSite, text: str, strategy: str, state: State = State.BUILT, message: str = "", code: str = "", seconds: float = 0.0
) -> Candidate:
    """The record of a candidate of a site."""
    [predicted] = site.space.predict([text])
    return Candidate(text, strategy, state, message, predicted, site.space.features(text), code, seconds)


def proposal_name(proposal: Proposal) -> str:
    """The text of its arm: unique in its part."""
    return f"{site_key(proposal.site.site)}={proposal.text}"


@dataclass(frozen=True)
class Limits:
    """The limits of a round."""

    deadline: float
    """A time of the tuner's clock, in seconds."""
    build: float = 120.0
    """Seconds for one build."""
    check: float = 120.0
    """Seconds for one comparison of bits."""
    processes: int | None = None
    """The largest number of measurements; None for as many as the time allows."""


def build(subject: Subject, device: Device, proposals: Sequence[Proposal], limits: Limits) -> None:
    """Build candidates. Those with the code of another one of their part are marked, and need not be measured."""
    requests = [subject.request(proposal.part.part.name, proposal.texts) for proposal in proposals]
    for proposal, result in zip(proposals, device.build(requests, limits.build), strict=True):
        if isinstance(result, Fault):
            proposal.fail(result)
            continue
        proposal.built = result
        known = proposal.part.code
        if result.digest in known:
            proposal.state, proposal.message = State.SAME_CODE, known[result.digest]
        else:
            known[result.digest] = proposal_name(proposal)


def check(device: Device, proposals: Sequence[Proposal], limits: Limits) -> None:
    """Run each candidate once, and compare its results with the default's, bit by bit."""
    by_part = _by_part(proposals)
    contests = [_contest(part, part.default, own) for part, own in by_part]
    found = device.check(contests, limits.check) if contests else {}
    for part, own in by_part:
        faults = found[part.part.name]
        for proposal, fault in zip(own, faults[2:], strict=True):
            if fault is not None:
                proposal.fail(fault)


def race(
    device: Device, proposals: Sequence[Proposal], limits: Limits, *, random: Random, threads: int, pace: Pace, rules: Rules,
    clock: Callable[[], float], on_progress: Callable[[Competition], None],
) -> list[Raced]:  # fmt: skip
    """Let the candidates of each part race with its incumbent."""
    by_part = _by_part(proposals)
    contests = [_contest(part, part.best, own) for part, own in by_part]
    outcomes = compete(
        device, contests, deadline=limits.deadline, random=random, threads=threads, rules=rules, pace=pace, most=limits.processes,
        on_progress=on_progress, clock=clock,
    )  # fmt: skip
    found = []
    for part, own in by_part:
        outcome = outcomes[part.part.name]
        for arm, fault in outcome.faults.items():
            own[arm - 2].fail(fault)
        if outcome.failed is not None:
            part.is_broken = True
        found.append(Raced(part, own, outcome))
    return found


def learn(raced: Raced) -> None:
    """Add the results of a race to what is known of its sites, and make the winner the incumbent."""
    part, outcome = raced.part, raced.outcome
    before = part.log_ratio
    for arm, proposal in enumerate(raced.proposals, 2):
        estimate = outcome.estimates[arm]
        failed = proposal.state is not State.BUILT or estimate is None
        measured = None if failed or estimate is None else before + math.log(estimate.value)
        proposal.site.add(Trial(proposal.text, measured), proposal.predicted)
    best = outcome.estimates[outcome.best]
    if outcome.best >= 2 and best is not None:
        winner = raced.proposals[outcome.best - 2]
        assert winner.built is not None
        part.take(winner.texts, winner.built, before + math.log(best.value))


def learn_rest(proposals: Sequence[Proposal]) -> None:
    """Add candidates that did not race: failures, and those whose code others have, which take as long."""
    for proposal in proposals:
        site = proposal.site
        if any(trial.text == proposal.text for trial in site.trials):
            continue
        known: float | None = None
        if proposal.state is State.SAME_CODE:
            twin = proposal.message.partition("=")[2]
            known = 0.0 if proposal.message == DEFAULT_CODE else next((trial.log_ratio for trial in site.trials if trial.text == twin), None)
        site.add(Trial(proposal.text, known), proposal.predicted)


def _by_part(proposals: Sequence[Proposal]) -> list[tuple[PartState, list[Proposal]]]:
    """The candidates that can run, by part."""
    found: dict[str, tuple[PartState, list[Proposal]]] = {}
    for proposal in proposals:
        if proposal.state is State.BUILT and not proposal.part.is_broken:
            found.setdefault(proposal.part.part.name, (proposal.part, []))[1].append(proposal)
    return list(found.values())


def _contest(part: PartState, incumbent: Built, proposals: Sequence[Proposal]) -> Contest:
    arms = [Arm(proposal_name(proposal), proposal.built) for proposal in proposals if proposal.built is not None]
    return Contest(part.part.name, (Arm("", incumbent), Arm("", incumbent), *arms))
