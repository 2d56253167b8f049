"""The story of a tuning run as plain data, from which its pictures, its report and its JSON are made."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import SupportsFloat

from stepwell.database.records import Provenance, Run

FORMATS = ("png", "svg")
"""The formats of its pictures: stated here, where the commands read them without loading numpy."""


@dataclass(frozen=True)
class Ratio:
    """A time relative to another one, with its confidence interval at 95 %: below 1 is faster."""

    value: float
    low: float = 0.0
    high: float = math.inf
    """From 0 to infinity if the interval is unknown."""

    def excludes_one(self) -> bool:
        """Whether the interval lies on one side of 1."""
        return self.high < 1 or self.low > 1

    def __str__(self) -> str:
        """`0.962 [0.951, 0.973]`, or the value alone without an interval."""
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]" if math.isfinite(self.high) else f"{self.value:.3f}"


class Outcome(StrEnum):
    """The result of a site."""

    CONFIRMED = "confirmed"
    """Another candidate than the default was faster in fresh processes, and is in the plan."""
    ROLLED_BACK = "rolled back"
    """Another candidate was the best one in the search, but the confirmation did not show it to be faster."""
    KEPT = "default kept"
    """Candidates were tried, and none was faster than the default."""
    UNTRIED = "not searched"


@dataclass(frozen=True)
class Site:
    """A site and its result."""

    kind: str
    """The kind of choice: `schedule`, `panels`, `fusion`, …"""
    name: str
    """The site, as in plan files."""
    default: str
    """The text of the candidate that the compiler takes by itself."""
    outcome: Outcome
    nodes: tuple[str, ...] = ()
    share: float | None = None
    """Its share of the time of the untuned network, from 0 to 1."""
    space: int | None = None
    """The number of candidates."""
    tried: int = 0
    """The number of candidates that were built or measured, other than the default."""
    best: Ratio | None = None
    """The time of the chosen candidate relative to the default's; of the best one in the search if none was chosen."""
    chosen: str = ""
    """The text of that candidate; empty without one."""
    saved: float | None = None
    """Seconds that a run of the network gets shorter by the confirmed candidate; None if it is unknown or nothing was confirmed."""


@dataclass(frozen=True)
class Attempt:
    """A candidate that was tried."""

    kind: str
    site: str
    text: str
    strategy: str
    """The strategy that proposed it; see `records.Candidate`."""
    state: str
    """Its fate: a value of `records.State`."""
    message: str = ""
    at: float | None = None
    """Seconds from the beginning of the run until its result; None if it is unknown."""
    predicted: float | None = None
    """The predicted time divided by the predicted time of the default."""
    measured: Ratio | None = None
    """The measured time relative to the default's; None if it was not measured."""


@dataclass(frozen=True)
class Milestone:
    """The best known time of the whole network at one point of the run, relative to the untuned network."""

    ratio: Ratio
    attempts: int
    """The number of candidates that had been tried by then."""
    at: float | None = None
    """Seconds from the beginning of the run; None if it is unknown."""
    confirmed: bool = False
    """Whether the ratio comes from a confirmation in fresh processes; otherwise it is estimated from the search."""


@dataclass(frozen=True)
class SelfTest:
    """A measurement of the A/A arm: the incumbent against a second copy of its own code. The true ratio is 1."""

    kind: str
    site: str
    phase: str
    """The part of the run: a value of `records.Phase`."""
    ratio: Ratio


@dataclass(frozen=True)
class StoryFault:
    """A candidate that crashed, hung or gave other bits."""

    kind: str
    site: str
    text: str
    state: str
    """A value of `records.State`."""
    message: str
    plan: str = ""
    """The text of a plan file that selects this candidate, to reproduce the fault; empty for none."""


@dataclass(frozen=True)
class Story:
    """A tuning run."""

    run: Run
    provenance: Provenance
    identifier: str = ""
    """The run's ID in the database; empty without a database."""
    command: str = ""
    """The command line that repeats the run; empty if it was called from Python."""
    untuned: float | None = None
    """Seconds of one run of the untuned network; None if it is unknown."""
    sites: Sequence[Site] = ()
    attempts: Sequence[Attempt] = ()
    """In the order in which they were tried."""
    milestones: Sequence[Milestone] = ()
    """In the order of time."""
    self_tests: Sequence[SelfTest] = ()
    faults: Sequence[StoryFault] = ()
    notes: Sequence[str] = ()
    """Remarks on the run, a sentence each, such as the number of blocks that were thrown away."""

    @property
    def whole(self) -> Ratio | None:
        """The time of the whole tuned network relative to the untuned one; None if it was not measured."""
        run = self.run
        if run.ratio is None:
            return None
        return Ratio(run.ratio, 0.0 if run.low is None else run.low, math.inf if run.high is None else run.high)

    def with_outcome(self, outcome: Outcome) -> list[Site]:
        """The sites with one outcome, in order."""
        return [site for site in self.sites if site.outcome == outcome]

    def text(self) -> str:
        """The story as JSON (RFC 8259). A number that JSON cannot express, such as the end of an unknown interval, is null."""
        return json.dumps({"version": 1, **_plain(asdict(self))}, indent=1, allow_nan=False) + "\n"


def _plain(record: Mapping[str, object]) -> dict[str, object]:
    """The record with null for numbers that are not finite, and with Python's numbers for numpy's."""

    def convert(value: object) -> object:
        if isinstance(value, Mapping):
            return {str(name): convert(entry) for name, entry in value.items()}
        if isinstance(value, (list, tuple)):
            return [convert(entry) for entry in value]
        if isinstance(value, SupportsFloat) and not isinstance(value, int):
            return float(value) if math.isfinite(value) else None
        return value

    return {name: convert(entry) for name, entry in record.items()}
