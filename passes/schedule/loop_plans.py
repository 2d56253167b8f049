"""Plans of fused loops: which loops of a kernel's stages are fused, with which steps, and the resulting traffic beyond a core's own cache."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from math import prod

from stepwell.dialects.core.mlir import defining_op, ir, ops_below
from stepwell.dialects.sched.fused_loops import FusedLoop
from stepwell.dialects.sched.schedule_info import ScheduleInfo
from stepwell.dialects.support.properties import cached_property
from stepwell.dialects.target.costs import COMMON, Costs
from stepwell.passes.linalg.accesses import Access
from stepwell.passes.linalg.fusion_group import Axis, FusionGroup
from stepwell.passes.linalg.stages import Stage
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.schedule.parallel import likely_work_of

REUSE = 4
"""Iterations of a fused loop for which the leader's register tile loads an operand once, if there are that many."""
SEVERAL = (2, 4, 8)
"""The smallest steps of a fused loop with a dynamic trip count."""
UNEVEN = 1.2
"""The largest ratio of the busiest chunk's work to the average."""

Steps = dict[Axis, int]  # maps each fused loop, outermost first, to the number of the leader's iterations in one step
Cost = tuple[float, float, int, int]
"""The order of plans: traffic beyond a core's own cache, size of the slices, tile fit (negated), and number of steps.

The tile fit counts only if loops have a dynamic trip count: it is the number of iterations per step that suit a register tile.
"""


