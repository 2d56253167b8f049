"""The decisions of tuning records as passes take them: an entry that does not fit is ignored and counted, and never an error."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace

from stepwell.dialects.sched.plan_file import Entry, KernelEntry, Plan
from stepwell.dialects.support.names import printable
from stepwell.dialects.target.description import Target

LONGEST_REASON = 300
"""The largest number of characters of a reason in a warning."""


@dataclass(frozen=True)
class Taken:
    """A decision of the records that a pass took."""

    kind: str
    """The kind of choice, such as `schedule`."""
    site: str
    """The site's name in plans; for a schedule from the entry of a kernel, the digest of that kernel, `:`, and the index of the op."""
    candidate: str
    """The candidate; for a schedule from the entry of a kernel, all knobs that have an effect."""
    what: str
    """The op, or the kernel and its op, for people."""
    is_of_kernel: bool = False
    """Whether it is from the entry of a kernel."""
    above: str = ""
    """For such a schedule, the digest of the loops that are fused in its kernel."""


@dataclass
class Recorded:
    """The decisions of tuning records for one compilation, and which of them passes took or ignored.

    A network's own plan was confirmed as a whole. So it decides alone: schedules of single kernels count only without one.
    """

    plan: Plan | None = None
    """The plan of the network."""
    schedules: Mapping[tuple[str, str], Mapping[int, str]] = field(default_factory=dict)
    """For a kernel's digest and the digest of the loops fused in it (`kernel_digest.py`): schedules as texts, by the index of the op."""
    content: str = ""
    """The digest of the network for which the records were read; empty if it is unknown."""
    taken: dict[tuple[str, str], Taken] = field(default_factory=dict)
    """The decisions that passes took, by kind and site."""
    kernels: dict[str, KernelEntry] = field(default_factory=dict)
    """The schedules among them in the form of a plan, by kernel."""
    ignored: dict[str, str] = field(default_factory=dict)
    """For each decision that does not fit, by its name, the reason."""
    _met: set[str] = field(default_factory=set)
    """The kernels of the plan that exist."""
    _said: bool = False

    def choice(self, kind: str, site: str) -> str | None:
        """The candidate that the plan demands at a site."""
        return None if self.plan is None else self.plan.choices.get(kind, {}).get(site)

    def entry(self, digest: str) -> KernelEntry | None:
        """The entry of the plan for a kernel, which is thereby known to exist."""
        self._met.add(digest)
        return None if self.plan is None else self.plan.kernels.get(digest)

    def take(self, taken: Taken) -> None:
        """Note that a pass took a decision."""
        self.taken[taken.kind, taken.site] = taken

    def take_schedule(self, taken: Taken, digest: str, kernel: KernelEntry, place: int, entry: Entry) -> None:
        """Note that op `place` of a kernel has its schedule from the records. `kernel` has the kernel's name and nodes."""
        self.take(taken)
        known = self.kernels.get(digest, kernel)
        self.kernels[digest] = replace(known, ops={**known.ops, place: entry})

    def ignore(self, name: str, reason: str) -> None:
        """Note that a decision does not fit, and why. The texts of records may be anything: what is not printable is escaped, what is long cut."""
        reason = printable(reason)
        self.ignored.setdefault(printable(name), reason if len(reason) <= LONGEST_REASON else f"{reason[:LONGEST_REASON]}…")

    def check(self, met: Set[tuple[str, str]]) -> None:
        """Note the entries of the plan about sites and kernels that do not exist; `met` has the kinds and names of the sites that do."""
        if self.plan is None:
            return
        for kind, sites in self.plan.choices.items():
            for site in sites:
                if (kind, site) not in met:
                    self.ignore(f"choice {kind}/{site}", "there is no such choice")
        for digest in self.plan.kernels:
            if digest not in self._met:
                self.ignore(f"kernel '{digest}'", "there is no such kernel")

    @property
    def note(self) -> str:
        """A sentence about the decisions that do not fit, with the first one and the number of the others; empty if there are none."""
        if not self.ignored:
            return ""
        name, reason = next(iter(self.ignored.items()))
        more = f" (and {len(self.ignored) - 1} more)" if len(self.ignored) > 1 else ""
        return f"tuning records: ignored, because it does not fit any more: {name}: {reason}{more}; tune the model again"

    def news(self) -> str:
        """`note`, the first time."""
        said, self._said = self._said, True
        return "" if said else self.note

    def merged(self, plan: Plan | None, target: Target) -> Plan | None:
        """The plan that makes the same code without records: what was taken from them, and the entries of the given `plan`, which take precedence."""
        if not self.taken:
            return plan
        given = Plan({}) if plan is None else plan
        choices = {kind: dict(sites) for kind, sites in given.choices.items()}
        for (kind, site), taken in self.taken.items():
            if not taken.is_of_kernel:
                choices.setdefault(kind, {}).setdefault(site, taken.candidate)
        kernels = dict(given.kernels)
        for digest, kernel in self.kernels.items():
            known = kernels.get(digest, kernel)
            kernels[digest] = replace(known, ops={**kernel.ops, **known.ops})
        about = given.target or {"name": target.name, "cpu": target.cpu, "digest": target.digest}
        return replace(given, kernels=kernels, choices=choices, target=about, name="the plan in use")

    def copy(self) -> "Recorded":
        """A copy, for passes that run again."""
        return replace(self, taken=dict(self.taken), kernels=dict(self.kernels), ignored=dict(self.ignored), _met=set(self._met))
