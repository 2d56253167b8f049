"""Register tiles whose vectors lie along a reduction dimension: each lane sums its part, and all lanes are folded at the end."""

from dataclasses import replace

from stepwell.dialects.core.mlir import arith, ir, vector
from stepwell.dialects.core.sizes import Size
from stepwell.dialects.support.errors import PassError
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.linalg.structured import COMBINERS
from stepwell.passes.linalg_to_affine.context import NestContext
from stepwell.passes.linalg_to_affine.scalar_body import as_vector
from stepwell.passes.linalg_to_affine.strategies.plain import PlainTiles
from stepwell.passes.linalg_to_affine.strategies.registry import register_tile_strategy
from stepwell.passes.linalg_to_affine.tile import RegisterTile
from stepwell.passes.linalg_to_affine.values import combine, neutral
from stepwell.passes.schedule.segments import Segment, vector_segments


@register_tile_strategy("sums-in-lanes", kinds=("contraction", "reduction", "other"))
class SumsInLanes(PlainTiles):
    """Lanes start neutral and are folded together at the end; the remainder of the vectors is computed one element at a time."""

    @classmethod
    def fits(cls, context: NestContext) -> "SumsInLanes | None":
        return cls(context) if context.lanes_reduce else None

    @property
    def combiner(self) -> str:
        """The op that folds two lanes."""
        if self.root.combiner is None:
            raise PassError(f"'{self.root.operation.name}' at {self.root.operation.location} is not a fold that lanes could share")
        return self.root.combiner

    def compute(self, tile: RegisterTile) -> list[ir.Value] | NoMatch:
        dim, sums = self.context.nest.vector, tile.starts()
        extent = tile.at.extents[dim]
        if isinstance(extent, Size) and self.context.masked_lanes:
            return self._under_masks(tile, extent, sums)
        for segment in vector_segments(extent, self.context.nest.width):
            part = replace(tile, width=segment.step, stretches={dim: segment})
            if segment.step == 1:
                sums = self.summed(part, sums)
                continue
            sums = self._folded(sums, self.summed(part, self._neutral(self.lanes(segment.step), len(sums))))
        return sums

    def lanes(self, width: int) -> int:
        """The lanes of an accumulator of vectors of `width`."""
        return width

    def settled(self, tile: RegisterTile, made: list[ir.Value], before: list[ir.Value]) -> list[ir.Value]:
        mask = tile.at.mask
        return made if mask is None else [arith.select(mask, m, b) for m, b in zip(made, before, strict=True)]

    def _under_masks(self, tile: RegisterTile, extent: Size, sums: list[ir.Value]) -> list[ir.Value]:
        """Like `compute`, with one vector for the whole remainder, so that lanes are folded only once."""
        dim, width = self.context.nest.vector, self.context.nest.width
        whole = extent // width * width
        lanes = self._neutral(width, len(sums))
        for segment in (Segment(0, whole, width), *([Segment(whole, extent, width, masked=True, optional=True)] if whole != extent else [])):
            part = replace(tile, at=tile.at.under(segment), width=width, stretches={dim: segment})
            lanes = self.summed(part, lanes)
        return self._folded(sums, lanes)

    def _neutral(self, width: int, count: int) -> list[ir.Value]:
        """`count` vectors of neutral elements."""
        return [as_vector(neutral(self.combiner, self.root.outputs[0].element_type), width) for _ in range(count)]

    def _folded(self, sums: list[ir.Value], lanes: list[ir.Value]) -> list[ir.Value]:
        """The sums (or other folds), with all lanes of their vectors folded in."""
        element, combiner = self.root.outputs[0].element_type, self.combiner
        if isinstance(element, ir.FloatType) and (self.context.is_reproducible or not self.context.machine.capabilities.folds_in_halves):
            return [combine(combiner, a, in_halves(combiner, v)) for a, v in zip(sums, lanes, strict=True)]
        kind = ir.Attribute.parse(f"#vector.kind<{COMBINERS[combiner]}>")
        order = arith.FastMathFlags.reassoc if isinstance(element, ir.FloatType) else arith.FastMathFlags.none  # in halves, not one by one
        if combiner == "arith.maxnumf":
            order |= arith.FastMathFlags.nnan  # each lane started with a number
        folded = [vector.ReductionOp(element, kind, v, fastmath=order).result for v in lanes]
        return [combine(combiner, a, f) for a, f in zip(sums, folded, strict=True)]


def in_halves(combiner: str, lanes: ir.Value) -> ir.Value:
    """The fold of a vector's lanes, a power of two of them: of its halves, of the halves of the result, and so on."""
    count = ir.VectorType(lanes.type).shape[0]
    while count > 1:
        count //= 2
        low, high = (vector.ShuffleOp(lanes, lanes, list(range(first, first + count))).result for first in (0, count))
        lanes = combine(combiner, low, high)
    return vector.extract(lanes, [], [0])
