"""The pass that fuses two matrix products and the softmax between them into one attention op."""

from dataclasses import dataclass
from typing import Any

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import type_of
from stepwell.dialects.graph import MatmulOp
from stepwell.passes.framework.registry import register_pass
from stepwell.passes.framework.rewriting import NoMatch, PatternPass, Rewriter, pattern
from stepwell.passes.graph.matching import fused_location, has_one_use, producer, splat_of


@pattern(MatmulOp)
def attention(op: MatmulOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: matmul(softmax(add(mul(matmul(q, k), scale), mask)), v) -> attention(q, k, v, mask)   with or without a scale and a mask"""
    softmax = producer(op.lhs, "softmax")
    if softmax is None or softmax.attribute_values()["axis"] != type_of(softmax.x).rank - 1:
        return NoMatch("its left operand is not a softmax of rows")
    if type_of(op.result).dtype not in ("f32", "f64"):
        return NoMatch(f"between its ops values are rounded to {type_of(op.result).dtype}")
    inside = [softmax]
    scores, mask = _with_mask(softmax.x, inside)
    scale, scores = _scale(scores, rw, inside)
    product = producer(scores, "matmul")
    if product is None:
        return NoMatch("what its softmax takes is not a matrix product, scaled and masked")
    inside.append(product)
    shared = next((one for one in inside if not has_one_use(one.operation.results[0])), None)
    if shared is not None:
        return NoMatch(f"the result of '{shared.operation.name}' before it has another user")
    if any(None in type_of(v).shape for one in (*inside, op) for v in one.operation.operands):
        return NoMatch("it has operands of whose sizes nothing is known")
    with fused_location(*reversed(inside), op):
        result: ir.Value = rw.attention(product.lhs, product.rhs, op.rhs, mask, scale=scale)
    return result


def _with_mask(value: ir.Value, inside: list[Any]) -> tuple[ir.Value, ir.Value | None]:
    """The scores, and the mask that is added to them, if any."""
    added = producer(value, "add")
    if added is None:
        return value, None
    for scores, mask in ((added.lhs, added.rhs), (added.rhs, added.lhs)):
        made = producer(scores, "matmul") or producer(scores, "mul")
        if made is not None and type_of(scores) == type_of(value):
            inside.append(added)
            return scores, mask
    return value, None


def _scale(value: ir.Value, rw: Rewriter, inside: list[Any]) -> tuple[float, ir.Value]:
    """The constant that scores are multiplied by, and the scores; 1 if they are not."""
    scaled = producer(value, "mul")
    for scores, factor in () if scaled is None else ((scaled.lhs, scaled.rhs), (scaled.rhs, scaled.lhs)):
        number = splat_of(factor, rw)
        if number is not None and type_of(scores) == type_of(value):
            inside.append(scaled)
            return float(number), scores
    return 1.0, value


@register_pass("fuse-attention", level="graph", optional=True)
@dataclass
class FuseAttention(PatternPass):
    """Compute attention, two matrix products with a softmax between them, in one kernel, whose scores can stay in a cache (see `fuse-loops`).

    The arithmetic is the same, op by op; only the place of intermediate results changes.
    """

    patterns = (attention,)
