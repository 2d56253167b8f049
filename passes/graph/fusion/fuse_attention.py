"""The pass that fuses two matrix products and the softmax between them into one attention op."""

from dataclasses import dataclass
from typing import Any

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Dim, product
from stepwell.dialects.core.types import type_of
from stepwell.dialects.graph import AttentionOp, MatmulOp
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


@pattern(AttentionOp)
def grouped_queries(op: AttentionOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: attention(q, transpose(repeat(k)), repeat(v), mask)  ->  attention(q with the rows of heads together, transpose(k), v, mask for each)

    Heads of queries in a row that share a head of keys and values (Ainslie et al., 2023) are rows of one product with it: nothing is repeated.
    """
    turned = producer(op.k, "transpose")
    if turned is None or tuple(turned.attribute_values()["perm"]) != (0, 1, 3, 2):
        return NoMatch("its keys are not transposed as those of heads are")
    keys, values = _repeated(turned.x), _repeated(op.v)
    q = type_of(op.q)
    if keys is None or values is None or q.rank != 4:
        return NoMatch("its keys and values are not heads in a row for each of several")
    heads, groups = q.shape[1], type_of(keys).shape[1]
    if not isinstance(heads, int) or not isinstance(groups, int) or type_of(values).shape[1] != groups or heads % groups:
        return NoMatch("its keys and values are repeated unlike its queries")
    times = heads // groups
    mask = None if op.mask is None else _for_each(op.mask, times, (groups, q.shape[2]), rw)
    if isinstance(mask, NoMatch):
        return mask
    (batch, _, rows, depth), columns = q.shape, type_of(op.v).shape[3]
    together = rw.reshape(op.q, shape=(batch, groups, product((times, rows)), depth))
    result = rw.attention(together, rw.transpose(keys, perm=(0, 1, 3, 2)), values, mask, **op.attribute_values())
    apart: ir.Value = rw.reshape(result, shape=(batch, heads, rows, columns))
    return apart


def _repeated(value: ir.Value) -> ir.Value | None:
    """The heads [b, g, s, d] that `value`, [b, g * t, s, d], has t times in a row; None if it is something else."""
    joined = producer(value, "reshape")
    expand = None if joined is None else producer(joined.x, "expand")
    apart = None if expand is None else producer(expand.x, "reshape")
    if expand is None or apart is None:
        return None
    before, spread, after = type_of(apart.x).shape, type_of(expand.result).shape, type_of(value).shape
    if len(before) != 4 or len(spread) != 5 or len(after) != 4:
        return None
    one = type_of(expand.x).shape
    groups, times = spread[1:3]
    if one != (*before[:2], 1, *before[2:]) or spread != (*before[:2], times, *before[2:]):
        return None
    fits = after == (before[0], product((groups, times)), *before[2:])
    heads: ir.Value = apart.x
    return heads if fits else None


def _for_each(mask: ir.Value, times: int, sizes: tuple[int, Dim], rw: Rewriter) -> ir.Value | NoMatch:
    """A mask for heads as one for rows of several heads, so many times as many; `sizes` are groups of heads, and rows of one head."""
    groups, rows = sizes
    shape = type_of(mask).shape
    if len(shape) < 2 or shape[-2] == 1:
        return mask if len(shape) < 3 or shape[-3] == 1 else NoMatch("its mask has a row for each head")
    if shape[-2] != rows:
        return NoMatch(f"its mask has {shape[-2]} rows, its queries {rows}")
    *others, _, keys = shape
    if others and others[-1] == groups * times and times > 1:
        joined: ir.Value = rw.reshape(mask, shape=(*others[:-1], groups, product((times, rows)), keys))
        return joined
    if others and others[-1] != 1:
        return NoMatch("its mask is for other heads")
    spread = rw.expand(rw.reshape(mask, shape=(*others, 1, rows, keys)), shape=(*others, times, rows, keys))
    each: ir.Value = rw.reshape(spread, shape=(*others, product((times, rows)), keys))
    return each


@register_pass("fuse-attention", level="graph", optional=True)
@dataclass
class FuseAttention(PatternPass):
    """Compute attention, two matrix products with a softmax between them, in one kernel, whose scores can stay in a cache (see `fuse-loops`).

    The arithmetic is the same, op by op; only the place of intermediate results changes. Keys and values of several heads of queries are read
    as they are, and not repeated for each.
    """

    patterns = (attention, grouped_queries)
