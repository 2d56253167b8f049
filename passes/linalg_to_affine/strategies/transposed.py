"""Register tiles with inputs that are contiguous along another dimension than the vectors: loaded along that one, and transposed in registers."""

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import static_sizes
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.linalg_to_affine.context import NestContext
from stepwell.passes.linalg_to_affine.position import Offsets
from stepwell.passes.linalg_to_affine.strategies.plain import Loaded, PlainTiles
from stepwell.passes.linalg_to_affine.strategies.registry import register_tile_strategy
from stepwell.passes.linalg_to_affine.tile import RegisterTile
from stepwell.passes.linalg_to_affine.transposition import transposed
from stepwell.passes.linalg_to_affine.values import load
from stepwell.passes.schedule.nest import transposed_tile_dim
from stepwell.passes.schedule.segments import vector_segments


@register_tile_strategy("transposed")
class TransposedTiles(PlainTiles):
    """Plain tiles whose inputs that are contiguous along another dimension of the tile are loaded along that one first."""

    def __init__(self, context: NestContext, turned: dict[int, int]) -> None:
        """`turned` maps input indices to the dimensions along which these inputs are contiguous."""
        super().__init__(context)
        self.turned = turned

    @classmethod
    def fits(cls, context: NestContext) -> "TransposedTiles | NoMatch | None":
        vector = context.nest.vector
        if vector < 0 or context.lanes_reduce:
            return None
        inputs = {n: a for n, a in enumerate(context.root.inputs) if a.used and a.is_shaped and n not in context.constant_inputs}
        gathered = {n: a for n, a in inputs.items() if a.is_gathered(vector)}
        turned = {n: dim for n, access in gathered.items() if (dim := transposed_tile_dim(access, context.nest)) is not None}
        if turned or not gathered:
            return cls(context, turned) if turned else None
        return NoMatch(f"inputs {list(gathered)} are gathered, and the tile has one iteration of each dimension along which they lie in memory")

    def loaded(self, tile: RegisterTile) -> Loaded:
        found: Loaded = {}
        for n, dim in self.turned.items() if tile.width > 1 else ():
            if dim not in tile.points[-1]:
                continue
            count = len({p[dim] for p in tile.points})
            for first in [p for p in tile.points if p[dim] == 0]:
                for segment in vector_segments(count, tile.width):
                    for low in range(*static_sizes([segment.low, segment.high, segment.step])) if segment.step > 1 else ():
                        self._turn(tile, found, n, {**first, dim: low}, segment.step)
        return found

    def _turn(self, tile: RegisterTile, found: Loaded, n: int, first: Offsets, count: int) -> None:
        """Load input `n` at `count` points along its contiguous dimension, from `first` on, as vectors along the nest's dimension."""
        access, dim, at = self.root.inputs[n], self.turned[n], tile.at
        keys = [(n, tile.place(access, {**first, dim: first[dim] + i})) for i in range(count)]
        if keys[0] in found:  # points that differ only in dimensions along which the input does not move
            return

        def row(lane: int) -> ir.Value:
            return load(self.context.memory(access), "vector", count, at.ivs, lambda _: tile.address(access, first, lane))

        found.update(zip(keys, transposed([row(lane) for lane in range(tile.width)]), strict=True))
