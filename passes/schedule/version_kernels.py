"""The pass that gives kernels a second version for small sizes."""

from dataclasses import dataclass
from math import isqrt
from typing import Any

from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Size, product
from stepwell.dialects.core.symbolic_shapes import fewer, hints_around, likely
from stepwell.passes.framework.choices import ONE_VERSION, TWO_VERSIONS, Candidate
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import functions, version_for_few
from stepwell.passes.linalg.fusion_group import FusionGroup
from stepwell.passes.schedule.fuse_loops import FuseLoops
from stepwell.passes.schedule.loop_plans import Choice, Steps, leader_of, likely_work


@register_pass("version-kernels", level="linalg", optional=True)
@dataclass
class VersionKernels(Pass):
    """Give a kernel a second version for small sizes, if `fuse-loops` would choose another plan for these.

    rewrite: @k  ->  @k and a copy @k.few {stepwell.version = {of = "k", size = "n", most = 2}, stepwell.kernel_hints = {n = 1}}

    Both versions compute the same for any size. `fuse-loops` compares plans at likely sizes, such as four images. For a quarter of these another plan
    may be better: a convolution with many filters transforms all of them at once for four images, and a few filters at a time for one image. If the
    plan for likely sizes costs more than `slack` of the kernel's time at the small sizes, the kernel gets a copy with hints for small sizes.

    `merge-versions` later combines both into one function, which compares `size`, the product of the leader's loop bounds that are symbols, with
    `most`, the geometric mean of that product at small and at likely sizes.
    """

    slack: float = 0.08

    def run(self, op: ir.Operation, state: PassState) -> None:
        if state.target is None:
            state.decline(self.name, op, NoMatch("there is no target whose caches could hold slices"))
            return
        kernels = [f for f in functions(op) if KernelInfo(f).is_kernel and any(KernelInfo(f).sizes)]
        done = {version.of for kernel in kernels if (version := KernelInfo(kernel).version) is not None}
        for kernel in kernels:
            if KernelInfo(kernel).version is None and kernel.sym_name.value not in done:
                state.count(self.name, int(self._version(kernel, state)))

    def _version(self, kernel: ir.OpView, state: PassState) -> bool:
        usual = FusionGroup.from_kernel(kernel.operation)
        leader = leader_of(usual)
        choice = None if leader is None else FuseLoops().choose(usual, leader, state.machine)
        if choice is None or leader is None:
            return False
        size = product([bound for bound in leader.root.bounds if isinstance(bound, Size)])
        if not isinstance(size, Size):
            return False
        hints = hints_around(kernel.operation)
        most = isqrt(likely(size, fewer(size.symbols, hints)) * likely(size, hints))
        if most == 0:
            return False
        copy = version_for_few(kernel, size, most)
        more = self._loss(copy, choice, state)

        def candidates() -> list[Candidate]:
            costs = state.machine.costs
            seconds = state.machine.seconds(2.0 * costs.contraction_rate * likely_work(usual, costs))
            return [Candidate(ONE_VERSION, seconds * (1 + more)), Candidate(TWO_VERSIONS, seconds)]

        if state.choose("versions", leader.root.operation, candidates, ONE_VERSION if more <= self.slack else TWO_VERSIONS) == ONE_VERSION:
            copy.operation.erase()
            return False
        state.did(self.name, kernel.operation, f"gets a version for {size} up to {most}, where its plan would take {more:.0%} longer")
        return True

    def _loss(self, copy: Any, usual: Choice, state: PassState) -> float:
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
