"""Register tiles that compute the op's own body at each of their points."""

from functools import partial
from math import prod

from stepwell.dialects.core.mlir import arith, ir
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.linalg_to_affine.affine_loops import loop
from stepwell.passes.linalg_to_affine.context import NestContext
from stepwell.passes.linalg_to_affine.position import Offsets, Position
from stepwell.passes.linalg_to_affine.prefetches import prefetch
from stepwell.passes.linalg_to_affine.strategies.base import TileStrategy
from stepwell.passes.linalg_to_affine.strategies.registry import register_tile_strategy
from stepwell.passes.linalg_to_affine.tile import RegisterTile
from stepwell.passes.linalg_to_affine.values import constant_of
from stepwell.passes.schedule.segments import Segment

Loaded = dict[tuple[int, str], ir.Value]
"""The values loaded in an iteration, by input index and address text, so that each is loaded once."""


@register_tile_strategy("plain")
class PlainTiles(TileStrategy):
    """Each iteration emits the body at each point. If the op says so, a few iterations at a time are summed separately."""

    @classmethod
    def fits(cls, context: NestContext) -> "TileStrategy | NoMatch | None":
        return None if context.lanes_reduce else cls(context)

    def compute(self, tile: RegisterTile) -> list[ir.Value] | NoMatch:
        return self.finish(tile, self._summed_in_parts(tile, self.begin(tile)))

    def step(self, tile: RegisterTile, carried: list[ir.Value]) -> list[ir.Value]:
        loaded = self.loaded(tile)
        results: list[ir.Value] = []
        for point, before in zip(tile.points, tile.groups(carried), strict=True):
            results += self._at_point(tile, loaded, point, before)
        return results

    def loaded(self, tile: RegisterTile) -> Loaded:
        """The values loaded before the bodies of an iteration; the bodies load the rest."""
        return {}

    def settled(self, tile: RegisterTile, made: list[ir.Value], before: list[ir.Value]) -> list[ir.Value]:
        """The new values of a point after an iteration in which the body computed `made`."""
        return made

    def _at_point(self, tile: RegisterTile, loaded: Loaded, point: Offsets, before: list[ir.Value]) -> list[ir.Value]:
        """The body at a point: maps the accumulators before the iteration to those after it."""
        root, shown = self.root, self.context.shown
        inputs = self._inputs(tile, loaded, point)
        if inputs is None:
            return before
        own = [tile.load(o, point) if s and o.used else a for o, s, a in zip(root.outputs, shown, before, strict=True)]
        made = self.settled(tile, tile.body(inputs, own, point), own)
        for n, (out, stored) in enumerate(zip(root.outputs, shown, strict=True)):
            if stored:
                tile.store(out, made[n], point)
                made[n] = before[n]
        return made

    def _inputs(self, tile: RegisterTile, loaded: Loaded, point: Offsets) -> list[ir.Value | None] | None:
        """The body's inputs at a point; None if it is multiplied by the zero of a constant matrix, which means no term at all, not 0 * infinity."""
        root = self.root
        numbers = {n: number for n in self.context.constant_inputs if (number := tile.number(n, point)) is not None}
        if any(numbers.get(n) == 0 for n in root.multiplied):
            return None
        inputs: list[ir.Value | None] = []
        for n, access in enumerate(root.inputs):
            if not access.used:
                inputs.append(None)
                continue
            if n in numbers:
                inputs.append(constant_of(access.element_type, numbers[n]))
                continue
            key = (n, tile.place(access, point) if access.is_shaped else "")
            if key not in loaded:
                loaded[key] = tile.load(access, point)
                prefetch(tile, access, point)
            inputs.append(loaded[key])
        return inputs

    def _summed_in_parts(self, tile: RegisterTile, carried: list[ir.Value]) -> list[ir.Value]:
        """Like `summed`; if the op says so, a few iterations of the outermost reduction loop at a time are summed separately."""
        dims, extents = self.root.reduction_dims, tile.at.extents
        extent = extents[dims[0]] if dims else 0
        rounds = self.root.part // prod(self.context.sizes[d] for d in dims[1:])
        if not isinstance(extent, int) or not 0 < rounds < extent:
            return self.summed(tile, carried)
        zeros = tile.zeros(len(carried))
        whole, left = extent - extent % rounds, extent % rounds
        for segment in (Segment(0, whole, rounds), *([Segment(whole, extent, left)] if left else [])):
            carried = loop(tile.at, dims[0], segment, carried, partial(self._part, tile, zeros, segment.step))
        return carried

    def _part(self, tile: RegisterTile, zeros: list[ir.Value], rounds: int, at: Position, before: list[ir.Value]) -> list[ir.Value]:
        """Sum some iterations of the outermost reduction loop separately, then add the result to the previous sums."""
        added = self.summed(tile.seen_from(at.within({self.root.reduction_dims[0]: rounds})), zeros)
        return [arith.addf(a, b) for a, b in zip(before, added, strict=True)]
