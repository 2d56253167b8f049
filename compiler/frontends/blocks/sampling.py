"""Samples of images at computed positions, by interpolation, and the windows of regions."""

from functools import partial
from typing import NamedTuple

import numpy as np

from stepwell.dialects.core.sizes import Size
from stepwell.dialects.core.types import to_numpy, type_of
from stepwell.frontends.blocks.resampling_taps import cubic_kernel, polynomial
from stepwell.frontends.blocks.slicing import size_scalar, slice_axis, with_new_axes
from stepwell.frontends.builder import ModelBuilder, Value, dims_of

CUBIC = -0.75  # the coefficient of Keys' kernel (R. Keys, 1981) that GridSample uses


def between(b: ModelBuilder, x: Value, grid: Value, padding: str, aligned: bool) -> Value:
    """`x` at the positions of a grid by linear interpolation: positions are moved into the image, or values outside are 0."""
    wanted = "f64" if type_of(x).dtype == "f64" else "f32"
    sizes = dims_of(x)[:1:-1]  # from last to first, as a grid lists coordinates
    precise = grid if type_of(grid).dtype == "f64" else b.convert(grid, wanted)
    if len(set(sizes)) == 1:
        moved = moved_places(b, precise, sizes[0], padding, aligned)
    else:
        along = [slice_axis(b, precise, type_of(grid).rank - 1, i, 1) for i in range(len(sizes))]
        moved = b.concat([moved_places(b, *one, padding, aligned) for one in zip(along, sizes, strict=True)], axis=type_of(grid).rank - 1)
    return b.interpolate(x, b.convert(moved, wanted), last_first=True)


def size_number(b: ModelBuilder, size: int | Size, like: Value, factor: float = 1.0, more: float = 0.0) -> Value:
    """`size * factor + more` as a scalar of the element type of `like`, rounded once."""
    if isinstance(size, int):
        return b.scalar(size * factor + more, like=like)
    exact = b.convert(size_scalar(b, size, b.literal(np.array(0))), "f64")
    scaled = exact if factor == 1 else b.mul(exact, b.scalar(factor, like=exact))
    return b.convert(scaled if more == 0 else b.add(scaled, b.scalar(more, like=exact)), type_of(like).dtype)


def inside(b: ModelBuilder, place: Value, size: int | Size) -> Value:
    """Positions moved to the nearest pixel of a dimension of that size; NaN stays."""
    if isinstance(size, int):
        return b.clamp(place, min=0.0, max=size - 1.0)
    return b.minimum(b.maximum(place, b.scalar(0, like=place)), size_number(b, size, place, more=-1))


def moved_places(b: ModelBuilder, where: Value, size: int | Size, padding: str, aligned: bool) -> Value:
    """Positions from -1 to 1 in pixels of dimensions of that size, moved into the image according to the padding mode."""
    place = padded_place(b, pixels(b, where, size, aligned), size, padding, aligned)
    # A mirrored position may be half a pixel outside: it takes the value of the nearest pixel.
    return inside(b, place, size) if padding == "reflection" else place


def pixels(b: ModelBuilder, where: Value, size: int | Size, aligned: bool) -> Value:
    """Positions from -1 to 1 in pixels: from the centre of the first to that of the last if `aligned`, else from border to border."""
    scaled = b.mul(where, size_number(b, size, where, 0.5, -0.5 if aligned else 0))
    return b.add(scaled, size_number(b, size, where, 0.5, -0.5))


class Tap(NamedTuple):
    """One element near each position along one dimension: its index, its weight (None means 1), and whether it is inside the image."""

    place: Value
    weight: Value | None
    inside: Value


def taps(b: ModelBuilder, where: Value, size: int | Size, mode: str, padding: str, aligned: bool) -> list[Tap]:
    """The elements around each position (from -1 to 1) along one dimension."""
    number = partial(b.scalar, like=where)
    place = pixels(b, where, size, aligned)
    if mode != "cubic":
        place = padded_place(b, place, size, padding, aligned)
    sources: list[Value] = [b.round(place)]
    weights: list[Value | None] = [None]
    if mode != "nearest":
        first = b.floor(place)
        offsets = (0, 1) if mode == "linear" else (-1, 0, 1, 2)
        sources = [b.add(first, number(offset)) for offset in offsets]
        weights = [kernel(b, b.abs(b.sub(place, source)), mode) for source in sources]
    found = []
    for source, weight in zip(sources, weights, strict=True):
        is_inside = b.and_(b.greater_equal(source, number(0)), b.less_equal(source, size_number(b, size, source, more=-1)))
        if mode == "cubic":
            source = padded_place(b, source, size, padding, aligned)
        found.append(Tap(b.convert(inside(b, source, size), "i64"), weight, is_inside))
    return found


def padded_place(b: ModelBuilder, place: Value, size: int | Size, padding: str, aligned: bool) -> Value:
    """A position moved into the image according to the padding mode; it is mirrored at the pixels of -1 and 1."""
    if padding == "border":
        return inside(b, place, size)
    if padding == "reflection":
        low, less = (0.0, 1) if aligned else (-0.5, 0)
        span = size - less
        if isinstance(span, int) and span <= 0:
            return b.clamp(place, min=0.0, max=0.0)
        there_and_back = size_number(b, span, place, 2)
        beyond = b.mod(b.abs(b.sub(place, b.scalar(low, like=place))), there_and_back, fmod=True)
        mirrored = b.minimum(beyond, b.sub(size_number(b, span, place, 2), beyond))
        moved = inside(b, b.add(mirrored, b.scalar(low, like=place)), size)
        if isinstance(span, int) or not aligned:
            return moved
        return b.select(b.equal(there_and_back, b.scalar(0, like=place)), b.clamp(place, min=0.0, max=0.0), moved)  # of one pixel
    return place


def kernel(b: ModelBuilder, distance: Value, mode: str) -> Value:
    """The weight of an element at that distance."""
    return polynomial(b, distance, -1, 1) if mode == "linear" else cubic_kernel(b, distance, CUBIC)


def windows_of_regions(b: ModelBuilder, rois: Value, column: int, parts: int, scale: float) -> Value:
    """The windows (regions, parts, 2) into which regions are divided along one dimension, with their ends; coordinates begin at `column`."""
    number = partial(b.scalar, like=rois)
    low, high = (rounded_half_away(b, b.mul(slice_axis(b, rois, 1, i, 1), number(scale))) for i in (column, column + 2))
    size = b.div(b.maximum(b.add(b.sub(high, low), number(1)), number(1)), number(parts))
    firsts, ends = (b.mul(size, b.literal(np.arange(parts)[np.newaxis] + i, to_numpy(type_of(rois).dtype))) for i in range(2))
    bounds = [with_new_axes(b, b.add(low, edge), [2]) for edge in (b.floor(firsts), b.ceil(ends))]
    return b.convert(b.concat(bounds, axis=2), "i64")


def rounded_half_away(b: ModelBuilder, x: Value) -> Value:
    """Round to the nearest integer, halves away from zero."""
    size = b.abs(x)
    whole = b.floor(size)
    up = b.greater_equal(b.sub(size, whole), b.scalar(0.5, like=x))
    return b.mul(b.sign(x), b.select(up, b.add(whole, b.scalar(1, like=x)), whole))
