"""The tuner: searches the sites of a network in rounds, confirms what it found at ever longer intervals, and keeps the best confirmed plan."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from stepwell.database.records import Decision, Phase, Provenance, Samples, State
from stepwell.dialects.sched.plan_file import Plan
from stepwell.dialects.support.errors import InputError, shown
from stepwell.tuning.board import PROFILED, Board
from stepwell.tuning.compete import Competition, Pace
from stepwell.tuning.confirm import ALPHA, Confirmation
from stepwell.tuning.device import Device
from stepwell.tuning.drafts import Drafting, chosen, expected, prospects
from stepwell.tuning.journal import Journal
from stepwell.tuning.live import SiteProgress, Snapshot
from stepwell.tuning.measuring import PARTS
from stepwell.tuning.race import Rules
from stepwell.tuning.ranking import Ranking
from stepwell.tuning.recorder import Recorder
from stepwell.tuning.rounds import Limits, Proposal, Raced, build, candidate, check, learn, learn_rest, race
from stepwell.tuning.settling import Conditions, Verdict, confirm_network, confirm_parts
from stepwell.tuning.spaces import find_strategy
from stepwell.tuning.state import Incumbent, PartState, SiteState
from stepwell.tuning.story import Ratio, Story
from stepwell.tuning.subject import Subject, TunedSite, site_key

SHORT = 60.0
"""Seconds of a budget below which drafts are cheaper."""
SHORT_EFFORT = 250
"""The number of candidates that a draft scores then."""
SEARCHED = 0.55
"""The part of the time until a confirmation that the search before it may take."""
SLICE = 0.35
"""The part of the time left for a search that the builds of one round may take."""
LEAST = 1.5
"""The time left below which there is no further confirmation, in the times of one."""
PROCESS = 0.5
"""Seconds to start a process that measures, beside its runs, before one was measured."""


@dataclass(frozen=True)
class Settings:
    """How to tune."""

    budget: float
    """Seconds."""
    threads: int = 1
    seed: int = 0
    strategy: str = "annealing"
    effort: int = 1000
    """The number of candidates that a draft scores."""
    builds: int = 32
    """The number of candidates of a site that are built before coordinate descent begins."""
    batch: int = 8
    """The number of candidates of a site in one round."""
    first: float = 30.0
    """Seconds until the first confirmation; later ones come at twice the time of the one before."""
    rounds: int | None = None
    """The largest number of rounds between two confirmations; None for as many as the time allows."""
    processes: int | None = None
    """The number of processes of each race and of each confirmation; None to choose by the time. For results that do not depend on the machine."""
    confirmations: int | None = None
    """The largest number of confirmations."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.budget) and self.budget > 0):
            raise InputError(f"budget: expected a number of seconds above 0, got {shown(self.budget)}")
        for name in ("threads", "effort", "builds", "batch"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}: expected a number from 1, got {shown(getattr(self, name))}")
        find_strategy(self.strategy)


@dataclass(frozen=True)
class Tuned:
    """The outcome of tuning."""

    plan: Plan | None
    """The plan that was confirmed; None if nothing is faster than the default."""
    ratio: Ratio | None
    """The time of the network with the plan relative to the one without."""
    status: str
    """`finished` or `interrupted`."""
    story: Story


@dataclass
class Confirmed:
    """The best network that was confirmed so far."""

    plan: Plan | None = None
    ratio: Ratio | None = None
    decisions: dict[str, Decision] = field(default_factory=dict)
    """By the key of the site."""


