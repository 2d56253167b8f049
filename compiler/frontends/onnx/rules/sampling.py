"""Rules that take images apart or sample them at computed places: GridSample, RoiAlign, MaxRoiPool and Col2Im."""

import functools
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stepwell.dialects.core.dtypes import FLOATS
from stepwell.dialects.core.sizes import Size, holds
from stepwell.dialects.core.types import to_numpy, type_of
from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.builder import Value, dims_of
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import onnx_rule
from stepwell.frontends.onnx.rounding import rounded_once
from stepwell.frontends.onnx.rules.resampling import supported
from stepwell.frontends.onnx.rules.resampling_taps import cubic_kernel, polynomial
from stepwell.frontends.onnx.rules.slicing import from_the_start, size_scalar, slice_axis, with_new_axes

CUBIC = -0.75  # the coefficient of Keys' kernel (R. Keys, 1981) that GridSample uses


@onnx_rule("GridSample", since=16)
@rounded_once
def grid_sample_of_images(
    b: ImportBuilder, x: Value, grid: Value, *, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: int = 0
) -> Value:
    return grid_sample(
        b, x, grid, mode={"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode), padding_mode=padding_mode, align_corners=align_corners
    )


@onnx_rule("GridSample", since=20)
@rounded_once
def grid_sample(b: ImportBuilder, x: Value, grid: Value, *, mode: str = "linear", padding_mode: str = "zeros", align_corners: int = 0) -> Value:
    """Each sample is a weighted sum of nearby elements: one for nearest, two along each dimension for linear, four for cubic.

    Linear samples of floats are one op; others are composed of gathers.
    """
    supported("mode", mode, ("nearest", "linear", "cubic"))
    supported("padding_mode", padding_mode, ("zeros", "border", "reflection"))
    dims, places = dims_of(x), dims_of(grid)
    spatial = len(dims) - 2
    if spatial < 1 or len(places) != spatial + 2 or not holds(places[0], "==", dims[0]) or not holds(places[-1], "==", spatial):
        raise ModelError(f"a grid of type {type_of(grid)} does not fit an input of type {type_of(x)}")
    if mode == "linear" and type_of(x).dtype in FLOATS:
        return between(b, x, grid, padding_mode, bool(align_corners))
    along = [slice_axis(b, grid, len(places) - 1, spatial - 1 - i, 1) for i in range(spatial)]  # a grid lists dimensions from last to first
    last = b.transposed(x, (0, *range(2, len(dims)), 1))  # channels last: an index names all channels of an element
    axes = [taps(b, where, size, mode, padding_mode, bool(align_corners)) for where, size in zip(along, dims[2:], strict=True)]
    total: Value | None = None
    for chosen in itertools.product(*axes):
        indices = b.concat([tap.place for tap in chosen], axis=len(places) - 1)
        part = b.gather_nd(last, indices, batch_dims=1)
        for tap in chosen:
            part = part if tap.weight is None else b.mul(part, tap.weight)
        if padding_mode == "zeros":  # select rather than weight by 0: the element read instead of padding may be infinite
            part = b.select(functools.reduce(b.and_, [tap.inside for tap in chosen]), part, b.scalar(0, like=part))
        total = part if total is None else b.add(total, part)
    assert total is not None
    return b.transposed(total, (0, len(dims) - 1, *range(1, len(dims) - 1)))


def between(b: ImportBuilder, x: Value, grid: Value, padding: str, aligned: bool) -> Value:
    """`x` at the places of a grid by linear interpolation: places are moved into the image, or what lies outside is 0."""
    wanted = "f64" if type_of(x).dtype == "f64" else "f32"
    sizes = dims_of(x)[:1:-1]  # from last to first, as a grid lists places
    precise = grid if type_of(grid).dtype == "f64" else b.convert(grid, wanted)
    if len(set(sizes)) == 1:
        moved = moved_places(b, precise, sizes[0], padding, aligned)
    else:
        along = [slice_axis(b, precise, type_of(grid).rank - 1, i, 1) for i in range(len(sizes))]
        moved = b.concat([moved_places(b, *one, padding, aligned) for one in zip(along, sizes, strict=True)], axis=type_of(grid).rank - 1)
    return b.interpolate(x, b.convert(moved, wanted), last_first=True)


def size_number(b: ImportBuilder, size: int | Size, like: Value, factor: float = 1.0, more: float = 0.0) -> Value:
    """`size * factor + more` as a scalar of the element type of `like`, rounded once."""
    if isinstance(size, int):
        return b.scalar(size * factor + more, like=like)
    exact = b.convert(size_scalar(b, size, b.literal(np.array(0))), "f64")
    scaled = exact if factor == 1 else b.mul(exact, b.scalar(factor, like=exact))
    return b.convert(scaled if more == 0 else b.add(scaled, b.scalar(more, like=exact)), type_of(like).dtype)


def inside(b: ImportBuilder, place: Value, size: int | Size) -> Value:
    """Places moved to the nearest pixel of a dimension of that size; NaN stays."""
    if isinstance(size, int):
        return b.clamp(place, min=0.0, max=size - 1.0)
    return b.minimum(b.maximum(place, b.scalar(0, like=place)), size_number(b, size, place, more=-1))


def moved_places(b: ImportBuilder, where: Value, size: int | Size, padding: str, aligned: bool) -> Value:
    """Places from -1 to 1 in pixels of dimensions of that size, moved into the image as the padding says."""
    place = padded_place(b, pixels(b, where, size, aligned), size, padding, aligned)
    # A mirrored place may be half a pixel outside: what is there is what is nearest.
    return inside(b, place, size) if padding == "reflection" else place


def pixels(b: ImportBuilder, where: Value, size: int | Size, aligned: bool) -> Value:
    """Places from -1 to 1 in pixels: from the centre of the first to that of the last if `aligned`, else from border to border."""
    scaled = b.mul(where, size_number(b, size, where, 0.5, -0.5 if aligned else 0))
    return b.add(scaled, size_number(b, size, where, 0.5, -0.5))


class Tap(NamedTuple):
    """One element near each place along one dimension: its index, its weight (None means 1), and whether it is inside the image."""

    place: Value
    weight: Value | None
    inside: Value


def taps(b: ImportBuilder, where: Value, size: int | Size, mode: str, padding: str, aligned: bool) -> list[Tap]:
    """The elements around each place (from -1 to 1) along one dimension."""

    def number(value: float) -> Value:
        return b.scalar(value, like=where)

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


def padded_place(b: ImportBuilder, place: Value, size: int | Size, padding: str, aligned: bool) -> Value:
    """A place moved into the image according to the padding mode, which is mirrored at the pixels that -1 and 1 are."""
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


def kernel(b: ImportBuilder, distance: Value, mode: str) -> Value:
    """The weight of an element at that distance."""
    return polynomial(b, distance, -1, 1) if mode == "linear" else cubic_kernel(b, distance, CUBIC)


@onnx_rule("RoiAlign", since=10)
def roi_align_of_corners(
    b: ImportBuilder,
    x: Value,
    rois: Value,
    batch_indices: Value,
    *,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Value:
    return roi_align(
        b, x, rois, batch_indices, coordinate_transformation_mode="output_half_pixel", mode=mode, output_height=output_height,
        output_width=output_width, sampling_ratio=sampling_ratio, spatial_scale=spatial_scale,
    )  # fmt: skip


@onnx_rule("RoiAlign", since=16)
def roi_align(
    b: ImportBuilder,
    x: Value,
    rois: Value,
    batch_indices: Value,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Value:
    supported("mode", mode, ("avg", "max"))
    supported("coordinate_transformation_mode", coordinate_transformation_mode, ("half_pixel", "output_half_pixel"))
    if output_height < 1 or output_width < 1 or sampling_ratio < 0:
        given = f"{output_height}, {output_width} and {sampling_ratio}"
        raise ModelError(f"output_height and output_width must be 1 or more, sampling_ratio 0 or more; got {given}")
    images = dims_of(x)[0]
    place = from_the_start(b, batch_indices, images, batch_indices)
    return b.roi_align(
        x, rois, place, sizes=(output_height, output_width), samples=sampling_ratio, scale=spatial_scale,
        half_pixel=coordinate_transformation_mode == "half_pixel", mode=mode,
    )  # fmt: skip


@onnx_rule("MaxRoiPool", since=1)
def max_roi_pool(b: ImportBuilder, x: Value, rois: Value, *, pooled_shape: Sequence[int], spatial_scale: float = 1.0) -> Value:
    """Fast R-CNN's pooling: corners are rounded to pixels, those of a region's end are in it, and a region has one pixel at least."""
    if len(pooled_shape) != 2 or min(pooled_shape) < 1:
        raise ModelError(f"pooled_shape must be 2 numbers from 1 on, got {list(pooled_shape)}")
    images = dims_of(x)
    count, columns = dims_of(rois)
    if not holds(columns, "==", 5):
        raise ModelError(f"a region must be the number of an image and 4 corners, got {columns} numbers")
    wide = b.convert(rois, "f64" if type_of(rois).dtype == "f64" else "f32")
    number = b.convert(b.with_shape(slice_axis(b, wide, 1, 0, 1), (count,)), "i64")
    windows = [windows_of_regions(b, wide, 2 - axis, parts, spatial_scale) for axis, parts in enumerate(pooled_shape)]
    return b.roi_max_pool(x, from_the_start(b, number, images[0], number), *windows)


def windows_of_regions(b: ImportBuilder, rois: Value, column: int, parts: int, scale: float) -> Value:
    """Along one dimension the windows (regions, parts, 2) that regions are divided into, with their ends; a coordinate begins at that column."""

    def number(value: float) -> Value:
        return b.scalar(value, like=rois)

    low, high = (rounded_away(b, b.mul(slice_axis(b, rois, 1, i, 1), number(scale))) for i in (column, column + 2))
    size = b.div(b.maximum(b.add(b.sub(high, low), number(1)), number(1)), number(parts))
    firsts, ends = (b.mul(size, b.literal(np.arange(parts)[np.newaxis] + i, to_numpy(type_of(rois).dtype))) for i in range(2))
    bounds = [with_new_axes(b, b.add(low, edge), [2]) for edge in (b.floor(firsts), b.ceil(ends))]
    return b.convert(b.concat(bounds, axis=2), "i64")


def rounded_away(b: ImportBuilder, x: Value) -> Value:
    """To the nearest whole number, halves away from zero."""
    size = b.abs(x)
    whole = b.floor(size)
    up = b.greater_equal(b.sub(size, whole), b.scalar(0.5, like=x))
    return b.mul(b.sign(x), b.select(up, b.add(whole, b.scalar(1, like=x)), whole))


@onnx_rule("Col2Im", since=18)
def col2im(
    b: ImportBuilder,
    x: Value,
    image_shape: Value,
    block_shape: Value,
    *,
    dilations: Sequence[int] = (),
    pads: Sequence[int] = (),
    strides: Sequence[int] = (),
) -> Value:
    image, block = b.known_ints(image_shape, "the shape of the image"), b.known_ints(block_shape, "the shape of a block")
    ones, edges = (1,) * len(image), tuple(pads) or (0,) * 2 * len(image)
    return b.col2im(x, image=image, kernel=block, strides=tuple(strides) or ones, pads=edges, dilations=tuple(dilations) or ones)
