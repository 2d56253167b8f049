"""KV caches: new tokens are written behind the past ones."""

import numpy as np

from stepwell.dialects.core.sizes import Size, always, has_elements
from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.blocks.heads import check_past, lowest_of
from stepwell.frontends.blocks.slicing import broadcast_to, counting, from_the_start, size_scalar, slice_axis
from stepwell.frontends.builder import ModelBuilder, Value, dims_of


def cached(b: ModelBuilder, past: Value, new: Value, before: Value, size: int | Size) -> Value:
    """The cache (batch, heads, size, depth): for each sequence its `before` past tokens, then the new ones; the rest is undefined."""
    check_past(past, new)
    have, count = dims_of(past)[2], dims_of(new)[2]
    lengths = b.constant_value(before)
    if lengths is not None and lengths.size and (lengths == lengths.flat[0]).all():
        first = int(lengths.flat[0])
        behind = size - first - count
        if always(first, "<=", have) and (behind == 0 or (always(behind, ">", 0) and always(size, "<=", have))):
            parts = [slice_axis(b, past, 2, 0, first), new, *([] if behind == 0 else [slice_axis(b, past, 2, first + count, behind)])]
            return b.concat(parts[first == 0 :], axis=2)
    return written_rows(b, with_room(b, past, new, size), new, before, axis=2)


def with_room(b: ModelBuilder, past: Value, new: Value, size: int | Size) -> Value:
    """A cache of that size that begins with the past tokens; the rest is undefined."""
    have, count = dims_of(past)[2], dims_of(new)[2]
    if size == have:
        return past
    both = b.concat([past, new], axis=2)
    if always(size, ">", have + count):
        return b.pad(both, low=(0,) * 4, high=(0, 0, size - have - count, 0), mode="constant", value=0.0)
    return slice_axis(b, both, 2, 0, size)


def allowed_keys(
    b: ModelBuilder, places: Value, before: Value | None, queries: int | Size, keys: int | Size, causal: bool, window: int, dtype: str
) -> Value | None:
    """The term that masks keys: those behind a query, those `window` tokens or more before it, and those that do not exist yet."""
    if not causal and window > 0:
        raise ModelError(f"local_window_size={window} needs causal=1")
    key, rows = counting(b, keys, 3, 4), dims_of(places)[0]
    own = b.with_shape(places, (rows, 1, queries, 1))
    if causal:
        allowed = b.less_equal(key, own)
        if window > 0:
            allowed = b.and_(allowed, b.greater(key, b.sub(own, b.scalar(window, like=own))))
    elif before is not None:
        allowed = b.less(key, b.with_shape(b.add(before, size_scalar(b, queries, before)), (dims_of(before)[0], 1, 1, 1)))
    else:
        return None
    lowest = lowest_of(dtype)
    return b.select(allowed, b.literal(np.zeros_like(lowest)), b.literal(lowest))


def written_rows(b: ModelBuilder, cache: Value, update: Value, starts: Value | None, axis: int, *, circular: bool = False) -> Value:
    """`cache` with `update` written along `axis`, for each entry of the batch (dimension 0) from its index in `starts` on, or from the first one.

    `circular` wraps around at the end; otherwise an index behind the end is an error at run time.
    """
    have, new = dims_of(cache), dims_of(update)
    place = counting(b, new[axis], axis, len(new))
    if starts is not None:
        start = b.with_shape(b.convert(starts, "i64"), [new[0] if i == 0 else 1 for i in range(len(new))])
        place = b.add(place, start)
    if circular:
        has_elements(have[axis], new[axis])  # a remainder of a division by 0 is undefined
        place = b.mod(place, size_scalar(b, have[axis], place), fmod=False)
    if starts is not None:
        place = from_the_start(b, start, have[axis], place)
    return b.scatter_elements(cache, broadcast_to(b, place, new), update, axis=axis, reduction="none", from_start=False)
