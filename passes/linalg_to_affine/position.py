"""Where the loops of a nest stand at a point of the code, and what that makes of an address."""

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
"""A position inside the register tile, by dimension."""
_Exprs = dict[tuple[int, int, bool], Any]  # the bindings have no one type of affine expressions


@dataclass(frozen=True, eq=False)
class Position:
    """Where the loops around a point of the code stand, and what they leave to do inside. It never changes: a loop hands another one to its body."""

    context: NestContext
    extents: tuple[int | Size, ...]
    """For each dimension, how many iterations the loops still have to walk: its size, or that of the block they are in."""
    ivs: tuple[ir.Value, ...]
    where: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Dimension -> the places in `ivs` whose sum it is: the loop over its blocks, and the one in a block."""
    fixed: Mapping[int, int] = field(default_factory=dict)
    """Dimension -> what is added to them: all of it where no loop is needed."""
    taken: Mapping[int, int] = field(default_factory=dict)
    """Summed dimension -> how many iterations a round of the loop around takes in."""
    mask: ir.Value | None = None
    """The lanes of vectors that are on, where not all of them are."""
    begins: bool = True
    """Whether the summed loops to come start the sums: they do not in every block of a sum."""
    ends: bool = True
    """Whether the summed loops to come finish the sums."""
    _exprs: _Exprs = field(default_factory=dict)
    _addresses: dict[tuple[Any, ...], ir.AffineMap] = field(default_factory=dict)

    @staticmethod
    def outside(context: NestContext, extents: Mapping[int, int] | None = None) -> "Position":
        """The position in front of all loops; `extents` replaces some of them."""
        root = context.root
        exact = [bound if d in root.open else root.sizes[d] for d, bound in enumerate(root.bounds)]
        return Position(context, tuple(exact), tuple(context.enclosing.ivs)).within(extents or {})

    # -- the positions inside loops ---------------------------------------------------------------------------------------------

    def entered(self, dim: int, iv: ir.Value) -> "Position":
        """The position inside of a loop over `dim`, or `iv` further along it."""
        where = {**self.where, dim: (*self.where.get(dim, ()), len(self.ivs))}
        return replace(self, ivs=(*self.ivs, iv), where=where, _exprs={}, _addresses={})

    def moved(self, dim: int, low: int | Size) -> "Position":
        """The position `low` further along `dim`, without a loop."""
        if not isinstance(low, int):
            return self.entered(dim, self.value(low))
        return replace(self, fixed={**self.fixed, dim: self.fixed.get(dim, 0) + low}, _exprs={}, _addresses={})

    def within(self, extents: Mapping[int, int | Size]) -> "Position":
        """The position with so much left to walk of some dimensions."""
        return replace(self, extents=tuple(extents.get(d, extent) for d, extent in enumerate(self.extents)))

    def taking(self, dim: int, count: int) -> "Position":
        """The position in rounds that take in `count` iterations of a summed dimension."""
        return replace(self, taken={**self.taken, dim: count})

    def part_of_sum(self, *, begins: bool, ends: bool) -> "Position":
        """The position in a block of a sum, which perhaps starts it, or finishes it."""
        return replace(self, begins=begins, ends=ends)

    def under(self, segment: Segment) -> "Position":
        """The position where vectors have the lanes that the segment leaves on."""
        if not segment.masked:
            return self
        return replace(self, mask=first_lanes(segment.step, self.value(segment.high - segment.low)))

    # -- addresses --------------------------------------------------------------------------------------------------------------

    def value(self, size: int | Size) -> ir.Value:
        """A size as a value that affine loops can have as a symbol."""
        return value_of(self.context.root.shapes, size)

    def point_exprs(self, point: Offsets, lane: int = 0, *, own: bool = False) -> list[Any]:
        """For each dimension, the affine expression of the loop variables that gives its value at `point` of the tile.

        With `own`, its value inside the current round of the fused loops.
        """
        vector = self.context.nest.vector
        return [self._expr(d, point.get(d, 0) + (lane if d == vector else 0), own) for d in range(len(self.context.sizes))]

    def _expr(self, d: int, offset: int, own: bool) -> Any:
        """The expression of dimension `d`, so much further: see `point_exprs`."""
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
        """Where an access goes at `point`; `across` gives an epilogue's dimensions as expressions of the root's."""
        # Of the point, only the dimensions count that the access moves along; an epilogue's moves along any of the root's.
        dims = range(len(self.context.sizes)) if across is not None else access.moving
        vector = self.context.nest.vector
        offsets = tuple(point.get(d, 0) + (lane if d == vector else 0) for d in dims)
        key = (access.value, access.map, across is not None, offsets)
        if key not in self._addresses:
            self._addresses[key] = self._address(access, point, lane, across)
        return self._addresses[key]

    def place(self, access: Access, point: Offsets) -> str:
        """The text of an address: points of one text read the same elements."""
        return self.context.text(self.address(access, point))

    def _address(self, access: Access, point: Offsets, lane: int, across: Sequence[Any] | None) -> ir.AffineMap:
        count = len(self.ivs)
        shrunk = self.context.enclosing.shrunk.get(access.value)
        def within(own: bool) -> ir.AffineMap:
            inner = ir.AffineMap.get(count, 0, self.point_exprs(point, lane, own=own))
            return inner if across is None else ir.AffineMap.get(count, 0, [e.compose(inner) for e in across])

        results = access.results
        if shrunk is None and across is None and min(access.dims, default=0) >= 0:  # the usual case: each result is a dimension
            vector = self.context.nest.vector
            exprs = [self._expr(d, point.get(d, 0) + (lane if d == vector else 0), False) for d in access.dims]
            return ir.AffineMap.get(count, 0, exprs)
        places = shrunk.places if shrunk else frozenset()
        whole, own = within(False), within(True) if places else None
        return ir.AffineMap.get(count, 0, [r.compose(own if i in places else whole) for i, r in enumerate(results)])


def value_of(shapes: SymbolicShapes, size: int | Size) -> ir.Value:
    """A size as a value at the top of its function, where affine loops can have it as a symbol."""
    return shapes.value(size, ir.InsertionPoint.at_block_begin(shapes.block))
