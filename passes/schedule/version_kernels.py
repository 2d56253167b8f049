"""The pass that gives kernels a second version, for sizes that are much smaller than is likely."""

from dataclasses import dataclass
from math import isqrt
from typing import Any

from stepwell.dialects.core.kernel_info import KernelInfo, Version
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Size, product
from stepwell.dialects.core.symbolic_shapes import fewer, hints_around, likely
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import functions
from stepwell.passes.linalg.fusion_group import FusionGroup
from stepwell.passes.schedule.fuse_loops import Choice, FuseLoops, Steps, leader_of, likely_work
from stepwell.passes.schedule.parallel import QUICK


@register_pass("version-kernels", level="linalg", optional=True)
@dataclass
class VersionKernels(Pass):
    """Make a second version of kernels that `fuse-loops` is to treat otherwise where sizes are much smaller than is likely.

    rewrite: @k  ->  @k and a copy @k.few {stepwell.version = {of = "k", size = "n", most = 2}, stepwell.kernel_hints = {n = 1}}

    Both compute the same for any sizes. Which loops are fused is chosen by likely sizes (four images, say); a quarter of these may call for another
    plan: of a convolution whose transformed filters are many, all at once for four images, a few filters at a time for one. If the
    plan for likely sizes costs more than a part `slack` of the kernel's time there, the copy gets that other plan, and `merge-versions` makes the
    choice between both part of the kernel. It is made by the work of the leader as far as that depends on sizes, in the middle (the geometric mean)
    of both.

    `flops_per_byte` is the arithmetic that a core does in the time that a byte takes from memory (see `use-winograd`).
    """

    flops_per_byte: float = 4.0
    slack: float = 0.08

    def run(self, op: ir.Operation, state: PassState) -> None:
        if state.target is None:
            state.decline(self.name, op, NoMatch("there is no target whose caches could hold slices"))
            return
        for kernel in [f for f in functions(op) if KernelInfo(f).is_kernel and any(KernelInfo(f).sizes)]:
            state.count(self.name, int(self._version(kernel, state)))

    def _version(self, kernel: Any, state: PassState) -> bool:
        usual = FusionGroup.of(kernel.operation)
        leader = leader_of(usual)
        choice = None if leader is None else FuseLoops().choose(usual, leader, state.machine)
        if choice is None or leader is None:
            return False
        size = product([bound for bound in leader.root.bounds if isinstance(bound, Size)])
        if not isinstance(size, Size):
            return False
        copy: Any = kernel.operation.clone(ir.InsertionPoint(kernel))
        info, hints = KernelInfo(copy), hints_around(kernel.operation)
        info.hints = fewer(size.symbols, hints)
        most = isqrt(likely(size, info.hints) * likely(size, hints))
        more = self._loss(copy, choice, state)
        if more <= self.slack or most == 0:
            copy.operation.erase()
            return False
        name = kernel.sym_name.value
        copy.operation.attributes["sym_name"] = ir.StringAttr.get(f"{name}.few")
        info.version = Version(name, size, most)
        state.did(self.name, kernel.operation, f"has a version of its own where {size} is at most {most}: its plan costs {more:.0%} more there")
        return True

    def _loss(self, copy: Any, usual: Choice, state: PassState) -> float:
        """How much longer a kernel of few elements takes with the plan for likely sizes than with its own, as a part of its time."""
        group = FusionGroup.of(copy.operation)
        leader = leader_of(group)
        choice = None if leader is None else FuseLoops().choose(group, leader, state.machine)
        if choice is None or leader is None:
            return 0.0
        dims = {axis.leader: step for axis, step in usual.steps.items()}
        steps: Steps = {
            axis: dims[axis.leader] for axis in choice.plan.axes if axis.leader in dims and dims[axis.leader] < leader.root.extents[axis.leader]
        }
        more = choice.cost_of(steps)[0] - choice.cost[0]
        return self.flops_per_byte * more / (2 * QUICK * likely_work(group))
