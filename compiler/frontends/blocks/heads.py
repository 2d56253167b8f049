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
        masks = [grouped(b, m, shared, heads // shared) for m in masks]
        sinks = None if sinks is None else grouped(b, sinks, shared, heads // shared)
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
        cap = b.scalar(softcap, like=scores)
        scores = b.mul(b.tanh(b.div(scores, cap)), cap)
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


def grouped(b: ModelBuilder, mask: Value, shared: int, group: int) -> Value:
    """A mask over heads, reshaped to shared heads and the members of each group."""
    batch, heads, queries, keys = dims_of(mask)
    return b.with_shape(mask, (batch, 1, 1, queries, keys) if heads == 1 else (batch, shared, group, queries, keys))


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
