"""Attention from its scores to its results: heads that share keys, masks, windows by position."""

import math
from dataclasses import dataclass

import numpy as np

from stepwell.dialects.core.sizes import Size, divides, holds, maximum
from stepwell.dialects.core.types import BOOL, is_float, size_text, type_of
from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.blocks.heads import split_heads
from stepwell.frontends.blocks.slicing import counting, size_scalar, sizes_of, with_new_axes
from stepwell.frontends.builder import ModelBuilder, Value, dims_of, static_dim


@dataclass(frozen=True)
class Place:
    """Queries and keys in heads, and the position of the first query among the keys: the number of past keys, or of valid keys per batch."""

    queries: Value
    keys: Value
    past: Value | None
    lengths: Value | None


def in_heads(b: ModelBuilder, x: Value, heads: int | None, name: str, attribute: str) -> Value:
    """`x` as (batch, heads, sequence, head size). Raises ModelError if it has another rank or number of heads."""
    shape = dims_of(x)
    if len(shape) == 4:
        if heads is not None and not holds(shape[1], "==", heads):
            raise ModelError(f"{attribute} is {heads}, but {name} {type_of(x)} has {size_text(shape[1])} heads")
        return x
    if len(shape) != 3:
        raise ModelError(f"{name} must have rank 3 or 4, got {type_of(x)}")
    if heads is None:
        raise ModelError(f"{attribute} must be given for {name} of rank 3, {type_of(x)}")
    hidden = shape[2]
    if heads < 1 or not divides(heads, hidden):
        raise ModelError(f"the {size_text(hidden)} elements of a row of {name} do not divide into {heads} heads")
    return split_heads(b, x, heads)


def scaled(b: ModelBuilder, products: Value, scale: float | None, size: int | Size) -> Value:
    """The products times a scale; without one, divided by the square root of the head size."""
    if scale is None and not isinstance(size, int):
        return b.mul(products, b.rsqrt(size_scalar(b, maximum(size, 1), products)))
    return b.mul(products, b.scalar(1 / math.sqrt(max(int(size), 1)) if scale is None else scale, like=products))


def groups_of(queries: Value, keys: Value, values: Value) -> int:
    """The number of query heads that share a head of keys and values.

    Raises ModelError if the numbers of heads are not multiples, NotConstantError if they are unknown.
    """
    query_heads, key_heads, same = dims_of(queries)[1], dims_of(keys)[1], dims_of(values)[1]
    if not holds(key_heads, "==", same):
        raise ModelError(f"{size_text(key_heads)} heads of keys and {size_text(same)} of values are not as many")
    if query_heads == key_heads and not isinstance(query_heads, int):
        return 1
    query_heads, key_heads = static_dim(queries, 1, "Q"), static_dim(keys, 1, "K")
    if key_heads < 1 or query_heads % key_heads:
        raise ModelError(f"{query_heads} heads of queries do not share {key_heads} of keys")
    return query_heads // key_heads


def grouped(b: ModelBuilder, x: Value, groups: int, has_group_axis: bool) -> Value:
    """`x` in heads as (batch, heads of keys, groups, sequence, head size) if queries share heads (`has_group_axis`)."""
    if not has_group_axis:
        return x
    batch, heads, *rest = dims_of(x)
    return b.with_shape(x, (batch, heads // groups, groups, *rest))


def ungrouped(b: ModelBuilder, x: Value, groups: int) -> Value:
    """The opposite of `grouped`, for a result."""
    if groups == 1:
        return x
    batch, heads, group, *rest = dims_of(x)
    return b.with_shape(x, (batch, heads * group, *rest))


def bias_of(b: ModelBuilder, place: Place, mask: Value | None, causal: bool, left: int, right: int, dtype: str) -> Value | None:
    """The term to add to the scores (batch, heads, queries, keys), to which it broadcasts: -inf for masked keys; None for no term."""
    if mask is not None:
        mask = fitted_mask(b, mask, place)
    allowed = [mask] if mask is not None and type_of(mask).dtype == BOOL else []
    if causal or left >= 0 or right >= 0:
        allowed.extend(visible(b, place, causal, left, right))
    if place.lengths is not None:
        lengths = per_batch(b, place.lengths)
        allowed.append(b.less(counting(b, dims_of(place.keys)[2], 3, 4), lengths))
    added = None if mask is None or type_of(mask).dtype == BOOL else b.convert(mask, dtype)
    if not allowed:
        return added
    where = allowed[0]
    for other in allowed[1:]:
        where = b.and_(where, other)
    minus_infinity = b.literal(np.array(-np.inf), np.float64 if dtype == "f64" else np.float32)
    return b.select(where, b.scalar(0, like=minus_infinity) if added is None else added, minus_infinity)


def fitted_mask(b: ModelBuilder, mask: Value, place: Place) -> Value:
    """A mask with an entry for each key: one for fewer keys masks the others. Raises ModelError if it does not fit the scores."""
    have, scores = type_of(mask), (*dims_of(place.queries)[:3], dims_of(place.keys)[2])
    sizes = zip(have.shape[:-1], scores[4 - have.rank : 3], strict=True) if 1 <= have.rank <= 4 else None
    if sizes is None or not all(m == 1 or holds(m, "==", s) for m, s in sizes):
        raise ModelError(f"an attn_mask {have} does not broadcast to scores of the shape {[*map(size_text, scores)]}")
    keys, given = scores[3], dims_of(mask)[-1]
    if not holds(given, "<=", keys):
        raise ModelError(f"an attn_mask {have} is for more than {size_text(keys)} keys")
    if given == keys:
        return mask
    none = (0,) * have.rank
    rest = (*none[1:], keys - given)
    wide = mask if have.dtype == BOOL or is_float(have.dtype) else b.convert(mask, "f64")
    return b.pad(wide, low=none, high=rest, mode="constant", value=0.0 if have.dtype == BOOL else -math.inf)


def visible(b: ModelBuilder, place: Place, causal: bool, left: int, right: int) -> list[Value]:
    """The keys that each query may see, by position: a query is at key position `offset` plus its index in the block of queries."""
    rank = 4 if place.lengths is not None else 2
    query, key = counting(b, dims_of(place.queries)[2], rank - 2, rank), counting(b, dims_of(place.keys)[2], rank - 1, rank)
    if place.lengths is not None:
        query = b.add(query, b.sub(per_batch(b, place.lengths), sizes_of(b, place.queries, [2])))
    elif place.past is not None:
        query = b.add(query, place.past)
    ahead = b.sub(key, query)
    most = [0] * causal + [right] * (right >= 0)
    found = [b.less_equal(ahead, b.scalar(min(most), like=ahead))] if most else []
    return [*found, *([b.greater_equal(ahead, b.scalar(-left, like=ahead))] if left >= 0 else [])]


def per_batch(b: ModelBuilder, lengths: Value) -> Value:
    """One number per batch, shaped to broadcast over scores."""
    if type_of(lengths).rank != 1:
        raise ModelError(f"nonpad_kv_seqlen must have rank 1, got {type_of(lengths)}")
    return with_new_axes(b, lengths, [1, 2, 3])


def rows_without_keys(b: ModelBuilder, bias: Value, possible: bool) -> Value | None:
    """The queries that may see no key at all, whose results are 0; None if there are none."""
    if not possible:
        return None
    empty = b.is_inf(b.reduce_max(bias, axes=(type_of(bias).rank - 1,), keepdims=True), detect_negative=True, detect_positive=False)
    known = b.constant_value(empty)
    return None if known is not None and not known.any() else empty
