"""The interface to what is tuned: a network, or in tests something simple; its sites, and the requests that build it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from stepwell.database.records import Workload, WorkloadInfo
from stepwell.dialects.sched.plan_file import Plan
from stepwell.tuning.device import Built, Request
from stepwell.tuning.spaces import Space

Texts: TypeAlias = Mapping[str, str]
"""Candidates by the key of their site; sites without an entry keep their default."""
Taken: TypeAlias = Mapping[str, Texts]
"""Candidates by the name of a part, and by the key of a site in it."""


class TunedSite(Protocol):
    """A place where a choice is made."""

    @property
    def kind(self) -> str:
        """The kind of choice, such as `schedule`."""

    @property
    def name(self) -> str:
        """Its name, unique among the sites of its kind."""

    @property
    def workload(self) -> Workload:
        """The workload whose records are its own."""

    @property
    def info(self) -> WorkloadInfo:
        """About the workload."""

    @property
    def space(self) -> Space:
        """Its candidates."""


def site_key(site: TunedSite) -> str:
    """The name of a site, unique in its network."""
    return f"{site.kind}/{site.name}"


@dataclass(frozen=True)
class Part:
    """A part of a network whose code can be exchanged: one kernel with the sites in it, or all launches for the sites that change kernels."""

    name: str
    """The name of its contest: the kernel's, or `PARTS`."""
    sites: Sequence[TunedSite]
    default: Built
    """Its code without any other candidates."""


class Subject(Protocol):
    """A network that is tuned. Its parts with their sites hold for the candidates that are part of it (`rebased`)."""

    @property
    def name(self) -> str:
        """The network's name."""

    @property
    def parts(self) -> Sequence[Part]:
        """The parts of the network with sites."""

    @property
    def whole(self) -> Built:
        """The whole network without other candidates than those that are part of it."""

    def request(self, part: str, texts: Texts) -> Request[Built]:
        """The request to build a part with these candidates."""

    def request_whole(self, taken: Taken) -> Request[Built]:
        """The request to build the whole network with these candidates."""

    def exchanged(self, built: Mapping[str, Built]) -> Built | None:
        """The whole network with this code of some parts in place of its own; None if it has to be built anew for that."""

    def plan(self, taken: Taken) -> Plan:
        """The plan that takes these candidates, and those that are part of the network already."""

    def rebased(self, texts: Texts) -> "Subject":
        """The network with these candidates of the sites that change kernels, whose kernels may be others."""
