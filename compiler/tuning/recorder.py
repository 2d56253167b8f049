"""Writes what a tuning run finds to the database, and reads what earlier runs found."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stepwell.database.records import Candidate, Decision, Provenance, Run, Samples
from stepwell.tuning.subject import TunedSite

if TYPE_CHECKING:
    from stepwell.database.database import Database


class Recorder:
    """The records of one run. Without a database it keeps nothing."""

    def __init__(self, database: "Database | None", run: Run, provenance: Provenance, *, decides: bool = True) -> None:
        """Without `decides`, decisions are not stored: those that may change bits must not be taken by compilations that did not ask for that."""
        self.database, self.decides = database, decides
        self.run = run
        self.number = None if database is None else database.begin(run, provenance)

    def tried(self, site: TunedSite, candidates: Sequence[Candidate], samples: Sequence[Samples] = ()) -> None:
        """Store candidates of a site, and samples."""
        if self.database is not None and self.number is not None:
            self.database.add_candidates(site.workload, site.info, candidates, self.number)
            if samples:
                self.database.add_samples(site.workload, samples, self.number)

    def decided(self, site: TunedSite, decision: Decision) -> None:
        """Store the candidate that was confirmed for a site."""
        if self.decides and self.database is not None and self.number is not None:
            self.database.decide(site.workload, decision, self.number)

    def withdrawn(self, site: TunedSite) -> None:
        """Withdraw the decision about a site."""
        if self.decides and self.database is not None:
            self.database.forget(site.workload)

    def changed(self, **fields: str | float | None) -> None:
        """Change fields of the run."""
        if self.database is not None and self.number is not None:
            self.database.update_run(self.number, **fields)

    def known(self, site: TunedSite) -> tuple[list[Candidate], list[Samples], Decision | None]:
        """The candidates of a site that were tried before on this machine, their samples, and the decision."""
        if self.database is None:
            return [], [], None
        return self.database.candidates(site.workload), self.database.samples(site.workload), self.database.decision(site.workload)

    def starts(self, site: TunedSite, count: int) -> list[str]:
        """Decisions about similar sites, also of other machines and networks: candidates to begin with, the nearest one first."""
        if self.database is None:
            return []
        found = self.database.similar(site.workload, site.info, count)
        return list(dict.fromkeys(decision.text for _, _, decision in found if decision.text != decision.default))

    def spent(self) -> float:
        """The seconds that earlier runs spent on this network, with these options, on this machine."""
        if self.database is None:
            return 0.0
        return self.database.spent(self.run.content, self.run.target, self.run.threads) - self.run.spent


