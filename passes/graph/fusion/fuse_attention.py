"""The pass that fuses two matrix products and the softmax between them into one attention op."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Dim, product
from stepwell.dialects.core.types import compute_dtype, to_numpy, type_of
from stepwell.dialects.graph import AttentionOp, MatmulOp
from stepwell.passes.framework.registry import register_pass
from stepwell.passes.framework.rewriting import NoMatch, PatternPass, Rewriter, expect, pattern
from stepwell.passes.graph.matching import fused_location, has_one_use, producer, splat_of


@pattern(MatmulOp)
def attention(op: MatmulOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: matmul(softmax(add(mul(matmul(q, k), scale), mask)), v) -> attention(q, k, v, mask)   with or without a scale and a mask

    Scores that are divided by a number are multiplied by its reciprocal, which is rounded once.
    """
    softmax = producer(op.lhs, "softmax")
    if softmax is None or softmax.attribute_values()["axis"] != type_of(softmax.x).rank - 1:
        return NoMatch("its left operand is not a softmax of rows")
    if compute_dtype(type_of(op.result).dtype) != type_of(op.result).dtype:
        return NoMatch(f"between its ops values are rounded to {type_of(op.result).dtype}")
    inside = [softmax]
    scores, mask = _with_mask(softmax.x, inside)
    scale, scores = _scale(scores, rw, inside)
    product = expect(producer(scores, "matmul"), "what its softmax takes is not a matrix product, scaled and masked")
    inside.append(product)
    shared = next((one for one in inside if not has_one_use(one.operation.results[0])), None)
    if shared is not None:
        return NoMatch(f"the result of '{shared.operation.name}' before it has another user")
    if any(None in type_of(v).shape for one in (*inside, op) for v in one.operation.operands):
        return NoMatch("it has operands of whose sizes nothing is known")
    with fused_location(*reversed(inside), op):
        return rw.attention(product.lhs, product.rhs, op.rhs, mask, scale=scale)


def _with_mask(value: ir.Value, inside: list[Any]) -> tuple[ir.Value, ir.Value | None]:
    """The scores, and the mask that is added to them, if there is one."""
    added = producer(value, "add")
    if added is None:
        return value, None
    for scores, mask in ((added.lhs, added.rhs), (added.rhs, added.lhs)):
        made = producer(scores, "matmul", "mul", "div")
        if made is not None and type_of(scores) == type_of(value):
            inside.append(added)
            return scores, mask
    return value, None


def _scale(value: ir.Value, rw: Rewriter, inside: list[Any]) -> tuple[float, ir.Value]:
    """The factor of the scores (a constant, or the reciprocal of a constant divisor; 1 if there is none), and the unscaled scores."""
    scaled = producer(value, "mul")
    for scores, factor in () if scaled is None else ((scaled.lhs, scaled.rhs), (scaled.rhs, scaled.lhs)):
        number = splat_of(factor, rw)
        if number is not None and type_of(scores) == type_of(value):
            inside.append(scaled)
            return float(number), scores
    divided = producer(value, "div")
    number = None if divided is None else splat_of(divided.rhs, rw)
    if number is not None and type_of(divided.lhs) == type_of(value) and _has_reciprocal(float(number), type_of(value).dtype):
        inside.append(divided)
        return 1.0 / float(number), divided.lhs
    return 1.0, value


def _has_reciprocal(number: float, dtype: str) -> bool:
    """Whether a number and its reciprocal are normal numbers of a type."""
    least = float(np.finfo(to_numpy(dtype)).tiny)
    return least <= abs(number) <= 1 / least