class Tuner:
    """Tunes a subject on a device. `run` returns the result, also after Ctrl-C, which keeps what is confirmed."""

    def __init__(
        self, subject: Subject, device: Device, settings: Settings, recorder: Recorder, provenance: Provenance, *, ranking: Ranking | None = None,
        on_update: Callable[[Snapshot], None] = lambda snapshot: None, on_plan: Callable[[Plan], None] = lambda plan: None,
        command: str = "", spent: float = 0.0, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """`on_update` gets the state several times a second, `on_plan` each plan that was confirmed.

        `spent` are the seconds of the budget that earlier runs used.
        """
        self.subject, self.device, self.settings, self.recorder, self.provenance = subject, device, settings, recorder, provenance
        self.on_update, self.on_plan, self.command, self.clock = on_update, on_plan, command, clock
        self.random = Random(settings.seed)
        self.journal, self.confirmed, self.untuned = Journal(), Confirmed(), subject.whole
        self.begin = clock()
        self.spent, self.end = spent, self.begin + settings.budget - spent
        self.board = Board(device, settings.threads, self._site_state)
        self.seconds = {"": 0.05, PARTS: 3.0}
        """Seconds to build a candidate of a kernel, and of the whole network."""
        self.doing = "measuring the default"
        self.expected: float | None = None
        """The fraction of the network's time that the rest of the budget is expected to gain."""
        effort = settings.effort if settings.budget > SHORT else min(settings.effort, SHORT_EFFORT)
        self.drafting = Drafting(ranking or Ranking(), recorder, effort, settings.batch, settings.builds)

    # -- the run -----------------------------------------------------------------------------------------------------------------------

    def run(self) -> Tuned:
        """Tune until the budget is used up, or nothing is left to try. Raises CodegenError if the default network itself cannot be measured."""
        status = "failed"
        try:
            try:
                self._adopt(self.subject)
                self._search_and_confirm()
                status = "finished"
            except KeyboardInterrupt:
                status = "interrupted"
        finally:
            self._store(status)
        return Tuned(self.confirmed.plan, self.confirmed.ratio, status, self.story())

    def story(self) -> Story:
        """The story so far."""
        number = "" if self.recorder.number is None else str(self.recorder.number)
        return self.journal.story(self.recorder.run, self.provenance, identifier=number, command=self.command, untuned=self.board.turn or None)

    def _search_and_confirm(self) -> None:
        number, interval = 0, self.settings.first
        while self.clock() < self.end and number != self.settings.confirmations:
            checkpoint = self.begin + interval
            if self.end - checkpoint < self.settings.first:  # too little for a confirmation of its own
                checkpoint = self.end
            more = self._search(checkpoint - self._reserve(checkpoint - self.clock()))
            self._settle(number, max(checkpoint, self.clock() + self._reserve(self.settings.first) / 2))
            number += 1
            while self.begin + interval <= self.clock():
                interval *= 2
            if not more or self.end - self.clock() < LEAST * self._reserve(self.settings.first):
                break

    def _reserve(self, left: float) -> float:
        """Seconds that a confirmation takes, of those that are left."""
        return min((1 - SEARCHED) * self.settings.first + 4 * self.board.turn * PROFILED + self.seconds[PARTS], (1 - SEARCHED) * left)

    # -- search ------------------------------------------------------------------------------------------------------------------------

    def _search(self, until: float) -> bool:
        """Rounds until a time of the clock; returns whether there is more to try."""
        rounds = 0
        while self.clock() < until and rounds != self.settings.rounds:
            picked = self._picked(until)
            if not picked:
                return False
            self._round(picked, until)
            rounds += 1
        return True

    def _picked(self, until: float) -> list[Proposal]:
        """The candidates of the next round: of the sites that are worth most, as many as the time allows."""
        self._update("drafting candidates")
        batch = self.settings.batch
        ranked = [one for part in self.board.parts.values() for one in prospects(part, self.board.shares, self.seconds[self._pace_of(part)])]
        order, self.expected = chosen(ranked, batch), expected(ranked, max(0.0, self.end - self.clock()), batch)
        room = max(self.settings.batch, int(SLICE * (until - self.clock()) / self.seconds[""])) if math.isfinite(until) else len(order) * batch
        picked: list[Proposal] = []
        for state in order:
            part = self.board.owner(site_key(state.site))
            if picked and (part.part.name == PARTS) != (picked[0].part.part.name == PARTS):
                continue  # candidates for the whole network race by themselves
            if part.part.name == PARTS and self.seconds[PARTS] * 2 > until - self.clock():
                continue
            self.drafting.fill(state, self.settings.strategy)
            taken, state.drafts = state.drafts[:batch], state.drafts[batch:]
            picked += [Proposal(part, state, draft.text, draft.strategy, draft.predicted) for draft in taken]
            if len(picked) >= (room if part.part.name != PARTS else max(1, int(SLICE * (until - self.clock()) / self.seconds[PARTS]))):
                break
        return picked

    def _round(self, proposals: Sequence[Proposal], until: float) -> None:
        """Build, check and race some candidates."""
        settings, begin = self.settings, self.clock()
        limits = Limits(until, processes=settings.processes)
        self._update(f"building {len(proposals)} candidates")
        build(self.subject, self.device, proposals, limits)
        pace = self._pace_of(proposals[0].part)
        self.seconds[pace] = 0.5 * self.seconds[pace] + 0.5 * (self.clock() - begin) / len(proposals)
        self._update(f"checking the bits of {len(proposals)} candidates")
        check(self.device, proposals, limits)
        racing = [proposal for proposal in proposals if proposal.state is State.BUILT]
        self._update(f"racing {len(racing)} candidates")
        raced = race(
            self.device, racing, limits, random=self.random, threads=settings.threads, pace=Pace(turn=self.board.turn), rules=Rules(),
            clock=self.clock, on_progress=self._on_race,
        )  # fmt: skip
        for one in raced:
            learn(one)
        learn_rest(proposals)
        self._note(proposals, raced)

    def _note(self, proposals: Sequence[Proposal], raced: Sequence[Raced]) -> None:
        """Store what a round found."""
        samples: dict[str, list[Samples]] = {}
        for one in raced:
            for key, taken in one.samples().items():
                samples.setdefault(key, []).extend(taken)
            self.journal.notes += [note for note in one.outcome.notes if note not in self.journal.notes]
        plans = {
            number: self.subject.plan({proposal.part.part.name: proposal.texts}).text
            for number, proposal in enumerate(proposals)
            if not proposal.state.is_sound
        }  # fmt: skip
        self.journal.add(proposals, samples, self.clock() - self.begin, plans)
        by_site: dict[str, list[Proposal]] = {}
        for proposal in proposals:
            by_site.setdefault(site_key(proposal.site.site), []).append(proposal)
        for key, own in by_site.items():
            self.recorder.tried(own[0].site.site, [proposal.record() for proposal in own], samples.get(key, ()))
        self.journal.reached(Ratio(self._estimate()), self.clock() - self.begin, confirmed=False)
        self._save()

    def _estimate(self) -> float:
        """The estimated time of the network with all incumbents, relative to the untuned one."""
        return 1 - sum(part.share * (1 - math.exp(part.log_ratio)) for part in self.board.parts.values())

    # -- confirmation ------------------------------------------------------------------------------------------------------------------

    def _settle(self, number: int, deadline: float) -> None:
        """Confirm new incumbents, and the network with all that are confirmed. If it holds, it is the result so far."""
        winners = [part for part in self.board.parts.values() if part.is_new and not part.is_broken]
        if not winners:
            return
        before, conditions = {part.part.name: part.confirmed for part in winners}, self._conditions(number, deadline)
        self._update(f"confirming {len(winners)} winners in fresh processes")
        found: dict[str, Confirmation] = {}
        for group in ([part for part in winners if part.part.name != PARTS], [part for part in winners if part.part.name == PARTS]):
            found |= confirm_parts(self.device, group, replace(conditions, deadline=self.clock() + (deadline - self.clock()) / 2))
        for part in winners:
            self._note_confirmation(part, found[part.part.name])
        accepted = [part for part in winners if found[part.part.name].accepted]
        if not accepted:
            return
        self._update("comparing the whole tuned network with the untuned one")
        subject = self.subject
        if any(part.part.name == PARTS for part in accepted):  # kernels may be others
            self._adopt(self.subject.rebased(self.board.parts[PARTS].texts))
        confirmed = {name: part for name, part in self.board.parts.items() if part.confirmed is not None}
        verdict = confirm_network(self.device, self.subject, self.untuned, confirmed, conditions)
        if verdict.holds:
            self._accept(verdict)
            return
        self._roll_back(accepted, before, verdict)
        if subject is not self.subject:
            self._adopt(subject)

    def _conditions(self, number: int, deadline: float) -> Conditions:
        """The conditions of a confirmation: all of them together accept by chance as seldom as one would."""
        each = PROCESS + 1.0 + 3 * self.board.turn
        processes = self.settings.processes or max(6, min(20, int((deadline - self.clock()) / 2 / each)))
        return Conditions(
            Random(self.random.getrandbits(64)), self.settings.threads, deadline, processes, ALPHA / 2 ** (number + 1),
            Pace(seconds=0.6 if self.settings.budget <= SHORT else 1.0, turn=self.board.turn), self.clock,
        )  # fmt: skip

    def _accept(self, verdict: Verdict) -> None:
        """Make a confirmed network the result, unless an earlier one was faster."""
        whole = verdict.confirmation
        assert whole is not None
        ratio = Ratio(whole.ratio.value, whole.ratio.low, whole.ratio.high)
        if self.confirmed.ratio is not None and self.confirmed.ratio.value < ratio.value:
            return
        plan = self.subject.plan(verdict.taken)
        decisions: dict[str, Decision] = {}
        for name, texts in verdict.taken.items():
            confirmed = self.board.parts[name].confirmed
            shown_by = whole if confirmed is None else confirmed.confirmation
            for key, text in texts.items():
                site, statistic = self.board.parts[name].sites[key].site, shown_by.ratio
                decisions[key] = Decision(text, site.space.default, statistic.value, statistic.low, statistic.high, shown_by.p)
                self.recorder.decided(site, decisions[key])
                self.journal.decided(site, decisions[key])
        for key in self.confirmed.decisions.keys() - decisions.keys():
            self._withdraw(key)
        self.confirmed = Confirmed(plan, ratio, decisions)
        self.journal.reached(ratio, self.clock() - self.begin, confirmed=True)
        self.on_plan(plan)
        self._save()

    def _withdraw(self, key: str) -> None:
        for part in self.board.parts.values():
            if key in part.sites:
                self.recorder.withdrawn(part.sites[key].site)
                self.journal.decided(part.sites[key].site, None)

    def _roll_back(self, parts: Sequence[PartState], before: Mapping[str, Incumbent | None], verdict: Verdict) -> None:
        """The whole network is not faster with these candidates, or gives other results: go back to what was confirmed before."""
        names = ", ".join(part.part.name for part in parts)
        why = verdict.fault.message if verdict.fault is not None else "the whole network is not faster with them"
        self.journal.notes.append(f"The winners for {names} were rolled back: {why}.")
        for part in parts:
            part.reset(before[part.part.name])

    def _note_confirmation(self, part: PartState, confirmation: Confirmation) -> None:
        """Store the samples of a confirmation with the first site of the part whose candidate differs from the default."""
        for state in part.sites.values():
            site = state.site
            samples = [
                replace(one, text=site.space.default if one.text == "" else self._best_text(state), against=site.space.default, phase=Phase.CONFIRM)
                for one in confirmation.samples
            ]
            self.journal.measured(site, samples)
            self.recorder.tried(site, [candidate(site, site.space.default, "default")], samples)
            return

    def _best_text(self, state: SiteState) -> str:
        best = state.best
        return state.site.space.default if best is None else best.text

    # -- the state ---------------------------------------------------------------------------------------------------------------------

    def _adopt(self, subject: Subject) -> None:
        """Tune this subject from now on."""
        fresh = self.board.adopt(subject)
        self.subject = subject
        for key, state in self.board.sites().items():
            self.journal.met(state.site, self.board.shares[key])
        for state in fresh:
            self.recorder.tried(state.site, [candidate(state.site, state.site.space.default, "default")])

    def _site_state(self, site: TunedSite) -> SiteState:
        state = SiteState(site, find_strategy(self.settings.strategy)(), Random(f"{self.settings.seed} {site_key(site)}"))
        self.drafting.recall(state)
        return state

    def _pace_of(self, part: PartState) -> str:
        return PARTS if part.part.name == PARTS else ""

    def _on_race(self, competition: Competition) -> None:
        self._update(f"racing: {len(competition.undecided)} of {len(competition.contests)} undecided")

    def _update(self, doing: str) -> None:
        """Tell what is done now."""
        self.doing = doing
        self.on_update(self.snapshot())

    def snapshot(self) -> Snapshot:
        """The state of the run."""
        used = self.spent + self.clock() - self.begin
        rows = []
        for part in self.board.parts.values():
            for key, state in part.sites.items():
                best = state.best
                ratio = None if best is None or best.log_ratio is None else Ratio(math.exp(min(0.0, best.log_ratio)))
                site, label = state.site, self._label(key, part, state)
                rows.append(SiteProgress(site.info.name, site.kind, self.board.shares.get(key), len(state.attempts), site.space.size(), ratio, label))
        rows.sort(key=lambda row: -(row.share or 0.0))
        return Snapshot(
            self.subject.name, rows, self.doing, used, self.settings.budget, self.journal.tried - self.journal.failed, self.journal.failed,
            self.expected, self.confirmed.ratio or Ratio(self._estimate()),
        )  # fmt: skip

    def _label(self, key: str, part: PartState, state: SiteState) -> str:
        """The state of a site in a word."""
        if key in self.confirmed.decisions:
            return "confirmed"
        if part.is_broken:
            return "broken"
        return "done" if state.is_exhausted else "searched" if state.attempts else "waiting"

    def _save(self) -> None:
        """Keep what was found so far, in case the process ends."""
        ratio = self.confirmed.ratio
        fields: dict[str, str | float | None] = {"spent": self.clock() - self.begin}
        if self.confirmed.plan is not None and ratio is not None:
            fields |= {"plan": self.confirmed.plan.text, "ratio": ratio.value, "low": ratio.low, "high": ratio.high}
        self.recorder.changed(**fields)

    def _store(self, status: str) -> None:
        """Keep the outcome. A search that ended by itself has used its budget up: what is left is too short, or there is nothing to try."""
        self._save()
        done = {"spent": self.settings.budget - self.spent} if status == "finished" else {}
        self.recorder.changed(status=status, **done)
