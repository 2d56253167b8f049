"""The lowering of Winograd convolutions: transforms as small contractions with constant matrices, and one batched product between."""

from dataclasses import dataclass

import numpy as np

from stepwell.dialects.core.mlir import arith, ir
from stepwell.dialects.core.sizes import Dim, is_static, static_sizes
from stepwell.dialects.core.types import TensorType, to_numpy
from stepwell.dialects.packed.integer_winograd import IntegerWinogradConvOp, integer_matrices
from stepwell.dialects.packed.winograd import PARTS, TAPS, WinogradConvOp, block_axes, matrices
from stepwell.passes.framework.rewriting import NoMatch
from stepwell.passes.graph_to_linalg.casts import cast
from stepwell.passes.graph_to_linalg.contraction import contract
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, OpFoldResult, dims
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering


@lowering(WinogradConvOp)
def lower_winograd_conv(op: WinogradConvOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """Five contractions: rows and columns of the image by B^T, products by filters, rows and columns of the result by A^T.

    Filters that are not transformed make two more before the products, by G. Only the products have a loop over groups, where
    there are several; before and after them the blocks of all groups are in a row.
    """
    (x_type, u_type), values = op.operand_types(), op.attribute_values()
    tile, transformed, dtype = values["tile"], values["transformed"], x_type.dtype
    filters = u_type.shape[block_axes(transformed)[0]]
    over = _over_tiles(b, x_type, u_type, op.result_types()[0].shape, tile, values["group"], filters, u_type.shape[5])
    a_t, g, b_t = (b.constant(np.asarray(m, to_numpy(dtype))) for m in matrices(tile))
    v, u = over.transformed(operands[0], b_t, dtype), operands[1]
    if not transformed:
        u = over.transformed_filters(u, g, dtype, [over.inner, over.outer])
    return over.results(over.products(v, u, dtype, [over.inner, over.outer]), a_t, dtype)


@lowering(IntegerWinogradConvOp)
def lower_integer_winograd_conv(op: IntegerWinogradConvOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """The same five of whole numbers: data of 16 bits until they are multiplied, sums of 32. Results are divided at the end."""
    (x_type, u_type), result_type, values = op.operand_types(), op.result_types()[0], op.attribute_values()
    tile, transformed, (*_, lanes, outer, depth) = values["tile"], values["transformed"], u_type.static_shape
    over = _over_tiles(b, x_type, u_type, result_type.shape, tile, values["group"], u_type.static_shape[block_axes(transformed)[0]], outer)
    exact = integer_matrices(tile)
    a_t, g, b_t = (b.constant(m.astype(kind)) for m, kind in ((exact.a_t, np.int32), (exact.g, np.int16), (exact.b_t, np.int16)))
    v, u = over.transformed(_as(b, operands[0], x_type.dtype, "i16"), b_t, "i16"), _as(b, operands[1], u_type.dtype, "i16")
    if not transformed:
        u = over.transformed_filters(u, g, "i16", [lanes, outer, depth])
    y = over.results(over.products(_as(b, v, "i16", "i32"), _as(b, u, "i16", "i32"), "i32", [lanes, outer, depth]), a_t, "i32")
    inverse, shift = (b.scalar(n, "i32") for n in (exact.inverse, exact.shift))
    return b.elementwise([y], "i32", over.whole, lambda sums: arith.ShRSIOp(arith.MulIOp(sums, inverse).result, shift).result)


def _as(b: LinalgBuilder, value: ir.Value, source: str, target: str) -> ir.Value:
    """Integers in another width."""
    if source == target:
        return value
    return b.elementwise([value], target, b.sizes(value), lambda v: cast(b, v, source, target, True))


def _over_tiles(
    b: LinalgBuilder, x: TensorType, u: TensorType, result: tuple[Dim, ...], tile: int, group: int, filters: Dim, outer: Dim
) -> "_OverTiles":  # fmt: skip
    lanes = [x.shape[1], x.shape[4], filters, outer]
    if not is_static(lanes) or not u.is_static:
        raise NoMatch(f"its channels and filters must have static sizes, got {x} and {u}")
    whole, tiles = (b.given_all(sizes) for sizes in (result, [None if size is None else size // tile for size in result[2:4]]))
    return _OverTiles(b, tile, group, whole, tiles, *static_sizes(lanes))


@dataclass
class _OverTiles:
    """The contractions of a convolution by tiles of its result. The summed loop comes last everywhere; the channels of a block stay innermost, so
    that vectors lie along them."""

    b: LinalgBuilder
    tile: int
    group: int
    whole: list[OpFoldResult]
    """The sizes of the result."""
    tiles: list[OpFoldResult]
    """How many tiles there are along its rows and columns."""
    channels: int
    inner: int
    filters: int
    outer: int

    @property
    def size(self) -> int:
        """Rows of a tile of data."""
        return self.tile + TAPS - 1

    def transformed(self, x: ir.Value, b_t: ir.Value, dtype: str) -> ir.Value:
        """B^T d B of each tile. Tiles overlap by two columns, which the first stage computes for both: so every stage can be done tile by tile."""
        n, (rows, columns) = self.whole[0], self.tiles
        i, image, c, ty, tx, w, a, k = dims(*range(8))
        sizes = [self.size, n, self.channels, rows, columns, self.size, self.inner]
        by_rows = contract(self.b, b_t, [i, k], x, [image, c, ty * self.tile + k, tx * self.tile + w, a], dtype, sizes, 1)
        i, j, image, c, ty, tx, a, k = dims(*range(8))
        sizes = [self.size, self.size, n, self.channels, rows, columns, self.inner]
        return contract(self.b, b_t, [j, k], by_rows, [i, image, c, ty, tx, k, a], dtype, sizes, 1)

    def transformed_filters(self, w: ir.Value, g: ir.Value, dtype: str, block: list[int]) -> ir.Value:
        """G g G^T of each filter and channel, of which a block has the sizes `block`."""
        per_group = self.channels // self.group
        i, m, c, k1, *inside, k = dims(*range(5 + len(block)))
        by_rows = contract(self.b, g, [i, k], w, [m, c, k, k1, *inside], dtype, [self.size, self.filters, per_group, TAPS, *block], 1)
        i, j, m, c, *inside, k = dims(*range(5 + len(block)))
        return contract(self.b, g, [j, k], by_rows, [i, m, c, k, *inside], dtype, [self.size, self.size, self.filters, per_group, *block], 1)

    def products(self, v: ir.Value, u: ir.Value, dtype: str, block: list[int]) -> ir.Value:
        """For each place of a tile the products of transformed data by filters, of which a block has the sizes `block`: the lanes that are summed,
        the filters; of integers the neighbours among the lanes come last."""
        n, (rows, columns), group, per_group = self.whole[0], self.tiles, self.group, self.channels // self.group
        groups = [group] if group > 1 else []
        loops = dims(*range(9 + len(groups) + len(block) - 2))
        i, j, image, *of, m, ty, tx, f = loops[: 7 + len(groups)]
        c, a, *place = loops[7 + len(groups) :]
        lane = a * block[2] + place[0] if place else a
        v = self.b.reshape(v, _splitting(3, 7), [self.size, self.size, n, *groups, per_group, rows, columns, self.inner])
        u = self.b.reshape(u, _splitting(2, 4 + len(block)), [self.size, self.size, *groups, self.filters // group, per_group, *block])
        sizes = [self.size, self.size, n, *groups, self.filters // group, rows, columns, self.outer]
        most = 0 if dtype == "i32" else PARTS[self.tile]
        part = most if per_group * self.inner > most else 0
        maps = [i, j, image, *of, c, ty, tx, lane], [i, j, *of, m, c, a, f, *place]
        made = contract(self.b, v, maps[0], u, maps[1], dtype, sizes, len(block) if place else 2, part)
        return self.b.reshape(made, _splitting(3, 7), [self.size, self.size, n, self.filters, rows, columns, self.outer])

    def results(self, products: ir.Value, a_t: ir.Value, dtype: str) -> ir.Value:
        """A^T m A of each tile, side by side."""
        n, (rows, columns) = self.whole[0], self.tiles
        j, image, m, ty, p, tx, f, k = dims(*range(8))
        sizes = [self.size, n, self.filters, rows, self.tile, columns, self.outer]
        by_rows = contract(self.b, a_t, [p, k], products, [k, j, image, m, ty, tx, f], dtype, sizes, 1)
        image, m, ty, p, tx, q, f, k = dims(*range(8))
        sizes = [n, self.filters, rows, self.tile, columns, self.tile, self.outer]
        y = contract(self.b, a_t, [q, k], by_rows, [k, image, m, ty, p, tx, f], dtype, sizes, 1)
        return self.b.reshape(y, [[0], [1], [2, 3], [4, 5], [6]], self.whole)


def _splitting(axis: int, rank: int) -> list[list[int]]:
    """How the dimensions of a tensor of `rank` with `axis` split in two group into its own."""
    return [[d] for d in range(axis)] + [[axis, axis + 1]] + [[d + 1] for d in range(axis + 1, rank)]
