"""The lowering of products with panels of columns."""

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import is_static, static_sizes
from stepwell.dialects.packed import PackedMatmulOp
from stepwell.passes.framework.rewriting import NoMatch
from stepwell.passes.graph_to_linalg.contraction import contract, products_of, widened
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, dims
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering


@lowering(PackedMatmulOp)
def lower_packed_matmul(op: PackedMatmulOp, operands: Operands, b: LinalgBuilder) -> ir.Value | NoMatch:
    """Loops: batch dimensions, rows, panels, columns of a panel; then the reduction dimension, for integers as groups and positions in a group.

    Rows of f16 are widened before the product, once: inside, each element would be converted again for every few panels, which takes as long as a
    whole vector. Widening bf16 takes one shift.
    """
    types, result = op.operand_types(), op.result_types()[0]
    if not types[1].is_static or not is_static(types[0].shape[-1:]):
        return NoMatch(f"its columns and panels must have static sizes, got {' and '.join(map(str, types))}")
    sizes = [*b.sizes(operands[0])[:-1], *static_sizes(result.shape[-2:])]
    if types[1].rank == 4:  # of integers: these are widened in the body
        *rows, panel, column, group, place = dims(*range(result.rank + 2))
        maps = [*rows, group * types[1].static_shape[3] + place], [panel, group, column, place]
        return contract(b, operands[0], maps[0], operands[1], maps[1], result.dtype, sizes, 2)
    *rows, panel, column, summed = dims(*range(result.rank + 1))
    x, w = (widened(b, v, products_of(op)) for v in operands)
    return contract(b, x, [*rows, summed], w, [panel, summed, column], result.dtype, sizes, 1)
