"""The position of a point of the code in a nest's loops, and the addresses that follow from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Size
from stepwell.dialects.core.symbolic_shapes import SymbolicShapes
from stepwell.passes.linalg.accesses import Access
from stepwell.passes.linalg_to_affine.context import NestContext
from stepwell.passes.linalg_to_affine.masks import first_lanes
from stepwell.passes.schedule.segments import Segment

Offsets = dict[int, int]
"""Offsets inside the register tile, by dimension."""
_Exprs = dict[tuple[int, int, bool], Any]  # the bindings have no common type for affine expressions


@dataclass(frozen=True, eq=False)
class Position:
    """The position in the loops around a point of the code, and the iterations left to do inside. Immutable: a loop passes a new one to its body."""

    context: NestContext
    extents: tuple[int | Size, ...]
    """For each dimension, the number of iterations that the loops still have to walk: its size, or that of the current block."""
    ivs: tuple[ir.Value, ...]
    where: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Maps a dimension to the indices in `ivs` whose sum it is: the loop over its blocks, and the loop in a block."""
    fixed: Mapping[int, int] = field(default_factory=dict)
    """Maps a dimension to the offset added to them: the whole value if there is no loop."""
    taken: Mapping[int, int] = field(default_factory=dict)
    """Maps a reduction dimension to the number of its iterations in one iteration of the loop around."""
    mask: ir.Value | None = None
    """The mask of active lanes, if not all are active."""
    begins: bool = True
    """Whether the reduction loops to come start the sums, which they do only in the first block of a sum."""
    ends: bool = True
    """Whether the reduction loops to come finish the sums."""
    _exprs: _Exprs = field(default_factory=dict)
    _addresses: dict[tuple[Any, ...], ir.AffineMap] = field(default_factory=dict)

    @staticmethod
    def outside(context: NestContext, extents: Mapping[int, int] | None = None) -> "Position":
        """The position outside all loops; `extents` replaces some of the extents."""
        root = context.root
        exact = [bound if d in root.open else root.sizes[d] for d, bound in enumerate(root.bounds)]
        return Position(context, tuple(exact), tuple(context.enclosing.ivs)).within(extents or {})

    # -- the positions inside loops ---------------------------------------------------------------------------------------------

    def entered(self, dim: int, iv: ir.Value) -> "Position":
        """The position inside a loop over `dim`, at `iv` further along it."""
        where = {**self.where, dim: (*self.where.get(dim, ()), len(self.ivs))}
        return replace(self, ivs=(*self.ivs, iv), where=where, _exprs={}, _addresses={})

    def moved(self, dim: int, low: int | Size) -> "Position":
        """The position `low` further along `dim`, without a loop."""
        if not isinstance(low, int):
            return self.entered(dim, self.value(low))
        return replace(self, fixed={**self.fixed, dim: self.fixed.get(dim, 0) + low}, _exprs={}, _addresses={})

    def within(self, extents: Mapping[int, int | Size]) -> "Position":
        """The position with only `extents` left to walk of some dimensions."""
        return replace(self, extents=tuple(extents.get(d, extent) for d, extent in enumerate(self.extents)))

    def taking(self, dim: int, count: int) -> "Position":
        """The position in iterations that cover `count` iterations of a reduction dimension."""
        return replace(self, taken={**self.taken, dim: count})

    def in_sum_block(self, *, begins: bool, ends: bool) -> "Position":
        """The position in a block of a sum, which may start the sum, or finish it."""
        return replace(self, begins=begins, ends=ends)

    def under(self, segment: Segment) -> "Position":
        """The position with the vectors masked as the segment requires."""
        if not segment.masked:
            return self
        return replace(self, mask=first_lanes(segment.step, self.value(segment.high - segment.low)))

    # -- addresses --------------------------------------------------------------------------------------------------------------

    def value(self, size: int | Size) -> ir.Value:
        """A size as a value that is valid as a symbol of affine loops."""
        return value_of(self.context.root.shapes, size)

    def point_exprs(self, point: Offsets, lane: int = 0, *, own: bool = False) -> list[Any]:
        """For each dimension, the affine expression of the loop variables for its value at `point` of the tile.

        With `own`, its value inside the current iteration of the fused loops.
        """
        vector = self.context.nest.vector
        return [self._expr(d, point.get(d, 0) + (lane if d == vector else 0), own) for d in range(len(self.context.sizes))]

    def _expr(self, d: int, offset: int, own: bool) -> Any:
        """The expression of dimension `d` plus `offset`: see `point_exprs`."""
        expr = self._exprs.get((d, offset, own))
        if expr is None:
            enclosing = self.context.enclosing
            expr = ir.AffineConstantExpr.get(self.fixed.get(d, 0) + offset)
            for place in reversed(self.where.get(d, ())):
                expr = ir.AffineExpr.get_add(ir.AffineDimExpr.get(place), expr)
            if d in enclosing.places and not own:
                expr = ir.AffineExpr.get_add(ir.AffineDimExpr.get(enclosing.places[d]) * self.context.sizes[d], expr)
            self._exprs[d, offset, own] = expr
        return expr

    def address(self, access: Access, point: Offsets, lane: int = 0, across: Sequence[Any] | None = None) -> ir.AffineMap:
        """The address of an access at `point`; `across` gives an epilogue's dimensions as expressions of the root's."""
        # Only the dimensions along which the access moves matter; an epilogue's may move along any of the root's.
        dims = range(len(self.context.sizes)) if across is not None else access.moving
        vector = self.context.nest.vector
        offsets = tuple(point.get(d, 0) + (lane if d == vector else 0) for d in dims)
        key = (access.value, access.map, across is not None, offsets)
        if key not in self._addresses:
            self._addresses[key] = self._address(access, point, lane, across)
        return self._addresses[key]

    def place(self, access: Access, point: Offsets) -> str:
        """The text of an address: points with equal texts read the same elements."""
        return self.context.text(self.address(access, point))

    def _address(self, access: Access, point: Offsets, lane: int, across: Sequence[Any] | None) -> ir.AffineMap:
        count = len(self.ivs)
        shrunk = self.context.enclosing.shrunk.get(access.value)

        def within(own: bool) -> ir.AffineMap:
            inner = ir.AffineMap.get(count, 0, self.point_exprs(point, lane, own=own))
            return inner if across is None else ir.AffineMap.get(count, 0, [e.compose(inner) for e in across])

        results = access.results
        if shrunk is None and across is None and min(access.dims, default=0) >= 0:  # the common case: each result is a dimension
            vector = self.context.nest.vector
            exprs = [self._expr(d, point.get(d, 0) + (lane if d == vector else 0), False) for d in access.dims]
            return ir.AffineMap.get(count, 0, exprs)
        places = shrunk.places if shrunk else frozenset()
        whole, own = within(False), within(True) if places else None
        return ir.AffineMap.get(count, 0, [r.compose(own if i in places else whole) for i, r in enumerate(results)])


def value_of(shapes: SymbolicShapes, size: int | Size) -> ir.Value:
    """A size as a value at the top of its function, where affine loops can use it as a symbol."""
    return shapes.value(size, ir.InsertionPoint.at_block_begin(shapes.block))
