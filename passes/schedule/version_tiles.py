"""The pass that gives products of few rows other register tiles."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Size
from stepwell.dialects.sched.nest import NestVersion
from stepwell.dialects.sched.schedule_info import ScheduleInfo
from stepwell.passes.framework.registry import PassState, register_pass
from stepwell.passes.framework.versions import VersionPass, VersionProposal
from stepwell.passes.linalg.structured import Structured, structured_ops


@register_pass("version-tiles", level="scheduled", anchor="func.func", optional=True)
@dataclass
class VersionTiles(VersionPass[Structured]):
    """Give a product of panels by rows that only a run counts nests of its own for one row and for two.

    rewrite: generic(x, w) {sched.nest = N}  ->  the same with {sched.versions = [{dim = 0, count = 1, nest = N1}, {dim = 0, count = 2, nest = N2}]}

    With so few rows, a tile of one panel would have too few accumulators: each would wait for the one before. N1 and N2 compute several panels at
    once, without prefetches. `lower-to-affine` emits all nests, and a branch between them.
    """

    same_bits: ClassVar[bool] = True

    def subjects(self, op: ir.Operation) -> Iterable[Structured]:
        return structured_ops(op) if any(KernelInfo(op).sizes) else []

    def propose(self, subject: Structured, state: PassState) -> VersionProposal[Structured] | None:
        info = ScheduleInfo(subject.operation)
        if not subject.reduction_dims or subject.fused or info.versions:
            return None
        nest = info.nest
        outer = [d for d in nest.order if d in subject.parallel_dims and d != nest.vector]
        rows = [d for d in outer if d in subject.open]
        size = subject.bounds[rows[0]] if len(rows) == 1 else None
        if not isinstance(size, Size) or nest.block:
            return None
        shared = [a for a in subject.inputs if a.is_shaped and a.kind(rows[0]) != "scalar"]  # the other operand of the panels
        panels = [d for d in outer if d not in rows and nest.unroll[d] == 1 and any(a.kind(d) == "scalar" for a in shared)]
        costs = state.machine.costs
        most = 1 << (min(costs.accumulators // costs.panel_registers, nest.unroll[rows[0]]).bit_length() - 1)
        counts = [count for count in (1, 2) if count < most]
        if not panels or not counts:
            return None

        def version(count: int) -> NestVersion:
            tile = {rows[0]: count, panels[0]: min(most // count, subject.sizes[panels[0]])}
            return NestVersion(rows[0], count, replace(nest, unroll=tuple(tile.get(d, n) for d, n in enumerate(nest.unroll)), prefetch=0, along=-1))

        def specialise(op: Structured) -> None:
            ScheduleInfo(op.operation).versions = tuple(map(version, counts))

        return VersionProposal(subject.operation, size, counts[-1], specialise, reason="which computes several panels at once")

    def copy(self, subject: Structured, proposal: VersionProposal[Structured]) -> Structured:
        """The op itself: its versions are other nests beside its own."""
        return subject
