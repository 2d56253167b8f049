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
"""What was loaded in a round: by the number of the input and the text of the address, so that each is loaded once."""


@register_tile_strategy("plain")
class PlainTiles(TileStrategy):
    """Each round emits the body at each point. Where the op says so, a few rounds at a time are added up on their own."""

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
        """What is loaded in front of the bodies of a round, which load the rest of what they read."""
        return {}

    def settled(self, tile: RegisterTile, made: list[ir.Value], before: list[ir.Value]) -> list[ir.Value]:
        """What a round leaves of a point, for which the body made new values."""
        return made

    def _at_point(self, tile: RegisterTile, loaded: Loaded, point: Offsets, before: list[ir.Value]) -> list[ir.Value]:
        """The body at a point: from the accumulators before the round to those behind it."""
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
        """What the body reads at a point; None if it is multiplied by the zero of a known matrix, which stands for no term at all, not for
        0 * infinity."""
        root = self.root
        numbers = {n: number for n in self.context.known if (number := tile.number(n, point)) is not None}
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
        """As `summed`; where the op says so, a few rounds of the outermost summed loop at a time, which are added up on their own."""
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
        """Some rounds of the outermost summed loop, added up on their own and then to what was there before."""
        added = self.summed(tile.seen_from(at.within({self.root.reduction_dims[0]: rounds})), zeros)
        return [arith.addf(a, b) for a, b in zip(before, added, strict=True)]
