"""The lowering of Winograd convolutions: transforms as small contractions with constant matrices, and one batched product between."""

from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import TensorType, to_numpy
from stepwell.dialects.graph.winograd import PART, TAPS, VersionedWinogradConvOp, WinogradConvOp, block_axes, matrices
from stepwell.passes.framework.rewriting import NoMatch
from stepwell.passes.graph_to_linalg.contraction import contract
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, OpFoldResult, dims
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering


@lowering(WinogradConvOp)
def lower_winograd_conv(op: WinogradConvOp, operands: Operands, b: LinalgBuilder) -> ir.Value | NoMatch:
    """Five contractions: rows and columns of the image by B^T, products by filters, rows and columns of the result by A^T.

    Filters that are not transformed make two more before the products, by G. Only the products have a loop over groups, where
    there are several; before and after them the blocks of all groups are in a row.
    """
    x_type, u_type = op.operand_types()
    values = op.attribute_values()
    return _lowered(x_type, u_type, op.result_types()[0], operands, b, values["tile"], values["group"], values["transformed"])


@lowering(VersionedWinogradConvOp)
def lower_versioned_winograd_conv(op: VersionedWinogradConvOp, operands: Operands, b: LinalgBuilder) -> ir.Value | NoMatch:
    """By the usual filters where only a run tells the number of images: `version-winograd` makes a kernel for few of them before."""
    (x_type, *filter_types), (x, *filters), values = op.operand_types(), operands, op.attribute_values()
    images = x_type.shape[0]
    few = isinstance(images, int) and images <= values["most"]
    tile = values["few_tile" if few else "tile"]
    return _lowered(x_type, filter_types[few], op.result_types()[0], (x, filters[few]), b, tile, values["group"], transformed=True)


def _lowered(
    x_type: TensorType, u_type: TensorType, result_type: TensorType, operands: Operands, b: LinalgBuilder, tile: int, group: int, transformed: bool
) -> ir.Value | NoMatch:  # fmt: skip
    shape = result_type.shape
    whole, tiles = (b.given_all(sizes) for sizes in (shape, [None if size is None else size // tile for size in shape[2:4]]))
    channels, inner = x_type.shape[1], x_type.shape[4]
    if whole is None or tiles is None or not isinstance(channels, int) or not isinstance(inner, int) or not u_type.is_static:
        return NoMatch(f"its channels and filters must have static sizes, got {x_type} and {u_type}")
    dtype = x_type.dtype
    (x, u), n, (rows, columns) = operands, whole[0], tiles
    size, filters, outer = tile + TAPS - 1, u_type.static_shape[block_axes(transformed)[0]], u_type.static_shape[5]
    a_t, g, b_t = (b.constant(np.asarray(m, to_numpy(dtype))) for m in matrices(tile))

    # The summed loop comes last everywhere; the channels of a block stay innermost, so that vectors lie along them.
    def stage(
        lhs: ir.Value, lhs_map: list[Any], rhs: ir.Value, rhs_map: list[Any], sizes: list[OpFoldResult], summed: int = 1, part: int = 0
    ) -> ir.Value:
        return contract(b, lhs, lhs_map, rhs, rhs_map, dtype, sizes, summed, part)

    # Tiles overlap by two columns, which the first stage computes for both: so every stage can be done tile by tile.
    i, image, c, ty, tx, w, a, k = dims(*range(8))
    sizes = [size, n, channels, rows, columns, size, inner]
    by_rows = stage(b_t, [i, k], x, [image, c, ty * tile + k, tx * tile + w, a], sizes)
    i, j, image, c, ty, tx, a, k = dims(*range(8))
    sizes = [size, size, n, channels, rows, columns, inner]
    v = stage(b_t, [j, k], by_rows, [i, image, c, ty, tx, k, a], sizes)
    if not transformed:
        i, m, c, w, a, f, k = dims(*range(7))
        sizes = [size, filters, channels // group, TAPS, inner, outer]
        by_rows = stage(g, [i, k], u, [m, c, k, w, a, f], sizes)
        i, j, m, c, a, f, k = dims(*range(7))
        u = stage(g, [j, k], by_rows, [i, m, c, k, a, f], [size, size, filters, channels // group, inner, outer])
    groups = [group] if group > 1 else []
    i, j, image, *of, m, ty, tx, f, c, a = dims(*range(9 + len(groups)))
    v = b.reshape(v, _splitting(3, 7), [size, size, n, *groups, channels // group, rows, columns, inner])
    u = b.reshape(u, _splitting(2, 6), [size, size, *groups, filters // group, channels // group, inner, outer])
    sizes = [size, size, n, *groups, filters // group, rows, columns, outer]
    products = stage(v, [i, j, image, *of, c, ty, tx, a], u, [i, j, *of, m, c, a, f], sizes, 2, PART if channels // group * inner > PART else 0)
    products = b.reshape(products, _splitting(3, 7), [size, size, n, filters, rows, columns, outer])
    j, image, m, ty, p, tx, f, k = dims(*range(8))
    sizes = [size, n, filters, rows, tile, columns, outer]
    by_rows = stage(a_t, [p, k], products, [k, j, image, m, ty, tx, f], sizes)
    image, m, ty, p, tx, q, f, k = dims(*range(8))
    sizes = [n, filters, rows, tile, columns, tile, outer]
    y = stage(a_t, [q, k], by_rows, [k, image, m, ty, p, tx, f], sizes)
    return b.reshape(y, [[0], [1], [2, 3], [4, 5], [6]], whole)


def _splitting(axis: int, rank: int) -> list[list[int]]:
    """How the dimensions of a tensor of `rank` with `axis` split in two group into its own."""
    return [[d] for d in range(axis)] + [[axis, axis + 1]] + [[d + 1] for d in range(axis + 1, rank)]
