"""The pass that fuses loops of a kernel's stages, so that values passed between stages stay in a cache."""

from dataclasses import dataclass

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.sched.schedule_info import LoopInfo
from stepwell.dialects.target.description import Target
from stepwell.passes.framework.choices import Candidate
from stepwell.passes.framework.decisions import NoMatch, expect
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.linalg.fusion_group import FusionGroup
from stepwell.passes.linalg.stages import Stage
from stepwell.passes.schedule.loop_plans import Choice, Room, leader_of, likely_work, moving, plan_of, steps_name


@register_pass("fuse-loops", level="linalg", anchor="func.func", optional=True)
@dataclass
class FuseLoops(Pass):
    """Fuse loops of several stages of a kernel, each of which then computes a slice at a time.

    rewrite: %0 = generic(…); generic ins(%0, %w, …)  ->  the same with {sched.fused = #sched.fused<[{loop = "l2", dim = 2, step = 14, …}]>} on both

    One contraction of the kernel is the leader: the one with the most work, the last one of equals; in a kernel without contractions, another stage.
    Its loops are tiled, and the other stages are computed inside them, a slice at a time (Halide's `compute_at`: Ragan-Kelley et al., PLDI 2013). The
    other stages can be anything: epilogues of another shape, a depthwise convolution that it reads, a pooling behind it, the transforms of Winograd's
    convolution, a softmax between two products. A loop of the leader can be fused if all other stages traverse the passed values in step with it, and
    if the operand that the kernel computes (or else the first operand) moves along it. Plans are compared by the bytes that move beyond a core's own
    cache; a plan whose slices leave the register tile of a contraction only a few rows is not considered. The trade-off is:
    - a slice at a time: values passed between stages stay in the cache, and so does an operand that several stages read; operands that do not move
      along a loop are read again in each of its iterations;
    - all at once: values passed between stages are written and read once, and each stage reads all other operands itself.

    A loop with a dynamic trip count is fused with the smallest step that divides every possible count, or not at all; plans are compared at likely
    sizes. Among plans of equal cost, the pass prefers one whose iterations fill a register tile with static loops: images one by one, not four at
    once. If no contraction leads and there is only this loop, a step may also cover a few of these smallest steps at once; the remainder is computed
    in the smallest steps afterwards (`rest`).

    An op that lies between fused stages but does not need them, such as the transform of filters behind that of data, moves before all of them: only
    adjacent stages are computed in one loop.

    Stages on one side of the leader, before or after it, are then fused in one more common loop if none of them reads anything again because of it:
    the values passed between them become smaller still.
    """

    chunks: int = 0  # number of chunks of the outermost loop, to run in parallel; 0 for one per core of the target

    def run(self, op: ir.Operation, state: PassState) -> None:
        group = FusionGroup.from_kernel(op)
        leader = leader_of(group)
        if leader is None:
            if group.edges:
                state.decline(self.name, op, NoMatch("none of its ops that hand something on has loops"))
            return
        with state.attempt(self.name, leader.root.operation):
            self._fuse(group, leader, state)

    def _fuse(self, group: FusionGroup, leader: Stage, state: PassState) -> None:
        """Fuse loops of the stages by the best plan. Raises NoMatch if there is none."""
        if any(0 in stage.root.extents for stage in group.stages):
            raise NoMatch("some of its stages have nothing to do")
        if state.target is None:
            raise NoMatch("there is no target whose caches could hold slices")
        usual = expect(self.choose(group, leader, state.machine), "its stages have no loop in common over what they hand on")
        choice = self._chosen(group, leader, usual, state)
        plan, steps = choice.plan, choice.steps
        if not steps:
            at_once = "all at once: in slices, what does not move along their loops would be read again for each, which costs more than they save"
            state.decline(self.name, leader.root.operation, NoMatch(at_once))
        elif state.decisions is not None:
            extents, dims = leader.root.extents, {axis.loops[leader][0]: step for axis, step in steps.items()}
            loops = ", ".join(f"{step} of {extents[dim]} iterations of loop {dim}" for dim, step in dims.items())
            count = len(plan.fused.stages) - 1
            others = f"{count} other stage{'s' * (count != 1)}"
            state.did(self.name, leader.root.operation, f"leads {others} in fused loops, a round of which is {loops}")
        state.count(self.name, int(plan.apply(steps, choice.room.chunks, state.machine.caches.per_core[1])))

    def choose(self, group: FusionGroup, leader: Stage, machine: Target) -> "Choice | None":
        """The best plan with its steps (none if computing all at once is best); None if the stages have no loop in common."""
        plans = [plan for read in moving(group, leader) if (plan := plan_of(group, leader, read)).axes]
        if not plans:
            return None
        chunks = 1 if LoopInfo.parallel_around(leader.root.operation) is not None else self._chunks(group, machine)
        first, second, last = machine.caches.per_core
        # If elements are used only once or a few times, the time goes into reaching them, so they should stay in the nearest cache.
        for cache in (second,) if leader.root.kind == "contraction" else (first, second):
            room = Room(cache, last, chunks, costs=machine.costs)
            plan, (steps, cost) = min(((plan, plan.best(room)) for plan in plans), key=lambda found: found[1][1])
            if steps:
                break
        return Choice(plan, steps, cost, room)

    def _chosen(self, group: FusionGroup, leader: Stage, usual: Choice, state: PassState) -> Choice:
        """The decision (`PassState.choose`): `usual`, another plan that fits the caches, or all at once. No loop cuts a sum."""
        found, room = {steps_name(usual.steps, leader): usual}, usual.room

        def candidates() -> list[Candidate]:
            for read in moving(group, leader):
                plan = plan_of(group, leader, read)
                for steps in plan.options(room):
                    found.setdefault(steps_name(steps, leader), Choice(plan, steps, plan.cost(steps, room), room))
            found.setdefault(steps_name({}, leader), Choice(usual.plan, {}, usual.plan.cost_at_once(room), room))
            return [Candidate(name, state.machine.seconds(moved=one.cost[0]), {"bytes": one.cost[0]}, "uncut sums") for name, one in found.items()]

        return found[state.choose("loops", leader.root.operation, candidates, steps_name(usual.steps, leader))]

    def _chunks(self, group: FusionGroup, machine: Target) -> int:
        """The number of chunks of the outermost loop: one if there is little work."""
        return 1 if likely_work(group, machine.costs) < machine.costs.threaded_work else self.chunks or machine.cores
