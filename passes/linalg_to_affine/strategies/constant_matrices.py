"""Register tiles that multiply columns by a constant matrix whose rows share partial sums."""

from itertools import product

from stepwell.dialects.core.mlir import ir
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.linalg.accesses import Access
from stepwell.passes.linalg_to_affine.context import NestContext
from stepwell.passes.linalg_to_affine.position import Offsets
from stepwell.passes.linalg_to_affine.prefetches import prefetch
from stepwell.passes.linalg_to_affine.scalar_body import as_vector
from stepwell.passes.linalg_to_affine.shared_sums import known_numbers, tile_sums
from stepwell.passes.linalg_to_affine.strategies.base import TileStrategy
from stepwell.passes.linalg_to_affine.strategies.registry import register_tile_strategy
from stepwell.passes.linalg_to_affine.tile import RegisterTile
from stepwell.passes.linalg_to_affine.values import extended, is_zero


@register_tile_strategy("constant-matrices", kinds=("contraction",))
class ConstantMatrices(TileStrategy):
    """All sums of a tile at once, without loops, from sums and differences that several of them need (see `SharedSums`)."""

    def __init__(self, context: NestContext, matrix: int, other: int, initial: ir.Value) -> None:
        """`matrix` and `other` are the indices of the inputs, `initial` is the zero that sums begin with."""
        super().__init__(context)
        self.matrix, self.other, self.initial = matrix, other, initial

    @classmethod
    def fits(cls, context: NestContext) -> "ConstantMatrices | NoMatch | None":
        root, known, initial = context.root, context.constant_inputs, context.initial
        if not known:
            return None
        if len(known) > 1:
            return NoMatch(f"its inputs {list(known)} are all constants, expected one that is")
        if not root.adds_products:
            return NoMatch("its body does more than to add the product of two inputs")
        if context.lanes_reduce or not context.written_out.issuperset(root.reduction_dims):
            return NoMatch("it sums along a dimension that the constant does not move along, or in lanes")
        if initial is None or not is_zero(initial):
            return NoMatch("its sums do not begin with zero")
        [matrix] = known
        [other] = [n for n in range(len(root.inputs)) if n != matrix]
        return cls(context, matrix, other, initial)

    def compute(self, tile: RegisterTile) -> list[ir.Value] | NoMatch:
        if not tile.at.begins:
            return NoMatch("it goes on with sums of another block")
        root, other = self.root, self.root.inputs[self.other]
        columns = [dict(zip(root.reduction_dims, values, strict=True)) for values in product(*(range(root.sizes[d]) for d in root.reduction_dims))]
        places = [[{**point, **column} for column in columns] for point in tile.points]
        numbers = known_numbers(places, lambda place: tile.number(self.matrix, place))
        if numbers is None:
            return NoMatch("its numbers differ from round to round, or from lane to lane")
        sums = tile_sums(
            places, numbers, address=lambda place: tile.place(other, place), load=lambda place: self._load(tile, other, place),
            width=tile.width, fma=self.context.fma,
        )  # fmt: skip
        return [as_vector(self.initial, tile.width) if v is None else v for v in sums]

    def _load(self, tile: RegisterTile, other: Access, place: Offsets) -> ir.Value:
        """The value of a column, in the type of the sums."""
        factors = self.root.factors
        signed = factors is None or any(f.index == self.other and f.kind.startswith("s") for f in factors)
        prefetch(tile, other, place)
        return extended(tile.load(other, place), self.root.outputs[0].element_type, signed)
