"""Rotary embeddings: angles by position turn pairs of elements of each head."""

import numpy as np

from stepwell.dialects.core.sizes import holds, same_sizes, size_text
from stepwell.dialects.core.types import to_numpy, type_of
from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.blocks.heads import check_heads
from stepwell.frontends.blocks.slicing import slice_axis, with_new_axes
from stepwell.frontends.builder import ModelBuilder, Value, dims_of


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


def turned(b: ModelBuilder, x: Value, cos: Value, sin: Value, heads: int, interleaved: bool) -> Value:
    """`x` rotated by angles (batch or 1, sequence, pairs): (batch, heads, sequence, size), or (batch, sequence, heads * size) if `heads` is not 0."""
    shape = dims_of(x)
    if not heads:
        return rotated(b, x, with_new_axes(b, cos, [1]), with_new_axes(b, sin, [1]), interleaved)
    hidden = shape[2]
    check_heads(heads, hidden)
    by_head = b.with_shape(x, (*shape[:2], heads, hidden // heads))
    return b.with_shape(rotated(b, by_head, with_new_axes(b, cos, [2]), with_new_axes(b, sin, [2]), interleaved), shape)
