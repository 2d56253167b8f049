"""The pass that gives kernels a second version for small sizes."""

from dataclasses import dataclass, replace
from math import isqrt
from typing import ClassVar

from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.mlir import func
from stepwell.dialects.core.sizes import Size, product
from stepwell.dialects.core.symbolic_shapes import fewer, hints_around, likely
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.framework.registry import PassState, register_pass
from stepwell.passes.framework.versions import KernelVersionPass, VersionProposal
from stepwell.passes.linalg.fusion_group import FusionGroup
from stepwell.passes.schedule.fuse_loops import FuseLoops
from stepwell.passes.schedule.loop_plans import Choice, Steps, leader_of, likely_work


@register_pass("version-kernels", level="linalg", optional=True)
@dataclass
class VersionKernels(KernelVersionPass):
    """Give a kernel a second version for small sizes, if `fuse-loops` would choose another plan for these.

    rewrite: @k  ->  @k and a copy @k.few {stepwell.version = {of = "k", size = "n", most = 2}, stepwell.kernel_hints = {n = 1}}

    Both versions compute the same for any size. `fuse-loops` compares plans at likely sizes, such as four images. For a quarter of these another plan
    may be better: a convolution with many filters transforms all of them at once for four images, and a few filters at a time for one image. If the
    plan for likely sizes costs more than `slack` of the kernel's time at the small sizes, the kernel gets a copy with hints for small sizes.

    `size` is the product of the leader's loop bounds that are symbols, `most` the geometric mean of that product at small and at likely sizes.
    """

    same_bits: ClassVar[bool] = True
    slack: float = 0.08

    def propose(self, subject: func.FuncOp, state: PassState) -> VersionProposal[func.FuncOp] | NoMatch | None:
        if not any(KernelInfo(subject).sizes):
            return None
        if state.target is None:
            return NoMatch("there is no target whose caches could hold slices")
        usual = FusionGroup.from_kernel(subject.operation)
        leader = leader_of(usual)
        choice = None if leader is None else FuseLoops().choose(usual, leader, state.machine)
        size = None if leader is None else product([bound for bound in leader.root.bounds if isinstance(bound, Size)])
        if choice is None or leader is None or not isinstance(size, Size):
            return None
        hints = hints_around(subject.operation)
        most = isqrt(likely(size, fewer(size.symbols, hints)) * likely(size, hints))
        if most == 0:
            return None
        proposal: VersionProposal[func.FuncOp] = VersionProposal(leader.root.operation, size, most)
        trial = self.copy(subject, proposal)
        more = self._loss(trial, choice, state)
        trial.operation.erase()

        def seconds() -> tuple[float, float]:
            costs = state.machine.costs
            best = state.machine.seconds(2.0 * costs.contraction_rate * likely_work(usual, costs))
            return best * (1 + more), best

        return replace(proposal, pays=more > self.slack, seconds=seconds, reason=f"where its plan would take {more:.0%} longer")

    def _loss(self, copy: func.FuncOp, usual: Choice, state: PassState) -> float:
        """The extra time of the copy with the plan for likely sizes over its own plan, as a fraction of its time."""
        group = FusionGroup.from_kernel(copy.operation)
        leader = leader_of(group)
        choice = None if leader is None else FuseLoops().choose(group, leader, state.machine)
        if choice is None or leader is None:
            return 0.0
        dims = {axis.leader: step for axis, step in usual.steps.items()}
        steps: Steps = {
            axis: dims[axis.leader] for axis in choice.plan.axes if axis.leader in dims and dims[axis.leader] < leader.root.extents[axis.leader]
        }
        costs = state.machine.costs
        more = choice.cost_of(steps)[0] - choice.cost[0]
        return costs.flops_per_byte * more / (2 * costs.contraction_rate * likely_work(group, costs))
