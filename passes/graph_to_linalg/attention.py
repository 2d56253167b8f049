"""The lowering of attention: two products with a softmax between them, as ops of one kernel."""

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.graph.attention import AttentionOp
from stepwell.passes.graph_to_linalg.contraction import matrix_product
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering
from stepwell.passes.graph_to_linalg.reduction import narrowed, normalised_powers
from stepwell.passes.graph_to_linalg.scalars import Scalars


@lowering(AttentionOp)
def lower_attention(op: AttentionOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """rewrite: attention(q, k, v, mask) -> softmax(q k * scale + mask) v

    Each op is a stage of the kernel. `fuse-loops` tiles the queries, so that the scores stay in a cache.
    """
    q, k, v, *mask = operands
    (result,), scale = op.result_types(), op.attribute_values()["scale"]
    sizes, shape = b.given_all(op.scores().shape), b.given_all(result.shape)
    s = Scalars(b, result.dtype)

    def scaled(score: ir.Value, *added: ir.Value) -> ir.Value:
        if added:
            return s.multiply_accumulate(score, s.const(scale), b.widen(added[0]))
        return score if scale == 1 else s.mul(score, s.const(scale))

    scores = b.elementwise([matrix_product(b, q, k, s.dtype, sizes), *mask], s.dtype, sizes, scaled)
    weights = b.staged(normalised_powers(b, scores, len(sizes) - 1, s.dtype))
    return narrowed(b, matrix_product(b, weights, v, s.dtype, shape), result.dtype)