@dataclass(frozen=True)
class Room:
    """The limits that plans are compared under: bytes of a core's own cache and of its share of the last one, the number of chunks, and the costs."""

    cache: int
    last: int
    chunks: int
    costs: Costs = COMMON

    @property
    def kept(self) -> float:
        """Bytes that may stay in the core's own cache."""
        return self.cache * self.costs.kept_share

    def far(self, size: int) -> float:
        """The cost of traversing `size` bytes that are not in the core's own cache: less if the last cache holds them."""
        return size * self.costs.last_cache if size <= self.last else float(size)

    def even(self, rounds: int) -> bool:
        """Whether `rounds` iterations split evenly enough into the chunks."""
        return -(-rounds // self.chunks) * self.chunks <= UNEVEN * rounds


@dataclass(frozen=True)
class Choice:
    """A plan, the steps of its fused loops (none if all is computed at once), and the limits under which they were compared."""

    plan: "LoopPlan"
    steps: Steps
    cost: Cost
    room: Room

    def cost_of(self, steps: Steps) -> Cost:
        """The cost of other steps of the same plan; without steps, the cost of computing all at once."""
        return self.plan.cost(steps, self.room) if steps else min(self.plan.cost({}, self.room), self.plan.cost_at_once(self.room))


def steps_name(steps: Steps, leader: Stage) -> str:
    """The name of a plan's steps: for each fused loop of the leader, the number of its iterations per step."""
    return " ".join(f"{step} of loop {axis.loops[leader][0]}" for axis, step in steps.items()) or "all at once"


def likely_work(group: FusionGroup, costs: Costs) -> int:
    """The likely work of a kernel, in iterations of an element-wise loop (see `Costs.threaded_work`)."""
    return sum(likely_work_of(stage.root, costs) for stage in group.stages)


def leader_of(group: FusionGroup) -> Stage | None:
    """The contraction with the most work among the stages that pass values on, else another of these stages; the last one of equals."""
    linked = {stage for edge in group.edges for stage in (edge.producer, edge.reader)}
    able = [stage for stage in group.stages if stage in linked]
    contractions = [stage for stage in able if stage.root.kind == "contraction"]
    return max(reversed(contractions or able), key=lambda stage: prod(stage.root.extents), default=None)


def moving(group: FusionGroup, leader: Stage) -> list[Access]:
    """The operands of the leader whose loops may be fused: those that the kernel computes, or else the first one.

    Along other loops the data would be read again for a few weights at a time, which was slower wherever it was tried.
    """
    made = [edge.read for edge in group.edges if edge.reader is leader and edge.member is leader.root]
    return made or [read for member, read in group.reads(leader) if member is leader.root][:1]


def plan_of(group: FusionGroup, leader: Stage, read: Access) -> "LoopPlan":
    """The plan that fuses loops along which `read` moves: of the leader, its producers for this operand, and all stages after it.

    Stages after the leader that have none of these loops stay outside, and so do the stages behind them.
    """
    inside = group.before(leader, read) | {leader} | group.after(leader)
    loops = [d for d in leader.root.parallel_dims if leader.root.extents[d] > 1 and read.kind(d) != "scalar" and not contiguous(leader, d)]
    while True:
        fused = group.within(inside)
        axes = [axis for d in loops if set((axis := fused.axis(leader, d)).loops) == inside]
        behind = [stage for stage in fused.stages if stage in fused.after(leader)]
        if axes or not behind:
            return LoopPlan(group, fused, leader, axes)
        inside.remove(behind[-1])


def contiguous(stage: Stage, dim: int) -> bool:
    """Whether the loop walks neighbouring elements of the result, so that vectors lie along it."""
    return stage.root.outputs[0].kind(dim) == "vector"


@dataclass
class LoopPlan:
    """Which loops of which stages may be fused."""

    group: FusionGroup
    """All stages of the kernel."""
    fused: FusionGroup
    """The stages whose loops are fused."""
    leader: Stage
    axes: list[Axis]
    """The loops that all fused stages have in common, in the leader's order."""

    @cached_property
    def inner(self) -> dict[Stage, Axis]:
        """Maps each stage to the additional loop, inside the others, in which stages before or after the leader are fused."""
        return {stage: axis for run in self._runs() if (axis := self._inner(run)) is not None for stage in run.stages}

    def _runs(self) -> Iterator[FusionGroup]:
        """Runs of neighbouring stages that pass values to each other and are either all fused with the leader or all not."""
        run: list[Stage] = []
        for stage in self.group.stages:
            linked = any({edge.producer, edge.reader} <= {stage, *run} for edge in self.group.edges if stage in (edge.producer, edge.reader))
            if run and (stage is self.leader or not linked or (stage in self.fused.stages) != (run[-1] in self.fused.stages)):
                yield self.group.within(run)
                run = []
            if stage is not self.leader:
                run.append(stage)
        yield self.group.within(run)

    def _inner(self, run: FusionGroup) -> Axis | None:
        """The outermost loop, beside the fused ones, that all stages of a run share and that makes none of them read anything again."""
        if not run.edges:
            return None
        first, reads = run.stages[0], [(stage, *found) for stage in run.stages for found in run.reads(stage)]
        fused = [axis.loops[first][0] for axis in self.axes if first in axis.loops]
        for dim in first.root.parallel_dims:
            if dim in fused or first.root.extents[dim] == 1 or contiguous(first, dim):
                continue
            axis = run.axis(first, dim)
            together = set(axis.loops) == set(run.stages)
            if together and all(stage.moves(member, read, axis.loops[stage][0]) for stage, member, read in reads if member is stage.root):
                return axis
        return None

    def best(self, room: Room) -> tuple[Steps, Cost]:
        """The cheapest steps and their cost; no steps if it is best to compute all at once."""
        at_once: tuple[Steps, Cost] = ({}, self.cost_at_once(room))
        found = [(steps, self.cost(steps, room)) for steps in self.options(room)]
        fitting = [(steps, cost) for steps, cost in found if cost[1] <= room.kept]
        if fitting:
            best = min(fitting, key=lambda found: found[1])
        else:  # the smallest slices are the closest to fitting
            best = min(found, key=lambda found: found[1][1], default=at_once)
        return best if best[1][0] < at_once[1][0] else at_once

    def options(self, room: Room) -> list[Steps]:
        """All steps that split evenly into chunks."""
        # If the iterations of the outermost loop do not split evenly, those of another loop may; otherwise the test is repeated for smaller sizes.
        tries = ((few, orders) for few in (True, False) for orders in ([self.axes], permutations(self.axes)))
        found_in = ([s for order in orders for s in self._options(order) if self._even(s, room, few)] for few, orders in tries)
        return next((options for options in found_in if options), [])

    def _options(self, axes: Sequence[Axis]) -> Iterator[Steps]:
        """Steps for increasingly larger slices of the passed values, from a few iterations of the innermost loop up to all of the outermost."""
        extents = [self.leader.root.extents[axis.leader] for axis in axes]
        for place, axis in enumerate(axes):
            outer = {a: a.unit for a in axes[:place]}
            for step in self._divisors(axis):
                if step % axis.unit == 0 and (step > axis.unit or place == len(axes) - 1):
                    steps = {**outer, axis: step, **dict(zip(axes[place + 1 :], extents[place + 1 :], strict=True))}
                    if self._reuse(steps) >= min(REUSE, self._reuse({})):
                        yield {a: n for a, n in steps.items() if n < self.leader.root.extents[a.leader]}

    def _divisors(self, axis: Axis) -> list[int]:
        """The possible steps of a loop in the leader's iterations, ascending; the last covers the whole loop (its likely size if dynamic)."""
        extent = self.leader.root.extents[axis.leader]
        if axis.leader not in self.leader.root.free:
            return divisors(extent)
        if self.leader.root.bounds[axis.leader] % axis.unit != 0:
            return [extent]
        # A few short rows hide each other's latency. Contractions are walked in register tiles: other steps would cut these tiles a second time.
        several = [n * axis.unit for n in SEVERAL] if len(self.axes) == 1 and self.leader.root.kind != "contraction" else []
        return [step for step in (axis.unit, *several) if step < extent] + [extent]

    def _reuse(self, steps: Steps, without: Collection[int] = ()) -> int:
        """The iterations of a contraction within one step that take an operand from registers where others load it; 1 for other leaders.

        Loops in `without` do not count.
        """
        taken = {axis.leader: step for axis, step in steps.items()}
        return prod(taken.get(d, self.leader.root.extents[d]) for d in self._sharing if d not in without)

    @cached_property
    def _sharing(self) -> list[int]:
        """The loops of a contraction along which one of its operands can stay in registers."""
        root = self.leader.root
        if root.kind != "contraction":
            return []
        reads = [read for read in root.inputs if read.used and read.is_shaped]
        return [d for d in root.parallel_dims if not contiguous(self.leader, d) and any(read.kind(d) == "scalar" for read in reads)]

    def _even(self, steps: Steps, room: Room, few: bool) -> bool:
        """Whether the iterations of the outermost loop split evenly enough into chunks, at likely sizes or, with `few`, at fewer iterations."""
        outermost = next(iter(steps), None)
        if outermost is None:
            return room.even(1)
        extents = self.leader.root.small_extents if few else self.leader.root.extents
        return room.even(max(1, extents[outermost.leader] // steps[outermost]))

    def _rounds(self, steps: Steps, axis: Axis) -> int:
        return self.leader.root.extents[axis.leader] // steps[axis]

    def cost_at_once(self, room: Room) -> Cost:
        """The cost of computing each stage as a whole, one after the other."""
        whole = sum(self._handed_on.values())
        apart = room.far(sum(read.bytes for *_, read in self._still)) + 2 * (room.far(whole) + room.far(self._elsewhere))
        return apart + room.far(self._shared), float(whole), 0, 1

    def cost(self, steps: Steps, room: Room) -> Cost:
        """The cost of all traffic that the core's own cache does not absorb, and the tie-breakers (see `Cost`)."""
        rounds = prod(self._rounds(steps, axis) for axis in steps)
        whole = sum(self._handed_on.values())
        slices, kept, again = (whole + self._shared) // rounds, 0, 0
        for stage, member, read in self._still:
            times, footprint = 1, read.bytes
            for axis in steps:
                if not stage.moves(member, read, axis.loops[stage][0]):
                    times *= self._rounds(steps, axis)
                elif times == 1:
                    footprint //= self._rounds(steps, axis)
            kept += footprint if times > 1 else 0
            again += read.bytes * times
        still = sum(read.bytes for *_, read in self._still)
        cost = room.far(still) * (1 if slices + kept <= room.kept or not still else again / still)
        cost += 2 * room.far(self._elsewhere)
        cost += 0 if slices <= room.kept else (2 * whole + self._shared) * (room.costs.last_cache if slices <= room.last else 1)
        all_inner = all(stage in self.inner for stage in self.fused.stages if stage is not self.leader)
        small = room.costs.kept_share if all_inner else room.costs.streamed_share
        # Static loops fill a register tile in each step; a tile of images or rows with a dynamic count is full only if there are many.
        known = self._reuse(steps, self.leader.root.free) if self.leader.root.free else 0
        return cost, max(slices, small * room.cache), -known, rounds

    @cached_property
    def _still(self) -> list[tuple[Stage, Structured, Access]]:
        """The operands of fused stages that the kernel does not compute and that do not move along all of the loops."""
        reads = [(stage, member, read) for stage in self.fused.stages for member, read in self.fused.reads(stage)]
        return [(s, member, read) for s, member, read in reads if not all(s.moves(member, read, axis.loops[s][0]) for axis in self.axes)]

    @cached_property
    def _shared(self) -> int:
        """The bytes of operands that several fused stages read, a slice each per step: the first reader brings them into the cache."""
        return sum(max(sizes.values()) for sizes in self._readers)

    @cached_property
    def _readers(self) -> list[dict[Stage, int]]:
        """For each operand that several fused stages read a slice at a time: those stages in order, and the bytes that each reads."""
        readers: dict[ir.Value, dict[Stage, int]] = {}
        for stage in self.fused.stages:
            for member, read in self.fused.reads(stage):
                if all(stage.moves(member, read, axis.loops[stage][0]) for axis in self.axes):
                    readers.setdefault(read.value, {})[stage] = read.bytes
        return [sizes for sizes in readers.values() if len(sizes) > 1]

    @cached_property
    def _handed_on(self) -> dict[Stage, int]:
        """Maps each producer to the bytes that fused stages pass on in whole slices, without those that an inner loop makes smaller."""
        edges = [edge for edge in self.fused.edges if self.leader in (edge.producer, edge.reader) or edge.producer not in self.inner]
        return {edge.producer: edge.bytes for edge in edges}

    @cached_property
    def _elsewhere(self) -> int:
        """The bytes passed between fused stages and those outside."""
        fused = set(self.fused.stages)
        return sum({edge.producer: edge.bytes for edge in self.group.edges if (edge.producer in fused) != (edge.reader in fused)}.values())

    def apply(self, steps: Steps, chunks: int, own: int) -> bool:
        """Record on each stage the loops it is computed in, the outermost split into `chunks`. Returns whether any stage is in a loop.

        The last reader of an operand that several stages read prefetches it one step ahead if the operand fills half of a core's own cache of `own`
        bytes: the hardware prefetcher follows a stream, and this one pauses while a step is computed.
        """
        found = False
        before: tuple[Axis, list[str], str] | None = None
        asking = {list(sizes)[-1] for sizes in self._readers if 2 * max(sizes.values()) > own}
        for stage in self.group.stages:
            loops = [self._loop(stage, axis, step) for axis, step in steps.items() if stage in self.fused.stages]
            if loops and stage in asking:
                loops[-1] = replace(loops[-1], prefetch=1)
            axis = self.inner.get(stage)
            if axis is not None:
                around, name = [loop.loop for loop in loops], f"inner{axis.leader}"
                if before is not None and before[0] is axis:
                    name = before[2]
                elif before is not None and before[1:] == (around, name):
                    name += "_"  # neighbours with the same name would share the loop
                loops.append(FusedLoop(name, *axis.in_stage(stage, axis.unit)))
                before = axis, around, name
            else:
                before = None
            if loops:
                rounds = stage.root.extents[loops[0].dim] // loops[0].step
                loops[0] = replace(loops[0], chunks=min(chunks, rounds))
                ScheduleInfo(stage.root.operation).fused = tuple(loops)
                found = True
        if steps and not self._neighbours():
            make_adjacent(self.fused.stages)
        return found

    def _neighbours(self) -> bool:
        """Whether the fused stages are adjacent."""
        places = [place for place, stage in enumerate(self.group.stages) if stage in self.fused.stages]
        return places[-1] - places[0] == len(places) - 1

    def _loop(self, stage: Stage, axis: Axis, step: int) -> FusedLoop:
        """A fused loop as seen by one stage; it may have a remainder if its size is not known to be a multiple of the step."""
        dim, own = axis.in_stage(stage, step)
        divides = self.leader.root.bounds[axis.leader] % step == 0
        return FusedLoop(f"loop{axis.leader}", dim, own, rest=0 if divides else axis.in_stage(stage, axis.unit)[1])


def make_adjacent(stages: Sequence[Stage]) -> None:
    """Move the ops between the first and the last of these stages (all in one block) that need none of them before the first."""
    own = {member.operation for stage in stages for member in stage.members}
    operations = [op.operation for op in stages[0].root.operation.block.operations]
    places = [place for place, op in enumerate(operations) if op in own]
    first, made = operations[places[0]], set(own)
    for op in operations[places[0] : places[-1]]:
        if op in made:
            continue
        if any(defining_op(value) in made for inner in (op, *ops_below(op)) for value in inner.operands):
            made.add(op)
        else:
            op.move_before(first)


def divisors(n: int) -> list[int]:
    """The divisors of n, in order."""
    return [d for d in range(1, n + 1) if n % d == 0]
