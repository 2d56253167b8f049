"""What computes the values of register tiles: the interface of a strategy, and the summed loops inside of a tile."""

from abc import ABC, abstractmethod

from stepwell.dialects.core.mlir import ir
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.linalg_to_affine.affine_loops import loop
from stepwell.passes.linalg_to_affine.context import NestContext
from stepwell.passes.linalg_to_affine.position import Position
from stepwell.passes.linalg_to_affine.prefetches import prefetch_lines
from stepwell.passes.linalg_to_affine.tile import RegisterTile
from stepwell.passes.schedule.segments import Segment

CONSTANT = "the elements of a constant are written into the code instead of being loaded for an intrinsic"
"""Why no intrinsic computes a contraction whose schedule names one."""


class TileStrategy(ABC):
    """How the root of a nest is computed in its register tiles, from the accumulators' first values to their last ones.

    The loops around a tile, the epilogues and the stores behind it are the same for all strategies. One is chosen for each nest; it keeps
    nothing about the tile at hand, which each method is given. By default a tile is `begin`, the summed loops around `step`, and `finish`.
    """

    name: str
    """The name that it is registered by (see `register_tile_strategy`)."""
    rest: "TileStrategy | None" = None
    """The next strategy that fits the nest, if any: it computes the tiles that this one declines, and what `cut` leaves to it."""

    def __init__(self, context: NestContext) -> None:
        self.context, self.root = context, context.root

    @classmethod
    @abstractmethod
    def fits(cls, context: NestContext) -> "TileStrategy | NoMatch | None":
        """The strategy for a nest; why it does not fit, or None where it is for nests of another kind and there is nothing to say."""

    def compute(self, tile: RegisterTile) -> list[ir.Value] | NoMatch:
        """The values of a tile in front of the epilogues: for each point one for each output, with as many lanes as `tile.lanes`.

        A tile that the strategy does not fit is declined before anything is emitted.
        """
        return self.finish(tile, self.summed(tile, self.begin(tile)))

    def begin(self, tile: RegisterTile) -> list[ir.Value]:
        """What the summed loops carry at first: by default an accumulator for each value of the tile."""
        return tile.starts()

    def step(self, tile: RegisterTile, carried: list[ir.Value]) -> list[ir.Value]:
        """What the summed loops carry after one round, at whose position the tile is."""
        raise NotImplementedError

    def finish(self, tile: RegisterTile, carried: list[ir.Value]) -> list[ir.Value]:
        """The values of the tile, from what the summed loops carry at last."""
        return carried

    def cut(self, tile: RegisterTile, dim: int) -> "list[tuple[Segment, TileStrategy]]":
        """The stretches in which a summed dimension is walked, and whose `step` takes the rounds of each."""
        return [(tile.stretch(dim), self)]

    def written_out(self, tile: RegisterTile, dim: int, segment: Segment) -> bool:
        """Whether the rounds of a stretch that `cut` made follow each other without a loop."""
        return dim in self.context.written_out

    def summed(self, tile: RegisterTile, carried: list[ir.Value], done: int = 0) -> list[ir.Value]:
        """The loops over the root's summed dimensions, without the first `done` of them, around `step`."""
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
