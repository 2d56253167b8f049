"""Slices between bounds that are numbers or follow from sizes, by the rules of Python and ONNX for out-of-range bounds."""

from collections.abc import Sequence

import numpy as np

from stepwell.dialects.core.sizes import Size, always, holds, maximum, minimum
from stepwell.dialects.core.types import type_of
from stepwell.dialects.graph.indexing import slice_bounds
from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.builder import ModelBuilder, Value, dims_of, normalized_axis

FAR = np.iinfo(np.int32).max  # larger bounds, and their negatives, are beyond any dimension
LONG = 1 << 24  # bounds from here on are taken to be beyond a dynamic dimension, unless it turns out to be that long


def static_slice(
    b: ModelBuilder, x: Value, starts: Sequence[int | Size], ends: Sequence[int | Size], axes: Sequence[int], steps: Sequence[int]
) -> Value | None:
    """`x[start:end:step]` along each of `axes`, with ONNX's rules for negative and out-of-range bounds.

    If a size or a bound depends on data, bounds are clamped to the dimension; None if data decide whether a bound counts from the end.
    """
    tensor = type_of(x)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise ModelError(f"starts {list(starts)}, ends {list(ends)}, axes {list(axes)} and steps {list(steps)} must have one length")
    begin: list[int | Size] = [0] * tensor.rank
    count: list[int | Size] = [-1] * tensor.rank
    stride = [1] * tensor.rank
    chosen = [normalized_axis(axis, tensor.rank, "axes") for axis in axes]
    any_data = not b.symbols.are_of_shapes([*starts, *ends, *(tensor.shape[axis] for axis in chosen)])
    for start, end, axis, step in zip(starts, ends, chosen, steps, strict=True):
        if step == 0:
            raise ModelError(f"steps must not be 0, got {list(steps)}")
        size = dims_of(x)[axis]
        if isinstance(start, Size) or isinstance(end, Size) or isinstance(size, Size):
            bounds = cut_bounds(b, start, end, step, size) if any_data else symbolic_bounds(start, end, step, size)
            if bounds is None:
                return None
            begin[axis], count[axis], stride[axis] = *bounds, step
            continue
        places = range(*slice_bounds(start, end, step, size), step)
        begin[axis], count[axis], stride[axis] = (places[0] if places else 0), len(places), step
    whole = all(s == 0 and t == 1 and (n == -1 or n == d) for s, n, t, d in zip(begin, count, stride, tensor.shape, strict=True))
    return x if whole else b.slice(x, starts=tuple(begin), sizes=tuple(count), steps=tuple(stride))


def is_far(bound: int | Size) -> bool:
    """Whether a bound is beyond any dimension."""
    return isinstance(bound, int) and abs(bound) >= FAR


def cut_bounds(b: ModelBuilder, start: int | Size, end: int | Size, step: int, size: int | Size) -> tuple[int | Size, int | Size] | None:
    """The first index of a slice of a dimension, and its length, by the rules of `slice_bounds` whatever the numbers are.

    Elements of inputs are assumed to be nonnegative, as always; None if the data decide whether a bound is.
    """
    low, high = (0, size) if step > 0 else (-1, size - 1)

    def place(bound: int | Size) -> int | Size | None:
        if is_far(bound):
            return high if bound > 0 else low
        if always(bound, "<", 0):
            bound = bound + size
        elif not always(bound, ">=", 0) and not (b.symbols.are_of_inputs([bound]) and holds(bound, ">=", 0)):
            return None
        return minimum(maximum(bound, low), high)

    first, last = place(start), place(end)
    if first is None or last is None:
        return None
    if step < 0:
        first = minimum(maximum(first, 0), high)  # as `slice_bounds` begins
    if step > 0 and first == 0 and last == size:
        return 0, -(-size // step)
    ahead = maximum(last - first if step > 0 else first - last, 0)
    return first, -(-ahead // abs(step))


def symbolic_bounds(start: int | Size, end: int | Size, step: int, size: int | Size) -> tuple[int | Size, int | Size]:
    """The first index of a slice of a dimension, and its length, if one of the numbers follows from sizes of inputs.

    Far bounds mean the ends. Others are assumed to lie in the dimension and to be in order: otherwise code is specialised for the sizes.
    """

    def beyond(bound: int) -> bool:
        return is_far(bound) or (abs(bound) >= LONG and holds(size, "<=", abs(bound)))

    def inside(bound: int | Size, low: int, high: int | Size) -> int | Size:
        if isinstance(bound, int) and beyond(bound):
            return high if bound > 0 else low
        if isinstance(bound, int) and bound < 0:
            bound = size + bound
        return low if not holds(bound, ">=", low) else high if not holds(bound, "<=", high) else bound

    if step > 0 and isinstance(start, int) and isinstance(end, int) and 0 <= start < LONG <= end and beyond(end):
        return start, -1  # whatever there is
    if step > 0:
        first = inside(start, 0, size)
        ahead = inside(end, 0, size) - first
    else:
        first = inside(start, 0, size - 1)
        # An end of -1 counts from the end, as in Python: only a far bound can express "down to the first".
        ahead = first - inside(end, -1, size - 1)
    if not holds(ahead, ">=", 0):
        return 0, 0
    return first, -(-ahead // abs(step))
