"""Scatters: writes to computed positions."""

from stepwell.dialects.core.sizes import has_elements
from stepwell.frontends.blocks.slicing import broadcast_to, counting, from_the_start, size_scalar
from stepwell.frontends.builder import ModelBuilder, Value, dims_of


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
