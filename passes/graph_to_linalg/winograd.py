"""The lowering of Winograd convolutions: transforms as small contractions with constant matrices, and one batched product between."""

import numpy as np

from stepwell.dialects.graph.winograd import TAPS, WinogradConvOp, matrices
from stepwell.dialects.mlir import ir
from stepwell.dialects.types import to_numpy
from stepwell.passes.graph_to_linalg.contraction import contract
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, dims
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering
from stepwell.passes.rewriting import NoMatch


@lowering(WinogradConvOp)
def lower_winograd_conv(op: WinogradConvOp, operands: Operands, b: LinalgBuilder) -> ir.Value | NoMatch:
    """Five contractions: rows and columns of the image by B^T, products by filters, rows and columns of the result by A^T."""
    x_type, u_type = op.operand_types()
    if not x_type.is_static or not u_type.is_static:
        return NoMatch(f"its image and filters must have static sizes, got {x_type} and {u_type}")
    tile: int = op.attribute_values()["tile"]
    dtype = x_type.dtype
    (x, u), (n, channels, _, width, inner) = operands, x_type.static_shape
    size, filters, outer = u_type.static_shape[0], u_type.static_shape[2], u_type.static_shape[5]
    rows, columns = ((x_type.static_shape[i] - TAPS + 1) // tile for i in (2, 3))
    a_t, _, b_t = (b.constant(np.asarray(m, to_numpy(dtype))) for m in matrices(tile))

    # The summed loop comes last everywhere; the channels of a block stay innermost, so that vectors lie along them.
    i, image, c, ty, w, a, k = dims(*range(7))
    by_rows = contract(b, b_t, [i, k], x, [image, c, ty * tile + k, w, a], dtype, [size, n, channels, rows, width, inner], 1)
    i, j, image, c, ty, tx, a, k = dims(*range(8))
    v = contract(b, b_t, [j, k], by_rows, [i, image, c, ty, tx * tile + k, a], dtype, [size, size, n, channels, rows, columns, inner], 1)
    i, j, image, m, ty, tx, f, c, a = dims(*range(9))
    products = contract(b, v, [i, j, image, c, ty, tx, a], u, [i, j, m, c, a, f], dtype, [size, size, n, filters, rows, columns, outer], 2)
    j, image, m, ty, p, tx, f, k = dims(*range(8))
    by_rows = contract(b, a_t, [p, k], products, [k, j, image, m, ty, tx, f], dtype, [size, n, filters, rows, tile, columns, outer], 1)
    image, m, ty, p, tx, q, f, k = dims(*range(8))
    y = contract(b, a_t, [q, k], by_rows, [k, image, m, ty, p, tx, f], dtype, [n, filters, rows, tile, columns, tile, outer], 1)
    return b.reshape(y, [[0], [1], [2, 3], [4, 5], [6]], [n, filters, rows * tile, columns * tile, outer])
