"""Fusion groups: the stages of a kernel on tensors, the producer-consumer edges between them, and the loops that they have in common."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Size
from stepwell.passes.linalg.accesses import Access
from stepwell.passes.linalg.stages import Stage, stages_on_tensors
from stepwell.passes.linalg.structured import Structured, Walk, walk
from stepwell.passes.linalg.views import TENSOR_RESHAPES, origin


@dataclass(frozen=True, eq=False)
class Edge:
    """A tensor that one stage produces and another reads."""

    producer: Stage
    reader: Stage
    member: Structured
    """The op of the consumer that reads it: its root or an epilogue."""
    read: Access

    @property
    def bytes(self) -> int:
        """The size of the tensor in bytes."""
        return self.read.bytes

    def walk(self, stage: Stage, dim: int) -> Walk | None:
        """How loop `dim` of one of the two stages traverses the tensor (see `walk`)."""
        if stage is self.producer:
            return walk(stage.root, stage.root.outputs[0], dim)
        return stage.walk(self.member, self.read, dim)

    def counterpart(self, stage: Stage, dim: int) -> tuple[int, Fraction] | None:
        """The loop of the other stage that traverses the tensor like loop `dim` of `stage`, in the most similar steps.

        Also returns how many of its iterations correspond to one of `dim`. None if there is no such loop.
        """
        other = self.producer if stage is self.reader else self.reader
        one = self.walk(stage, dim)
        if one is None:
            return None
        walks = [(d, w) for d in other.root.parallel_dims if (w := self.walk(other, d)) is not None]
        whole = (one.at_once, stage.root.bounds[dim] * one.stretch)
        alike = [(d, times) for d, w in walks if (w.at_once, other.root.bounds[d] * w.stretch) == whole and (times := ratio(one.stretch, w.stretch))]
        return min(alike, key=lambda found: max(found[1], 1 / found[1]), default=None)


def ratio(one: int | Size, other: int | Size) -> Fraction | None:
    """The quotient of two sizes, if it is a number; None if it depends on symbols, or `other` is 0."""
    if isinstance(one, int) and isinstance(other, int):
        return Fraction(one, other) if one and other else None
    for times, part, whole in ((one // other, other, one), (other // one, one, other)):
        if isinstance(times, int) and times and part * times == whole:
            return Fraction(times) if whole == one else Fraction(1, times)
    return None


@dataclass(frozen=True, eq=False)
class Axis:
    """A loop that stages have in common: each stage's own loop, and how many iterations of it correspond to one of the leader's."""

    leader: int
    """The leader's loop."""
    loops: dict[Stage, tuple[int, Fraction]]

    @property
    def unit(self) -> int:
        """The smallest number of the leader's iterations that corresponds to whole iterations of every stage.

        The leader's trip count is a multiple of it, since it corresponds to all iterations of each stage.
        """
        return lcm(*(count.denominator for _, count in self.loops.values()))

    def in_stage(self, stage: Stage, step: int) -> tuple[int, int]:
        """A stage's own loop, and the number of its iterations that corresponds to `step` of the leader's."""
        loop, count = self.loops[stage]
        return loop, int(step * count)


class FusionGroup:
    """The stages of a kernel with the edges between them."""

    def __init__(self, stages: Sequence[Stage], edges: Sequence[Edge]) -> None:
        self.stages, self.edges = list(stages), list(edges)

    @staticmethod
    def from_kernel(kernel: ir.Operation) -> "FusionGroup":
        """All stages of a kernel on tensors."""
        stages = stages_on_tensors(kernel)
        made = {stage.members[-1].operation.results[0]: stage for stage in stages}
        edges = []
        for stage in stages:
            for member in stage.members:
                for read in member.inputs:
                    producer = made.get(origin(read.value, TENSOR_RESHAPES)) if read.is_shaped else None
                    if producer is not None and producer is not stage and producer.root.operation.block == stage.root.operation.block:
                        edges.append(Edge(producer, stage, member, read))
        return FusionGroup(stages, edges)

    def within(self, stages: Iterable[Stage]) -> "FusionGroup":
        """The group of only these stages, in order."""
        kept = set(stages)
        edges = [edge for edge in self.edges if edge.producer in kept and edge.reader in kept]
        return FusionGroup([stage for stage in self.stages if stage in kept], edges)

    def before(self, stage: Stage, read: Access | None = None) -> set[Stage]:
        """The stages that `stage` depends on; with `read`, those that this operand depends on."""
        found: set[Stage] = set()
        waiting = [edge.producer for edge in self.edges if edge.reader is stage and read in (None, edge.read)]
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                waiting += [edge.producer for edge in self.edges if edge.reader is one]
        return found

    def after(self, stage: Stage) -> set[Stage]:
        """The stages that depend on `stage`."""
        found: set[Stage] = set()
        waiting = [stage]
        while waiting:
            one = waiting.pop()
            for edge in self.edges:
                if edge.producer is one and edge.reader not in found:
                    found.add(edge.reader)
                    waiting.append(edge.reader)
        return found

    def reads(self, stage: Stage) -> list[tuple[Structured, Access]]:
        """The operands of a stage from outside the group, without constants of the kernel."""
        inside = {id(edge.read) for edge in self.edges}
        reads = [(member, read) for member in stage.members for read in member.inputs if read.is_shaped and read.used]
        own = [(member, read) for member, read in reads if not stage.is_inside(read.value)]
        return [(member, read) for member, read in own if id(read) not in inside and not read.is_constant]

    def axis(self, leader: Stage, dim: int) -> Axis:
        """Loop `dim` of the leader with the loops of other stages that traverse the passed tensors in step with it."""
        loops = {leader: (dim, Fraction(1))}
        waiting = [leader]
        while waiting:
            stage = waiting.pop()
            own, count = loops[stage]
            for edge in self.edges:
                if stage not in (edge.producer, edge.reader):
                    continue
                other = edge.producer if stage is edge.reader else edge.reader
                found = None if other in loops else edge.counterpart(stage, own)
                if found is not None:
                    loops[other] = (found[0], found[1] * count)
                    waiting.append(other)
        return Axis(dim, loops if all(self._in_step(edge, loops) for edge in self.edges) else {leader: loops[leader]})

    @staticmethod
    def _in_step(edge: Edge, loops: dict[Stage, tuple[int, Fraction]]) -> bool:
        """Whether the loops of two stages, if both have one, traverse the tensor between them in step."""
        if edge.producer not in loops or edge.reader not in loops:
            return True
        (made, one), (read, other) = loops[edge.producer], loops[edge.reader]
        there, here = edge.walk(edge.producer, made), edge.walk(edge.reader, read)
        if there is None or here is None or there.at_once != here.at_once:
            return False
        return there.stretch * (one.numerator * other.denominator) == here.stretch * (other.numerator * one.denominator)
