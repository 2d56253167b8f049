"""The parts of the network that is tuned, with their shares of its time, and what was tried there."""

from collections.abc import Callable
from dataclasses import dataclass, field

from stepwell.dialects.support.errors import CodegenError
from stepwell.tuning.device import Arm, Contest, Device, Fault, Measurement
from stepwell.tuning.measuring import PARTS
from stepwell.tuning.state import DEFAULT_CODE, PartState, SiteState
from stepwell.tuning.subject import Part, Subject, TunedSite, site_key

PROFILED = 5
"""Runs of the network from which shares of its time are taken."""
WARM = 2
"""Runs before them."""


@dataclass
class Board:
    """The state of all parts of a subject."""

    device: Device
    threads: int
    make: Callable[[TunedSite], SiteState]
    """Makes the state of a site that was not met before."""
    parts: dict[str, PartState] = field(default_factory=dict)
    """By name."""
    shares: dict[str, float] = field(default_factory=dict)
    """The share of the network's time that each site may save, by its key."""
    turn: float = 0.0
    """Seconds of one run of the network."""

    def adopt(self, subject: Subject) -> list[SiteState]:
        """Take over a subject: measure the shares of its parts, and go on where equal workloads were searched before. Returns the new sites.

        Raises CodegenError if the network itself cannot be measured.
        """
        before = {state.site.workload: state for part in self.parts.values() for state in part.sites.values()}
        incumbents = {part.part.default.digest: part for part in self.parts.values()}
        shares = self._profiled(subject.name, [part for part in subject.parts if part.name != PARTS])
        parts, fresh = {}, []
        for part in subject.parts:
            sites = {}
            for site in part.sites:
                state = before.get(site.workload)
                if state is None:
                    fresh.append(state := self.make(site))
                state.site = site
                sites[site_key(site)] = state
            old = incumbents.get(part.default.digest)
            made = PartState(part, sites, part.default, shares.get(part.name, 1.0), code={part.default.digest: DEFAULT_CODE})
            if old is not None and part.name != PARTS:
                made.texts, made.incumbent, made.log_ratio, made.code = old.texts, old.incumbent, old.log_ratio, old.code
                made.confirmed = old.confirmed
            parts[part.name] = made
        self.parts = parts
        self.shares = {key: self._share(part, state) for part in parts.values() for key, state in part.sites.items()}
        return fresh

    def sites(self) -> dict[str, SiteState]:
        """All sites by their keys."""
        return {key: state for part in self.parts.values() for key, state in part.sites.items()}

    def owner(self, key: str) -> PartState:
        """The part of a site."""
        return next(part for part in self.parts.values() if key in part.sites)

    def _profiled(self, name: str, parts: list[Part]) -> dict[str, float]:
        """The share of the network's time of each part, by its name."""
        if not parts:
            return {}
        contests = tuple(Contest(part.name, (Arm("", part.default),)) for part in parts)
        turns = tuple(dict.fromkeys((part.name for part in parts), 0) for _ in range(PROFILED))
        measured = self.device.measure(Measurement(contests, turns, self.threads, warm_up=WARM, timeout=600.0))
        if isinstance(measured, Fault):
            raise CodegenError(f"{name}: the network cannot be measured: {measured.message}")
        times = {}
        for part in parts:
            walls = sorted(wall for sample in measured.samples if (wall := sample[part.name].wall) is not None)
            times[part.name] = walls[len(walls) // 2] if walls else 0.0
        total = sum(times.values())
        self.turn = measured.seconds / len(turns) or total
        return {name: seconds / total if total else 1 / len(times) for name, seconds in times.items()}

    def _share(self, part: PartState, state: SiteState) -> float:
        """The share of the network's time that a site may save: of its kernel, by the predicted times of its ops, or of the kernels of its nodes."""
        if part.part.name != PARTS:
            times = {key: one.site.space.predict([one.site.space.default])[0] or 0.0 for key, one in part.sites.items()}
            total = sum(times.values())
            return part.share * (times[site_key(state.site)] / total if total else 1.0)
        nodes = set(state.site.info.nodes)
        near = [other for other in self.parts.values() if any(nodes & set(one.site.info.nodes) for one in other.sites.values())]
        return min(1.0, sum(other.share for other in near if other.part.name != PARTS))