@pattern(AttentionOp)
def grouped_queries(op: AttentionOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: attention(q, transpose(repeat(k)), repeat(v), mask)  ->  attention(q with the rows of heads together, transpose(k), v, mask for each)

    Consecutive query heads that share a head of keys and values (Ainslie et al., 2023) become rows of one product with it: nothing is repeated. The
    heads of a group may also be a separate dimension, along which keys and values are broadcast.
    """
    q, turned = type_of(op.q), producer(op.k, "transpose")
    last = q.rank - 1
    if turned is None or tuple(turned.attribute_values()["perm"]) != (*range(last - 1), last, last - 1):
        return NoMatch("its keys are not transposed as those of heads are")
    if q.rank not in (4, 5):
        return NoMatch("its queries are not heads, or groups of such")
    keys, values = (_repeated(value) if q.rank == 4 else _broadcast(value) for value in (turned.x, op.v))
    if keys is None or values is None:
        return NoMatch("its keys and values are not heads in a row for each of several")
    heads, groups = product(q.shape[1:-2]), keys.shape[1]
    if not isinstance(heads, int) or not isinstance(groups, int) or values.shape[1] != groups or heads % groups:
        return NoMatch("its keys and values are repeated unlike its queries")
    if (q.rank == 5 and q.shape[1] != groups) or any(shared.shape[0] != q.shape[0] for shared in (keys, values)):
        return NoMatch("its queries are broadcast, too, or batches are")
    if any(None in type_of(value).shape for value in op.operation.operands):
        return NoMatch("it has operands of whose sizes nothing is known")
    times, rows, depth = heads // groups, *q.shape[-2:]
    mask = None
    if op.mask is not None:
        shape = _by_heads(type_of(op.mask).shape, q.rank, (groups, times), rows)
        mask = _for_each(_shaped(op.mask, shape, rw), times, groups, rw)
    together = rw.reshape(op.q, shape=(q.shape[0], groups, product((times, rows)), depth))
    k, v = (_shaped(shared.source, shared.shape, rw) for shared in (keys, values))
    result = rw.attention(together, rw.transpose(k, perm=(0, 1, 3, 2)), v, mask, **op.attribute_values())
    return rw.reshape(result, shape=(*q.shape[:-1], type_of(op.v).shape[-1]))


def _shaped(value: ir.Value, shape: tuple[Dim, ...], rw: Rewriter) -> ir.Value:
    """A value reshaped to `shape`, unless it has that shape."""
    return value if type_of(value).shape == shape else rw.reshape(value, shape=shape)


@dataclass(frozen=True)
class _Heads:
    """Heads of keys or values that several query heads share."""

    source: ir.Value
    """The value with their elements, in order."""
    shape: tuple[Dim, ...]
    """[batch, heads, tokens, size]."""


def _broadcast(value: ir.Value) -> _Heads | None:
    """The heads [b, g, s, d] of `value`, [b, g, 1, s, d], if it is broadcast along its third dimension; otherwise None."""
    batch, groups, times, *matrix = type_of(value).shape
    if times != 1:
        return None
    unmerged = producer(value, "reshape")
    return _Heads(value if unmerged is None else unmerged.x, (batch, groups, *matrix))


def _by_heads(shape: tuple[Dim, ...], rank: int, groups: tuple[int, int], rows: Dim) -> tuple[Dim, ...]:
    """The shape of a mask for queries of that rank with one dimension of heads. Raises NoMatch unless its `rows` are one, or one for each query."""
    batch, *heads, own, keys = (1,) * (rank - len(shape)) + shape
    if heads not in ([1] * len(heads), [product(groups)] if rank == 4 else [*groups]):
        raise NoMatch("its mask is for other heads")
    head = product(heads)
    if own != rows and (own != 1 or head != 1):
        raise NoMatch("its mask has a row for each head" if own == 1 else f"its mask has {own} rows, its queries {rows}")
    return (batch, head, own, keys)


def _repeated(value: ir.Value) -> _Heads | None:
    """The heads [b, g, s, d] that `value`, [b, g * t, s, d], repeats t times in a row; None if it is anything else."""
    joined = producer(value, "reshape")
    expand = None if joined is None else producer(joined.x, "expand")
    unmerged = None if expand is None else producer(expand.x, "reshape")
    if expand is None or unmerged is None:
        return None
    before, spread, after = type_of(unmerged.x).shape, type_of(expand.result).shape, type_of(value).shape
    if len(before) != 4 or len(spread) != 5 or len(after) != 4:
        return None
    one = type_of(expand.x).shape
    groups, times = spread[1:3]
    if one != (*before[:2], 1, *before[2:]) or spread != (*before[:2], times, *before[2:]):
        return None
    return _Heads(unmerged.x, before) if after == (before[0], product((groups, times)), *before[2:]) else None


def _for_each(mask: ir.Value, times: int, groups: int, rw: Rewriter) -> ir.Value:
    """A mask [b, h, rows, keys] for heads as one for rows of several heads, `times` as many."""
    batch, heads, rows, keys = type_of(mask).shape
    if heads == 1 and rows != 1:
        mask = rw.expand(rw.reshape(mask, shape=(batch, 1, 1, rows, keys)), shape=(batch, 1, times, rows, keys))
    return _shaped(mask, (batch, 1 if heads == 1 else groups, 1 if heads == rows == 1 else product((times, rows)), keys), rw)


@register_pass("fuse-attention", level="graph", optional=True)
class FuseAttention(PatternPass):
    """Compute attention (two matrix products with a softmax between them) in one kernel, whose scores can stay in a cache (see `fuse-loops`).

    The arithmetic is the same, op by op, except for a division by a constant, which becomes a product with its reciprocal; only the location of
    intermediate results changes. Keys and values that several query heads share are read in place, not repeated for each head.
    """

    patterns = (attention, grouped_queries)
