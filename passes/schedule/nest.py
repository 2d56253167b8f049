"""Schedules of structured ops: a nest's knobs, their legality, and the registry of functions that choose them."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from stepwell.dialects.core.attributes import to_attribute, to_python
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.sched.dialect import NestAttr
from stepwell.dialects.support.errors import ScheduleError
from stepwell.dialects.target.description import Target
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.schedule.intrinsics import NONE, available
from stepwell.passes.schedule.space import Value, block_knob, check_values, knobs, tile_knob

ATTRIBUTE = "sched"  # the name under which an op carries its schedule
MAX_TILE = 256  # points of a register tile: each is emitted


@dataclass(frozen=True)
class Nest:
    """How a structured op's iteration space is walked.

    - `order`: the parallel dimensions, outermost first; reductions follow inside, in the op's order.
    - `parallel`: how many leading loops of `order` run on threads.
    - `unroll`: for each dimension, how many of its iterations the register tile holds.
    - `block`: for each dimension, how many of its iterations make a block, 0 for all; empty where no dimension has blocks. Loops over
      blocks lie outside of all others, so that what a block reads stays in a cache meanwhile. Blocks of a summed dimension leave their
      sums in memory for the next.
    - `prefetch`: how many rounds of the innermost summed loop ahead its vectors are asked for; 0 leaves that to the hardware.
    - `vector`: the dimension along which vectors lie, or -1 for none. A reduction dimension gives vector accumulators that are
      added up at the end.
    - `width`: elements of one vector.
    - `intrinsic`: the name of an intrinsic that computes blocks of the tile (see `intrinsics`), or "none" for the op's own body.
    """

    order: tuple[int, ...]
    parallel: int
    unroll: tuple[int, ...]
    vector: int
    width: int
    intrinsic: str = NONE
    block: tuple[int, ...] = ()
    prefetch: int = 0

    @property
    def blocks(self) -> dict[int, int]:
        """The dimensions that are walked in blocks, and the size of these."""
        return {d: size for d, size in enumerate(self.block) if size}

    def step(self, dim: int) -> int:
        """How many iterations of `dim` a round of its innermost loop is: those of the tile, or of a vector."""
        return self.width if dim == self.vector else self.unroll[dim]

    def to_attribute(self) -> NestAttr:
        """The `#sched.nest` attribute of these knobs, in the current context."""
        knobs = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.default != getattr(self, f.name)}
        encoded = {k: ir.DenseI64ArrayAttr.get(list(v)) if isinstance(v, tuple) else v for k, v in knobs.items()}
        attribute: NestAttr = NestAttr.get(to_attribute(encoded))
        return attribute

    @staticmethod
    def of(op: Structured, target: Target | None = None) -> "Nest":
        """The schedule that `op` carries. Raises ScheduleError, naming the op, if there is none or if it is not legal for op and target."""
        operation = op.operation
        where = f"'{operation.name}' at {operation.location}"
        if ATTRIBUTE not in operation.attributes:
            raise ScheduleError(f"{where} carries no '{ATTRIBUTE}' attribute")
        attribute = operation.attributes[ATTRIBUTE]
        if not isinstance(attribute, NestAttr):
            raise ScheduleError(f"{where}: schedule must be a #sched.nest, got {attribute}")
        fields = to_python(ir.DictAttr(attribute.knobs))
        expected = [f.name for f in dataclasses.fields(Nest)]
        optional = [f.name for f in dataclasses.fields(Nest) if f.default is not dataclasses.MISSING]
        if not set(expected) >= set(fields) >= set(expected) - set(optional):
            raise ScheduleError(f"{where}: {attribute} must have the knobs {', '.join(expected)}; of these {', '.join(optional)} may be left out")
        nest = Nest(**fields)
        try:
            nest.check(op, target)
        except ScheduleError as error:
            raise ScheduleError(f"{where}: {error.args[0]}, in {attribute}") from None
        return nest

    def values(self, op: Structured) -> dict[str, Value]:
        """The values of the knobs of `op`, by name (see `knobs.knobs`)."""
        steps = {tile_knob(d): self.unroll[d] for d in op.parallel_dims}
        blocks = {block_knob(d): self.blocks.get(d, 0) for d in range(len(op.sizes))}
        lanes: dict[str, Value] = {"vector": self.vector, "width": self.width, "intrinsic": self.intrinsic}
        return {"order": self.order, "parallel": self.parallel, **steps, **lanes, **blocks, "prefetch": self.prefetch}

    @staticmethod
    def from_values(values: Mapping[str, Any], op: Structured, target: Target | None) -> "Nest":
        """The schedule of `op` with these values of its knobs; lists count as tuples. Raises ScheduleError naming the knob that is wrong."""
        given: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
        check_values(given, knobs(op, target))
        unroll = tuple(given.pop(tile_knob(d), 1) for d in range(len(op.sizes)))
        block = tuple(given.pop(block_knob(d)) for d in range(len(op.sizes)))
        nest = Nest(unroll=unroll, block=block if any(block) else (), **given)
        nest.check(op, target)
        return nest

    def check(self, op: Structured, target: Target | None) -> None:
        """Raise ScheduleError, naming the knob, what is legal and what came, if this schedule is not legal for `op` on `target`."""
        dims = len(op.sizes)
        if len(self.unroll) != dims or any(self.unroll[d] != 1 for d in op.reduction_dims):
            raise ScheduleError(f"unroll: {list(self.unroll)} is not legal, expected {dims} numbers, 1 for each reduction of {op.reduction_dims}")
        if len(self.block) not in (0, dims):
            raise ScheduleError(f"block: {list(self.block)} is not legal, expected {dims} numbers, or none")
        check_values(self.values(op), knobs(op, target))
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


def sums_in_blocks(op: Structured) -> bool:
    """Whether the schedule that `op` carries leaves sums in its output and takes them up again."""
    attribute = op.operation.attributes.get(ATTRIBUTE)
    block = to_python(ir.DictAttr(attribute.knobs)).get("block", ()) if isinstance(attribute, NestAttr) else ()
    return any(size and d in op.reduction_dims for d, size in enumerate(block))
