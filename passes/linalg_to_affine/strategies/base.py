"""The interface of a strategy, which computes the values of register tiles, and the reduction loops inside a tile."""

from abc import ABC, abstractmethod

from stepwell.dialects.core.mlir import ir
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.linalg_to_affine.affine_loops import loop
from stepwell.passes.linalg_to_affine.context import NestContext
from stepwell.passes.linalg_to_affine.position import Position
from stepwell.passes.linalg_to_affine.prefetches import prefetch_lines
from stepwell.passes.linalg_to_affine.tile import RegisterTile
from stepwell.passes.schedule.intrinsics import Use
from stepwell.passes.schedule.segments import Segment

CONSTANT = "the elements of a constant are written into the code instead of being loaded for an intrinsic"
"""Why no intrinsic computes a contraction whose schedule names one."""


class TileStrategy(ABC):
    """How the root of a nest is computed in its register tiles, from the accumulators' initial values to their final ones.

    The loops around a tile, and the epilogues and stores after it, are the same for all strategies. One is chosen for each nest; it keeps no state
    about the current tile, which each method receives. By default a tile is `begin`, the reduction loops around `step`, and `finish`.
    """

    name: str
    """The name under which it is registered (see `register_tile_strategy`)."""
    rest: "TileStrategy | None" = None
    """The next strategy that fits the nest, if any: it computes the tiles that this one declines, and the segments that `cut` leaves to it."""

    def __init__(self, context: NestContext) -> None:
        self.context, self.root = context, context.root

    @classmethod
    @abstractmethod
    def fits(cls, context: NestContext) -> "TileStrategy | NoMatch | None":
        """The strategy for a nest; or why it does not fit; or None if it is for nests of another kind and there is nothing to report."""

    def compute(self, tile: RegisterTile) -> list[ir.Value] | NoMatch:
        """The values of a tile before the epilogues: for each point one per output, with `tile.lanes` lanes.

        A tile that the strategy does not fit is declined before anything is emitted.
        """
        return self.finish(tile, self.summed(tile, self.begin(tile)))

    def begin(self, tile: RegisterTile) -> list[ir.Value]:
        """The initial values that the reduction loops carry: by default an accumulator for each value of the tile."""
        return tile.starts()

    def step(self, tile: RegisterTile, carried: list[ir.Value]) -> list[ir.Value]:
        """The values that the reduction loops carry after one iteration, at whose position the tile is."""
        raise NotImplementedError

    def finish(self, tile: RegisterTile, carried: list[ir.Value]) -> list[ir.Value]:
        """The values of the tile, from the final values of the reduction loops."""
        return carried

    def cut(self, tile: RegisterTile, dim: int) -> "list[tuple[Segment, TileStrategy]]":
        """The segments of a reduction dimension, each with the strategy whose `step` computes its iterations."""
        return [(tile.stretch(dim), self)]

    def written_out(self, tile: RegisterTile, dim: int, segment: Segment) -> bool:
        """Whether the iterations of a segment from `cut` follow each other without a loop."""
        return dim in self.context.written_out

    def summed(self, tile: RegisterTile, carried: list[ir.Value], done: int = 0) -> list[ir.Value]:
        """The loops over the root's reduction dimensions, without the first `done` of them, around `step`."""
        dims = self.root.reduction_dims[done:]
        if not dims:
            return self.step(tile, carried)
        dim, *inner = dims
        for segment, inside in self.cut(tile, dim):

            def body(at: Position, carried: list[ir.Value], segment: Segment = segment, inside: TileStrategy = inside) -> list[ir.Value]:
                within = tile.seen_from(at.taking(dim, segment.step))
                if len(inner) == 1:
                    prefetch_lines(within, dim, inner[0])
                return inside.summed(within, carried, done + 1)

            carried = loop(tile.at, dim, segment, carried, body, written_out=self.written_out(tile, dim, segment))
        return carried


class IntrinsicStrategy(TileStrategy):
    """A strategy that computes with an intrinsic; `rest` computes the remainder of the sum."""

    def __init__(self, context: NestContext, use: Use) -> None:
        super().__init__(context)
        self.use = use

    def compute(self, tile: RegisterTile) -> list[ir.Value] | NoMatch:
        lanes = self.use.intrinsic.lanes
        if tile.width % lanes:
            return NoMatch(f"a vector of {tile.width} is no multiple of the {lanes} lanes of '{self.use.intrinsic.name}'")
        return super().compute(tile)

    def cut(self, tile: RegisterTile, dim: int) -> list[tuple[Segment, TileStrategy]]:
        return [(segment, self.rest or self if inside is None else self) for segment, inside in self.use.cut(dim, tile.at.extents[dim])]
