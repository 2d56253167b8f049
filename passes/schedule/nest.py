"""Schedules of structured ops: a nest's knobs, their legality, and the registry of functions that choose them."""

from collections.abc import Mapping
from math import prod
from typing import Any

from stepwell.dialects.sched.nest import NestKnobs, NestVersion
from stepwell.dialects.sched.schedule_info import ScheduleInfo
from stepwell.dialects.support.errors import ScheduleError
from stepwell.dialects.target.description import Target
from stepwell.dialects.target.dot_products import NONE
from stepwell.passes.linalg.accesses import Access
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.schedule.intrinsics import available
from stepwell.passes.schedule.space import Knob, Value, block_knob, check_values, knobs, tile_knob

MAX_TILE = 256
"""The largest number of points in a register tile; each point is emitted separately."""


class Nest(NestKnobs):
    """The schedule of a structured op: the knobs of its nest, legal for the op and its target (see `NestKnobs` for each knob)."""

    @staticmethod
    def from_op(op: Structured, target: Target | None = None, given: NestKnobs | None = None) -> "Nest":
        """The schedule on `op`, or `given`. Raises ScheduleError, naming the op, if there is none or if it is not legal for op and target."""
        info = ScheduleInfo(op.operation)
        nest = Nest(**vars(given or info.nest))
        try:
            nest.check(op, target)
        except ScheduleError as error:
            raise ScheduleError(f"{info.where}: {error.args[0]}, in {ScheduleInfo.nest.kind.encode(nest)}") from None
        return nest

    @staticmethod
    def versions_of(op: Structured, target: Target | None = None) -> "list[tuple[NestVersion, Nest]]":
        """The nests of `op` for small numbers of iterations. Raises as `from_op`, and for a dimension whose size is static or fused."""
        info = ScheduleInfo(op.operation)
        wrong = [version.dim for version in info.versions if version.dim not in op.open]
        if wrong:
            raise ScheduleError(f"{info.where}: a version's dim: {wrong[0]} is not legal, expected a dynamic dimension, of {sorted(op.open)}")
        return [(version, Nest.from_op(op, target, version.nest)) for version in info.versions]

    def values(self, op: Structured) -> dict[str, Value]:
        """The values of the knobs of `op`, by name (see `knobs.knobs`)."""
        steps = {tile_knob(d): self.unroll[d] for d in op.parallel_dims}
        blocks = {block_knob(d): self.blocks.get(d, 0) for d in range(len(op.sizes))}
        lanes: dict[str, Value] = {"vector": self.vector, "width": self.width, "intrinsic": self.intrinsic}
        return {"order": self.order, "parallel": self.parallel, **steps, **lanes, **blocks, "prefetch": self.prefetch, "along": self.along}

    @staticmethod
    def from_values(values: Mapping[str, Any], op: Structured, target: Target | None, known: tuple[Knob, ...] | None = None) -> "Nest":
        """The schedule of `op` with these values of its knobs; lists count as tuples. Raises ScheduleError, naming the knob that is wrong.

        `known` are the op's knobs, for callers that keep them.
        """
        known = known or knobs(op, target)
        given = {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
        check_values(given, known)
        nest = Nest.of_values(given, op)
        nest.check(op, target, known)
        return nest

    @staticmethod
    def of_values(values: Mapping[str, Any], op: Structured) -> "Nest":
        """The same without any check."""
        given = dict(values)
        unroll = tuple(given.pop(tile_knob(d), 1) for d in range(len(op.sizes)))
        block = tuple(given.pop(block_knob(d)) for d in range(len(op.sizes)))
        return Nest(unroll=unroll, block=block if any(block) else (), **given)

    def check(self, op: Structured, target: Target | None, known: tuple[Knob, ...] | None = None) -> None:
        """Raise ScheduleError, naming the knob, the legal values and the given one, if this schedule is not legal for `op` on `target`.

        `known` are the op's knobs, for callers that keep them.
        """
        dims = len(op.sizes)
        if len(self.unroll) != dims or any(self.unroll[d] != 1 for d in op.reduction_dims):
            raise ScheduleError(f"unroll: {list(self.unroll)} is not legal, expected {dims} numbers, 1 for each reduction of {op.reduction_dims}")
        if len(self.block) not in (0, dims):
            raise ScheduleError(f"block: {list(self.block)} is not legal, expected {dims} numbers, or none")
        check_values(self.values(op), known or knobs(op, target))
        for d, size in self.blocks.items():
            step = self.step(d)
            if d in op.reduction_dims and self.vector in op.reduction_dims:
                raise ScheduleError(f"knob '{block_knob(d)}': {size} is not legal, expected 0 where vectors lie along a summed dimension")
            if size % step:
                raise ScheduleError(f"knob '{block_knob(d)}': {size} is not legal, expected 0 or a multiple of {step}, the step along this dimension")
        if self.intrinsic != NONE:
            chosen = available(op, target)[self.intrinsic].intrinsic
            unit = chosen.lanes * (chosen.depth if self.vector in op.reduction_dims else 1)
            if self.vector < 0 or self.width % unit:
                raise ScheduleError(f"knob 'width': {self.width} is not legal for the intrinsic '{chosen.name}', expected a multiple of {unit}")
        tile = prod(self.unroll)
        if tile > MAX_TILE:
            raise ScheduleError(f"unroll: a register tile of {tile} is not legal, expected a product of at most {MAX_TILE}")


def transposed_tile_dim(access: Access, nest: NestKnobs) -> int | None:
    """The dimension of the register tile along which an input is contiguous whose vectors would have to be gathered; None if there is none.

    The tile reads such an input along that dimension and transposes it in registers.
    """
    if nest.vector < 0 or not access.is_shaped or not access.is_gathered(nest.vector):
        return None
    return next((d for d, count in enumerate(nest.unroll) if count > 1 and d != nest.vector and access.kind(d) == "vector"), None)


def sums_in_blocks(op: Structured) -> bool:
    """Whether the schedule of `op` keeps partial sums in its output between blocks."""
    info = ScheduleInfo(op.operation)
    return info.is_scheduled and any(d in op.reduction_dims for d in info.nest.blocks)
