"""Register tiles by dot products of the target: each iteration covers several iterations of a reduction dimension."""

from functools import partial
from itertools import chain

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.target.llvm_habits import ROLLED_ROUNDS
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.linalg_to_affine.blocks import along, emit_block, everywhere, neighbours
from stepwell.passes.linalg_to_affine.context import NestContext
from stepwell.passes.linalg_to_affine.position import Offsets
from stepwell.passes.linalg_to_affine.prefetches import prefetch
from stepwell.passes.linalg_to_affine.scalar_body import emit_value
from stepwell.passes.linalg_to_affine.strategies.base import CONSTANT, IntrinsicStrategy, TileStrategy
from stepwell.passes.linalg_to_affine.strategies.registry import register_tile_strategy
from stepwell.passes.linalg_to_affine.strategies.sums_in_lanes import SumsInLanes
from stepwell.passes.linalg_to_affine.tile import RegisterTile
from stepwell.passes.linalg_to_affine.values import load
from stepwell.passes.schedule.intrinsics import Use
from stepwell.passes.schedule.segments import Segment


@register_tile_strategy("dot-products", kinds=("contraction",))
class DotProducts(IntrinsicStrategy):
    """The schedule's intrinsic on vectors. Operands are rearranged as it requires; the op's body computes the remainder of the sum."""

    @classmethod
    def fits(cls, context: NestContext) -> TileStrategy | NoMatch | None:
        named = context.intrinsic
        if named is None or named.intrinsic.tile is not None:
            return None
        if context.use is None:
            return NoMatch(CONSTANT)
        return DotProductsInLanes(context, named) if context.lanes_reduce else cls(context, named)

    def written_out(self, tile: RegisterTile, dim: int, segment: Segment) -> bool:
        return is_rolled(self.use, self.root, dim, segment) or super().written_out(tile, dim, segment)

    def step(self, tile: RegisterTile, carried: list[ir.Value]) -> list[ir.Value]:
        return add_blocks(self.use, tile, carried)


class DotProductsInLanes(SumsInLanes):
    """Sums in lanes, with the intrinsic for vectors that hold whole blocks."""

    def __init__(self, context: NestContext, use: Use) -> None:
        super().__init__(context)
        self.use = use

    def lanes(self, width: int) -> int:
        return width // self.use.intrinsic.depth if self._takes(width) else width

    def written_out(self, tile: RegisterTile, dim: int, segment: Segment) -> bool:
        rolled = self._takes(tile.width) and is_rolled(self.use, self.root, dim, segment)
        return rolled or super().written_out(tile, dim, segment)

    def step(self, tile: RegisterTile, carried: list[ir.Value]) -> list[ir.Value]:
        return add_blocks(self.use, tile, carried) if self._takes(tile.width) else super().step(tile, carried)

    def _takes(self, width: int) -> bool:
        return width % (self.use.intrinsic.lanes * self.use.intrinsic.depth) == 0


def is_rolled(use: Use, root: Structured, dim: int, segment: Segment) -> bool:
    """Whether LLVM would keep a loop around blocks that it should not keep (see `ROLLED_ROUNDS`)."""
    return dim == use.innermost(root) and segment.rounds == ROLLED_ROUNDS


def add_blocks(use: Use, tile: RegisterTile, sums: list[ir.Value]) -> list[ir.Value]:
    """The sums with a block of products added to each."""
    keys = [[(side, tile.place(tile.context.root.inputs[index], point)) for side, index in enumerate(use.sides)] for point in tile.points]
    # The operand with more distinct values is processed one value at a time, so that only the other operand stays in registers.
    most = max(range(len(use.sides)), key=lambda side: len({key[side] for key in keys}))
    alike: dict[tuple[int, str], list[int]] = {}
    for n, both in enumerate(keys):
        alike.setdefault(both[most], []).append(n)
    operands: dict[tuple[int, str], list[ir.Value]] = {}
    results = list(sums)
    for n in chain.from_iterable(alike.values()):
        for key in keys[n]:
            if key not in operands:
                operands[key] = _operand(use, tile, key[0], tile.points[n])
        results[n] = emit_block(use, sums[n], [operands[key] for key in keys[n]])
    return results


def _operand(use: Use, tile: RegisterTile, side: int, point: Offsets) -> list[ir.Value]:
    """The intrinsic's operand from an input at a point: see `emit_block`."""
    at, context, root = tile.at, tile.context, tile.context.root
    access, depth, vector = root.inputs[use.sides[side]], use.intrinsic.depth, context.nest.vector

    def factor(loaded: ir.Value) -> ir.Value:
        argument = root.body.arguments[use.sides[side]]
        index = partial(tile.index, point=point, width=tile.width if context.lanes_reduce else 1)
        return emit_value(root, use.values[side], argument, loaded, index)

    def neighbouring(count: int) -> ir.Value:
        return factor(load(context.memory(access), "vector", count, at.ivs, lambda _: tile.address(access, point)))

    if context.lanes_reduce:
        return along(use, side, factor(tile.load(access, point)), tile.width)
    if use.is_grouped(access, vector):
        prefetch(tile, access, point)
        return along(use, side, neighbouring(tile.width * depth), tile.width * depth)
    if access.kind(vector) == "scalar" and access.kind(use.summed) == "vector":
        return everywhere(use, side, neighbouring(depth))
    return neighbours(use, side, [factor(tile.load(access, {**point, use.summed: i})) for i in range(depth)])
