"""Register tiles with inputs that are contiguous along another dimension than the vectors: loaded along that one, and transposed in registers."""

from collections.abc import Sequence

from stepwell.dialects.core.mlir import ir, vector
from stepwell.dialects.core.sizes import static_sizes
from stepwell.dialects.core.symbolic_shapes import element_bits
from stepwell.dialects.target.numbers import SHUFFLED_BITS
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.linalg_to_affine.context import NestContext
from stepwell.passes.linalg_to_affine.position import Offsets
from stepwell.passes.linalg_to_affine.strategies.plain import Loaded, PlainTiles
from stepwell.passes.linalg_to_affine.strategies.registry import register_tile_strategy
from stepwell.passes.linalg_to_affine.tile import RegisterTile
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


def transposed(rows: Sequence[ir.Value]) -> list[ir.Value]:
    """The columns of a matrix whose rows are vectors; there are no more columns than rows, and both counts are powers of two.

    n columns of n elements take n log2(n) shuffles of two registers: first of single elements, within parts of `SHUFFLED_BITS`, then of such parts.
    Each of them is one instruction with AVX2, AVX-512 and NEON.
    """
    kind = ir.VectorType(rows[0].type)
    columns = kind.shape[0]
    if columns < len(rows):
        blocks = [transposed(rows[low : low + columns]) for low in range(0, len(rows), columns)]
        return [_joined([block[c] for block in blocks]) for c in range(columns)]
    part = min(columns, SHUFFLED_BITS // element_bits(kind.element_type))
    groups = [_interleaved(rows[low : low + part], part) for low in range(0, columns, part)]
    dealt = [_dealt([group[row] for group in groups], part) for row in range(part)]
    return [column for place in zip(*dealt, strict=True) for column in place]


def _joined(parts: Sequence[ir.Value]) -> ir.Value:
    """Concatenate a power of two of vectors."""
    found = list(parts)
    while len(found) > 1:
        size = 2 * ir.VectorType(found[0].type).shape[0]
        found = [_shuffle(a, b, range(size)) for a, b in zip(found[::2], found[1::2], strict=True)]
    return found[0]


def _interleaved(rows: Sequence[ir.Value], part: int) -> list[ir.Value]:
    """Transpose the adjacent `part` x `part` matrices in rows of several parts."""
    found, half = list(rows), len(rows) // 2
    size = ir.VectorType(rows[0].type).shape[0]
    lows = [low + i + which for low in range(0, size, part) for i in range(part // 2) for which in (0, size)]
    highs = [place + part // 2 for place in lows]
    for _ in range(part.bit_length() - 1):
        pairs = list(zip(found[:half], found[half:], strict=True))
        found = [_shuffle(a, b, mask) for a, b in pairs for mask in (lows, highs)]
    return found


def _dealt(rows: Sequence[ir.Value], part: int) -> list[ir.Value]:
    """Transpose a matrix whose elements are runs of `part` elements."""
    found, count = list(rows), len(rows)
    evens, odds = ([(2 * i + odd) * part + k for i in range(count) for k in range(part)] for odd in (0, 1))
    for _ in range(count.bit_length() - 1):
        pairs = list(zip(found[::2], found[1::2], strict=True))
        found = [_shuffle(a, b, mask) for mask in (evens, odds) for a, b in pairs]
    return found


def _shuffle(a: ir.Value, b: ir.Value, mask: Sequence[int]) -> ir.Value:
    return vector.ShuffleOp(a, b, list(mask)).result
