"""What attention of several heads is made of: heads as a dimension of their own, rotation by positions, and the attention itself."""

import math
from collections.abc import Sequence

import ml_dtypes
import numpy as np

from stepwell.dialects.core.sizes import Size, holds, same_sizes, size_text, sizes_text
from stepwell.dialects.core.types import to_numpy, type_of
from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.builder import Value, dims_of, static_dim
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.rounding import rounded_once
from stepwell.frontends.onnx.rules.slicing import slice_axis, with_new_axes


def heads_apart(b: ImportBuilder, x: Value, heads: int) -> Value:
    """(batch, sequence, heads * size) as (batch, heads, sequence, size)."""
    batch, sequence, hidden = dims_of(x)
    return b.transposed(b.with_shape(x, (batch, sequence, heads, hidden // heads)), (0, 2, 1, 3))


def heads_together(b: ImportBuilder, x: Value) -> Value:
    """(batch, heads, sequence, size) as (batch, sequence, heads * size)."""
    batch, heads, sequence, size = dims_of(x)
    return b.with_shape(b.transposed(x, (0, 2, 1, 3)), (batch, sequence, heads * size))


def lowest_of(dtype: str) -> np.ndarray:
    """The least finite number of a float type, as a scalar: what forbids a key."""
    kind = to_numpy(dtype)
    return np.array(ml_dtypes.finfo(kind).min, kind)  # type: ignore[no-untyped-call]


def attend(
    b: ImportBuilder, q: Value, k: Value, v: Value, added: Sequence[Value | None], scale: float, *, softcap: float = 0.0, sink: Value | None = None
) -> Value:
    """`softmax(q k^T * scale + added) v` by head: (batch, heads, sequence, size). A scale of 0 is `1 / sqrt(size)`.

    Fewer heads of keys and values are shared by neighbouring heads of queries. `softcap` c makes `c * tanh(scores / c)` of the scaled scores;
    `sink` is the logarithm of a weight that each head gives to nothing. Raises ModelError if numbers of heads or sizes do not fit.
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
    if heads != shared:  # each group of heads is one more dimension, along which keys and values are broadcast
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
        out = rounded_once(capped_attention)(b, q, turned, v, mask, sinks, factor, softcap)
    else:
        out = b.attention(q, turned, v, mask, scale=float(factor))
    return b.with_shape(out, (batch, heads, queries, columns))


def capped_attention(
    b: ImportBuilder, q: Value, turned: Value, v: Value, mask: Value | None, sink: Value | None, scale: float, softcap: float
) -> Value:
    """Attention of which scores are capped, or that gives a weight to nothing; keys are transposed."""
    return b.matmul(weights_of(b, b.matmul(q, turned), scale, softcap, mask, sink), v)


def weights_of(b: ImportBuilder, scores: Value, scale: float, softcap: float, mask: Value | None, sink: Value | None) -> Value:
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


def by_scores(b: ImportBuilder, mask: Value, scores: Sequence[int | Size]) -> Value:
    """A mask with a dimension for each of the scores. Raises ModelError if it does not broadcast to them."""
    have = dims_of(mask)
    padded = (1,) * (4 - len(have)) + have
    if len(have) > 4 or not all(m == 1 or holds(m, "==", s) for m, s in zip(padded, scores, strict=True)):
        raise ModelError(f"what is added to the scores, {type_of(mask)}, does not broadcast to {sizes_text(scores)}")
    return b.with_shape(mask, padded)


def grouped(b: ImportBuilder, mask: Value, shared: int, group: int) -> Value:
    """A mask over heads as one over shared heads and the members of each group."""
    batch, heads, queries, keys = dims_of(mask)
    return b.with_shape(mask, (batch, 1, 1, queries, keys) if heads == 1 else (batch, shared, group, queries, keys))


def rotated(b: ImportBuilder, x: Value, cos: Value, sin: Value, interleaved: bool) -> Value:
    """The rotary embedding (Su et al., "RoFormer", 2021) of heads, the last dimension of `x`, by angles that broadcast to it, one for each pair.

    The first `2 * pairs` elements of each head are turned: element i with i + pairs, or neighbours if `interleaved`. The others stay.
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
