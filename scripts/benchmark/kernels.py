"""Two variants of stepwell compared kernel by kernel: the fastest run of each, in profiles that are taken in turn.

Medians of whole networks tell no two per cent on a machine whose speed changes while it measures. What a kernel takes at its fastest hardly depends
on that: among many runs there is one that nothing disturbed, of a kernel much sooner than of a network.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from benchmark.jobs import Contestant, Failure, Job, KernelTime, Profile
from benchmark.models import Network, feeds
from benchmark.process import EngineProcess
from benchmark.session import Protocol

__all__ = ["KernelComparison", "Part", "measure", "parts"]


@dataclass(frozen=True)
class Part:
    """The launches that compute the same ONNX nodes in two variants."""

    nodes: tuple[str, ...]
    kernels: tuple[tuple[str, ...], tuple[str, ...]]
    """The launches of the first and of the second variant, in order."""
    seconds: tuple[float, float]
    """Sums of the fastest runs of these launches."""


@dataclass(frozen=True)
class KernelComparison:
    """A network in two variants on a number of threads."""

    network: str
    threads: int
    labels: tuple[str, str]
    parts: list[Part]
    whole: tuple[float, float]
    """Seconds of the fastest run of the whole model."""

    @property
    def seconds(self) -> tuple[float, float]:
        """Sums of the fastest runs of all launches."""
        return sum(part.seconds[0] for part in self.parts), sum(part.seconds[1] for part in self.parts)


@dataclass
class _Fastest:
    """The fastest of all profiles of one variant."""

    launches: list[KernelTime] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    whole: float = float("inf")

    def take(self, profile: Profile) -> None:
        """Add a profile. Raises Failure if its launches differ: the variant then compiles to something else each time."""
        if self.launches and [call.kernel for call in self.launches] != [call.kernel for call in profile.calls]:
            raise Failure("two processes of one checkout made different kernels of the same network")
        self.launches = self.launches or profile.calls
        times = [call.fastest for call in profile.calls]
        self.seconds = [min(pair) for pair in zip(self.seconds, times, strict=True)] if self.seconds else times
        self.whole = min(self.whole, profile.fastest_whole)


def measure(
    contestants: tuple[Contestant, Contestant], network: Network, threads: int, protocol: Protocol, say: Callable[[str], None]
) -> KernelComparison:
    """Profile a network in both, in turn, `protocol.rounds` times `protocol.runs` runs each, shared out to `protocol.processes` processes.

    They are an even number, at least two: the process that starts first finds the better memory and is faster by up to four per cent, so each variant
    is first as often as the other. Raises Failure if one of them does not compile it, or cannot be profiled, or if there is one round alone.
    """
    if protocol.rounds < 2:
        raise Failure("kernels of two checkouts are compared in at least two rounds: each checkout is to be first in one")
    found = _Fastest(), _Fastest()
    jobs = [Job(c, str(network.path), threads, protocol.spin, network.shapes, level=network.level) for c in contestants]
    parts_of_rounds = 2 * max(1, min(protocol.processes, protocol.rounds) // 2)
    for part in range(parts_of_rounds):
        order = (0, 1) if part % 2 else (1, 0)
        with ExitStack() as stack:
            live = {}
            for which in order:
                say(f"{network.name}: compiling {jobs[which].contestant.label}")
                live[which] = stack.enter_context(EngineProcess(jobs[which]))
                live[which].feed(feeds(live[which].load().inputs, protocol.images))
            for number in range(protocol.rounds * part // parts_of_rounds, protocol.rounds * (part + 1) // parts_of_rounds):
                for which in order:
                    say(f"{network.name}: round {number + 1} of {protocol.rounds}, {jobs[which].contestant.label} on {threads}")
                    time.sleep(protocol.pause)
                    found[which].take(live[which].profile(protocol.runs))
    made = parts(*([(call, seconds) for call, seconds in zip(one.launches, one.seconds, strict=True)] for one in found))
    labels = contestants[0].label, contestants[1].label
    return KernelComparison(network.name, threads, labels, made, (found[0].whole, found[1].whole))


def parts(first: Iterable[tuple[KernelTime, float]], second: Iterable[tuple[KernelTime, float]]) -> list[Part]:
    """The launches of two variants, each with its seconds, in the smallest groups that compute the same ONNX nodes in both.

    Kernels cannot be matched by name, because names depend on content. A variant may fuse what the other computes in two: launches that share a node,
    in either variant, form one group. Those without nodes (for example of a weight) form one group together.
    """
    variants = list(first), list(second)
    group: dict[str, list[str]] = {}  # of each node: those of its group, one list for all of them
    for call, _ in [*variants[0], *variants[1]]:
        lists = {id(found): found for node in _nodes(call) for found in [group.setdefault(node, [node])]}
        merged = [node for found in lists.values() for node in found]
        if len(lists) > 1:
            group.update(dict.fromkeys(merged, merged))
    members: dict[int, tuple[list[tuple[KernelTime, float]], list[tuple[KernelTime, float]]]] = {}
    for which, launches in enumerate(variants):
        for launch in launches:
            members.setdefault(id(group[_nodes(launch[0])[0]]), ([], []))[which].append(launch)
    return [_part(*both) for both in members.values()]


def _nodes(call: KernelTime) -> Sequence[str]:
    return call.nodes or ("",)


def _part(first: list[tuple[KernelTime, float]], second: list[tuple[KernelTime, float]]) -> Part:
    nodes = dict.fromkeys(node for call, _ in [*first, *second] for node in call.nodes)
    kernels = tuple(call.kernel for call, _ in first), tuple(call.kernel for call, _ in second)
    return Part(tuple(nodes), kernels, (sum(seconds for _, seconds in first), sum(seconds for _, seconds in second)))
