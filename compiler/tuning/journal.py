"""The events of a tuning run so far, in memory: for the live table, and for the story from which pictures and reports are made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from stepwell.database.records import Candidate, Decision, Phase, Provenance, Run, Samples
from stepwell.tuning.recorded import SiteRecords, story_from_records
from stepwell.tuning.rounds import Proposal
from stepwell.tuning.story import Milestone, Ratio, Story, StoryFault
from stepwell.tuning.subject import TunedSite, site_key


@dataclass
class _Entry:
    """The candidates that were tried at one site, and their samples."""

    site: TunedSite
    share: float
    candidates: dict[str, Candidate] = field(default_factory=dict)
    samples: list[Samples] = field(default_factory=list)
    at: dict[str, float] = field(default_factory=dict)
    decision: Decision | None = None


class Journal:
    """The events of a run."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self.milestones: list[Milestone] = [Milestone(Ratio(1.0, 1.0, 1.0), 0, 0.0)]
        self.faults: list[StoryFault] = []
        self.notes: list[str] = []
        self.tried = self.failed = 0

    def met(self, site: TunedSite, share: float) -> None:
        """A site of the network, with its share of the time."""
        entry = self._entries.setdefault(site_key(site), _Entry(site, share))
        entry.site, entry.share = site, share

    def add(self, proposals: Sequence[Proposal], samples: Mapping[str, Sequence[Samples]], at: float, plans: Mapping[int, str]) -> None:
        """Candidates with their fates, samples by the key of their site, and the seconds since the run began.

        `plans` has, by the number of a candidate with a fault, the text of a plan that selects it.
        """
        for number, proposal in enumerate(proposals):
            key = site_key(proposal.site.site)
            entry, record = self._entries[key], proposal.record()
            entry.candidates[proposal.text], entry.at[proposal.text] = record, at
            self.tried += 1
            self.failed += not record.state.is_sound
            if number in plans:
                site = proposal.site.site
                self.faults.append(StoryFault(site.kind, site.name, proposal.text, record.state.value, record.message, plans[number]))
        for key, taken in samples.items():
            self._entries[key].samples += taken

    def measured(self, site: TunedSite, samples: Sequence[Samples]) -> None:
        """Samples of the confirmation of a site's candidate."""
        self._entries[site_key(site)].samples += samples

    def decided(self, site: TunedSite, decision: Decision | None) -> None:
        """The candidate that a site takes; None if that was withdrawn."""
        self._entries[site_key(site)].decision = decision

    def reached(self, ratio: Ratio, at: float, *, confirmed: bool) -> None:
        """The time of the whole network relative to the untuned one, known at some second of the run."""
        self.milestones.append(Milestone(ratio, self.tried, at, confirmed))

    def story(self, run: Run, provenance: Provenance, *, identifier: str, command: str, untuned: float | None) -> Story:
        """The story of the run."""
        records = [
            SiteRecords(
                entry.site.workload, entry.site.info, list(entry.candidates.values()), [s for s in entry.samples if s.phase is not Phase.WHOLE],
                entry.decision, entry.site.name, entry.site.space.default, entry.share, entry.site.space.size(), entry.at,
            )
            for entry in self._entries.values()
        ]  # fmt: skip
        made = story_from_records(run, provenance, records, identifier=identifier, command=command, untuned=untuned)
        return replace(made, milestones=self.milestones, faults=self.faults, notes=[*made.notes, *self.notes])
