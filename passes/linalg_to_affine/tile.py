"""A register tile at a point of the code: its points, and the values it reads, computes and stores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from stepwell.dialects.core.mlir import ir
from stepwell.passes.linalg.accesses import Access
from stepwell.passes.linalg_to_affine.context import NestContext
from stepwell.passes.linalg_to_affine.operands import load_at, store_at
from stepwell.passes.linalg_to_affine.position import Offsets, Position
from stepwell.passes.linalg_to_affine.scalar_body import as_vector
from stepwell.passes.linalg_to_affine.values import constant_of, index_value
from stepwell.passes.schedule.segments import Segment


@dataclass(frozen=True, eq=False)
class RegisterTile:
    """The points of an op's iteration space whose values are in registers at the same time, seen from a position in its loops."""

    at: Position
    points: Sequence[Offsets]
    """Each point is one element of an output, or a vector of `width` neighbours."""
    width: int
    whole: bool
    """Whether it has all points of the schedule's tile; remainder tiles have fewer."""
    stretches: Mapping[int, Segment] = field(default_factory=dict)
    """The segments of reduction dimensions that are summed; dimensions without an entry are summed completely."""

    @property
    def context(self) -> NestContext:
        """The nest of the tile."""
        return self.at.context

    def seen_from(self, at: Position) -> "RegisterTile":
        """The tile from another position, inside a reduction loop."""
        return replace(self, at=at)

    def stretch(self, dim: int) -> Segment:
        """The summed part of a dimension, one iteration at a time."""
        return self.stretches.get(dim) or Segment(0, self.at.extents[dim], 1)

    @property
    def lanes(self) -> int:
        """The lanes of an accumulator: 1 if vectors lie along a reduction dimension, and are folded."""
        return 1 if self.context.lanes_reduce else self.width

    def groups(self, values: Sequence[ir.Value]) -> list[list[ir.Value]]:
        """The values of all points, grouped by point: one for each output."""
        count = len(self.context.root.outputs)
        return [list(values[i : i + count]) for i in range(0, len(values), count)]

    # -- initial values -----------------------------------------------------------------------------------------------------------

    def starts(self) -> list[ir.Value]:
        """The initial accumulators, for each point one per output: the fill's value, or the value in memory.

        None for an op that has no reduction and does not read the previous value.
        """
        root, shown = self.context.root, self.context.shown
        return [self._start(out, p, moves) for p in self.points for out, moves in zip(root.outputs, shown, strict=True)]

    def _start(self, out: Access, point: Offsets, shown: bool) -> ir.Value:
        context = self.context
        if not self.at.begins:
            return self.load(out, point)
        if shown or not out.used:
            # The body ignores the previous value, so nothing is loaded; but loops carry a value, so start with zero.
            if context.root.reduction_dims:
                return as_vector(constant_of(out.element_type, 0), self.lanes)
            return None  # type: ignore[return-value]  # without loops nobody reads it, and strategies that sum need not check
        if context.initial is not None:
            return as_vector(context.initial, self.lanes)
        return self.load(out, point)

    def zeros(self, count: int) -> list[ir.Value]:
        """`count` accumulators that are zero."""
        return [as_vector(constant_of(self.context.root.outputs[0].element_type, 0), self.lanes)] * count

    # -- operands ---------------------------------------------------------------------------------------------------------------

    def address(self, access: Access, point: Offsets, lane: int = 0) -> ir.AffineMap:
        """The address of an access at a point."""
        return self.at.address(access, point, lane)

    def place(self, access: Access, point: Offsets) -> str:
        """The text of an address: points with equal texts read the same elements."""
        return self.at.place(access, point)

    def load(self, access: Access, point: Offsets) -> ir.Value:
        """The value that an access reads at a point: a scalar, or a vector if it moves along the vectors' dimension."""
        return load_at(self.at, access, point, self.width)

    def store(self, access: Access, value: ir.Value, point: Offsets) -> None:
        """Store the value of a point."""
        store_at(self.at, access, value, point, self.width)

    def index(self, dim: int, point: Offsets, width: int) -> ir.Value:
        """The value of `linalg.index dim`: a scalar, or a vector of successive indices along the vector dimension."""
        expr = self.at.point_exprs(point)[dim]
        return index_value(expr, self.at.ivs, width if dim == self.context.nest.vector else 1)

    def number(self, n: int, point: Offsets) -> float | None:
        """The element of input `n`, a constant array, at `point`, if it is the same in every lane and loop iteration; otherwise None."""
        access = self.context.root.inputs[n]
        if self.width > 1 and access.kind(self.context.nest.vector) != "scalar":
            return None
        place = list(self.address(access, point).results)
        if not all(isinstance(r, ir.AffineConstantExpr) for r in place):
            return None
        return self.context.constant_inputs[n][tuple(r.value for r in place)].item()

    def body(self, inputs: Sequence[ir.Value | None], before: Sequence[ir.Value | None], point: Offsets) -> list[ir.Value]:
        """The results of the root's body for these inputs and accumulators at a point; values that it does not read may be None."""
        return self.context.body(self.context.root).emit([*inputs, *before], self.width, partial(self.index, point=point, width=self.width))
