"""The parts of multi-head attention: heads as a separate dimension, rotation by positions, and the attention itself."""

import math
from collections.abc import Sequence

import ml_dtypes
import numpy as np

from stepwell.dialects.core.sizes import Size, divides, holds, same_sizes, size_text, sizes_text
from stepwell.dialects.core.types import to_numpy, type_of
from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.blocks.rounding import computed_wide
from stepwell.frontends.blocks.slicing import slice_axis, split_axis, with_new_axes
from stepwell.frontends.builder import ModelBuilder, Value, dims_of, static_dim


def split_heads(b: ModelBuilder, x: Value, heads: int) -> Value:
    """(batch, sequence, heads * size) as (batch, heads, sequence, size)."""
    batch, sequence, hidden = dims_of(x)
    return b.transposed(b.with_shape(x, (batch, sequence, heads, hidden // heads)), (0, 2, 1, 3))


def merge_heads(b: ModelBuilder, x: Value) -> Value:
    """(batch, heads, sequence, size) as (batch, sequence, heads * size)."""
    batch, heads, sequence, size = dims_of(x)
    return b.with_shape(b.transposed(x, (0, 2, 1, 3)), (batch, sequence, heads * size))


def lowest_of(dtype: str) -> np.ndarray:
    """The smallest finite number of a float type, as a scalar: it masks a key."""
    kind = to_numpy(dtype)
    return np.array(ml_dtypes.finfo(kind).min, kind)


def attend(
    b: ModelBuilder, q: Value, k: Value, v: Value, added: Sequence[Value | None], scale: float, *, softcap: float = 0.0, sink: Value | None = None
) -> Value:
    """`softmax(q k^T * scale + added) v` by head: (batch, heads, sequence, size). A scale of 0 is `1 / sqrt(size)`.

    If there are fewer heads of keys and values, neighbouring query heads share them. `softcap` c turns the scaled scores into `c * tanh(scores / c)`;
    `sink` is the logarithm of a weight that each head assigns to nothing. Raises ModelError if numbers of heads or sizes do not fit.
    """
    (batch, _, queries, _), (_, _, keys, _), columns = dims_of(q), dims_of(k), dims_of(v)[3]
    heads, shared, size = static_dim(q, 1, "queries"), static_dim(k, 1, "keys"), static_dim(q, 3, "queries")
    if not same_sizes(dims_of(k), (batch, shared, keys, size)) or not same_sizes(dims_of(v)[:3], (batch, shared, keys)):
        raise ModelError(f"queries {type_of(q)}, keys {type_of(k)} and values {type_of(v)} (batch, heads, sequence, size) do not fit together")
    if heads % shared:
        raise ModelError(f"{heads} heads of queries cannot share {shared} heads of keys")
    factor = scale or 1 / math.sqrt(size)
    masks = [by_scores(b, m, (batch, heads, queries, keys)) for m in added if m is not None]
    sinks = None if sink is None else b.reshape(sink, shape=(1, heads, 1, 1))
    if heads != shared:  # each group of heads is an additional dimension, along which keys and values are broadcast
        group = (batch, shared, heads // shared)
        q = b.with_shape(q, (*group, queries, size))
        k, v = with_new_axes(b, k, [2]), with_new_axes(b, v, [2])
        masks = [mask_of_groups(b, m, heads // shared, heads) for m in masks]
        sinks = None if sinks is None else mask_of_groups(b, sinks, heads // shared, heads)
    turned = b.transposed(k, (*range(type_of(k).rank - 2), type_of(k).rank - 1, type_of(k).rank - 2))
    mask = masks[0] if masks else None
    for one in masks[1:]:
        mask = b.add(mask, one)
    if softcap or sinks is not None:
        out = computed_wide(capped_attention)(b, q, turned, v, mask, sinks, factor, softcap)
    else:
        out = b.attention(q, turned, v, mask, scale=float(factor))
    return b.with_shape(out, (batch, heads, queries, columns))


def capped_attention(
    b: ModelBuilder, q: Value, turned: Value, v: Value, mask: Value | None, sink: Value | None, scale: float, softcap: float
) -> Value:
    """Attention with capped scores or a sink; keys are transposed."""
    return b.matmul(weights_of(b, b.matmul(q, turned), scale, softcap, mask, sink), v)


def weights_of(b: ModelBuilder, scores: Value, scale: float, softcap: float, mask: Value | None, sink: Value | None) -> Value:
    """The softmax of capped and masked scores, with a column for the sink that is dropped at the end."""
    scores = b.mul(scores, b.scalar(scale, like=scores))
    if softcap:
        scores = capped(b, scores, softcap)
    if mask is not None:
        scores = b.add(scores, mask)
    last, shape = type_of(scores).rank - 1, dims_of(scores)
    if sink is None:
        return b.softmax(scores, axis=last)
    columns = b.expand(sink, shape=(*shape[:-1], 1))
    return slice_axis(b, b.softmax(b.concat([scores, columns], axis=last), axis=last), last, 0, shape[-1])


def by_scores(b: ModelBuilder, mask: Value, scores: Sequence[int | Size]) -> Value:
    """A mask with a dimension for each of the scores. Raises ModelError if it does not broadcast to them."""
    have = dims_of(mask)
    padded = (1,) * (4 - len(have)) + have
    if len(have) > 4 or not all(m == 1 or holds(m, "==", s) for m, s in zip(padded, scores, strict=True)):
        raise ModelError(f"what is added to the scores, {type_of(mask)}, does not broadcast to {sizes_text(scores)}")
    return b.with_shape(mask, padded)


def mask_of_groups(b: ModelBuilder, mask: Value, groups: int, heads: int | Size) -> Value:
    """A mask that broadcasts to (batch, heads, …), reshaped to broadcast to (batch, heads of keys, groups, …)."""
    shape = dims_of(mask)
    if len(shape) < 3:
        return mask
    if shape[-3] == 1:
        return with_new_axes(b, mask, [len(shape) - 2])
    return b.with_shape(mask, (*shape[:-3], heads // groups, groups, *shape[-2:]))


def capped(b: ModelBuilder, x: Value, softcap: float) -> Value:
    """`x` compressed smoothly to the range from `-softcap` to `softcap`."""
    limit = b.scalar(softcap, like=x)
    return b.mul(b.tanh(b.div(x, limit)), limit)


def check_heads(heads: int, *sizes: int | Size) -> None:
    """Raise ModelError if some hidden size is not a multiple of the number of heads."""
    for size in sizes:
        if heads < 1 or not divides(heads, size):
            raise ModelError(f"a hidden size of {size_text(size)} does not divide into {heads} heads")


def extended(b: ModelBuilder, past: Value | None, new: Value) -> Value:
    """The keys or values (batch, heads, sequence, size) appended to past ones."""
    if past is None:
        return new
    check_past(past, new)
    return b.concat([past, new], axis=2)


def check_past(past: Value, new: Value) -> None:
    """Raise ModelError if keys or values do not fit the past ones."""
    have, wanted = dims_of(past), dims_of(new)
    if type_of(past).dtype != type_of(new).dtype or len(have) != 4 or not same_sizes((*have[:2], have[3]), (*wanted[:2], wanted[3])):
        raise ModelError(f"a past of {type_of(past)} does not fit {type_of(new)} (batch, heads, sequence, size)")


def unpacked(b: ModelBuilder, x: Value, heads: int, count: int) -> list[Value]:
    """The parts, (batch, sequence, hidden), of a tensor (batch, sequence, heads, parts, size)."""
    batch, sequence, have, parts, size = dims_of(x)
    if not same_sizes((have, parts), (heads, count)):
        raise ModelError(f"a packed input must be (batch, sequence, {heads}, {count}, size), got {type_of(x)}")
    return [b.with_shape(part, (batch, sequence, heads * size)) for part in split_axis(b, x, 3, [1] * count)]


def rotated(b: ModelBuilder, x: Value, cos: Value, sin: Value, interleaved: bool) -> Value:
    """The rotary embedding (Su et al., "RoFormer", 2021) of heads, the last dimension of `x`, by angles that broadcast to it, one for each pair.

    The first `2 * pairs` elements of each head are rotated: element i with i + pairs, or neighbours if `interleaved`. The others stay.
    """
    shape, last = dims_of(x), type_of(x).rank - 1
    size, pairs = shape[last], dims_of(cos)[-1]
    if type_of(sin).dtype != type_of(cos).dtype or not same_sizes(dims_of(sin), dims_of(cos)) or not holds(2 * pairs, "<=", size):
        raise ModelError(f"cosines {type_of(cos)} and sines {type_of(sin)} do not fit heads of {size_text(size)} elements")
    halves = last + 1 if interleaved else last  # the dimension of the two elements of a pair
    split = (*shape[:-1], pairs, 2) if interleaved else (*shape[:-1], 2, pairs)
    both = b.with_shape(slice_axis(b, x, last, 0, 2 * pairs), split)
    c, s = (with_new_axes(b, table, [halves]) for table in (cos, sin))
    sign = b.literal(np.array([-1, 1]).reshape((2,) if interleaved else (2, 1)).astype(to_numpy(type_of(x).dtype)))
    crossed = b.mul(slice_axis(b, both, halves, 1, 2, -1), s)
    # One pass over all elements: the second product is negated for the first of each pair, which is exact.
    out = b.with_shape(b.add(b.mul(both, c), b.mul(crossed, sign)), (*shape[:-1], 2 * pairs))
    return out if 2 * pairs == size else b.concat([out, slice_axis(b, x, last, 2 * pairs, size - 2 * pairs)], axis=last)


def rotated_heads(b: ModelBuilder, x: Value, cos: Value, sin: Value, heads: int, interleaved: bool) -> Value:
    """`x` rotated by angles (batch or 1, sequence, pairs): (batch, heads, sequence, size), or (batch, sequence, heads * size) if `heads` is not 0."""
    shape = dims_of(x)
    if not heads:
        return rotated(b, x, with_new_axes(b, cos, [1]), with_new_axes(b, sin, [1]), interleaved)
    hidden = shape[2]
    check_heads(heads, hidden)
    by_head = b.with_shape(x, (*shape[:2], heads, hidden // heads))
    return b.with_shape(rotated(b, by_head, with_new_axes(b, cos, [2]), with_new_axes(b, sin, [2]), interleaved), shape)
