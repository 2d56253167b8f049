"""Rules that split images or sample them at computed positions: GridSample, AffineGrid, RoiAlign, MaxRoiPool and Col2Im."""

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast as typed

import numpy as np

from stepwell.dialects.core.dtypes import FLOATS
from stepwell.dialects.core.sizes import Size, holds, is_static, static_sizes
from stepwell.dialects.core.types import size_text, type_of
from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.blocks.sampling import between, taps, windows_of_regions
from stepwell.frontends.blocks.slicing import counting, from_the_start, size_scalar, slice_axis, with_new_axes
from stepwell.frontends.builder import Value, dims_of
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import Group, onnx_rule
from stepwell.frontends.onnx.rounding import rounded_once

Mode: TypeAlias = Literal["nearest", "linear", "cubic"]
ImageMode: TypeAlias = Literal["nearest", "linear", "cubic", "bilinear", "bicubic"]
Padding: TypeAlias = Literal["zeros", "border", "reflection"]


@onnx_rule("GridSample", since=16)
@rounded_once
def grid_sample_of_images(
    b: ImportBuilder, x: Value, grid: Value, *, mode: ImageMode = "bilinear", padding_mode: Padding = "zeros", align_corners: int = 0
) -> Value:
    return grid_sample(b, x, grid, mode=typed(Mode, mode.removeprefix("bi")), padding_mode=padding_mode, align_corners=align_corners)


@onnx_rule("GridSample", since=20)
@rounded_once
def grid_sample(b: ImportBuilder, x: Value, grid: Value, *, mode: Mode = "linear", padding_mode: Padding = "zeros", align_corners: int = 0) -> Value:
    """Each sample is a weighted sum of nearby elements: one for nearest, two along each dimension for linear, four for cubic.

    Linear samples of floats are one op; others are composed of gathers.
    """
    dims, places = dims_of(x), dims_of(grid)
    spatial = len(dims) - 2
    if spatial < 1 or len(places) != spatial + 2 or not holds(places[0], "==", dims[0]) or not holds(places[-1], "==", spatial):
        raise ModelError(f"a grid of type {type_of(grid)} does not fit an input of type {type_of(x)}")
    if mode == "linear" and type_of(x).dtype in FLOATS:
        return between(b, x, grid, padding_mode, bool(align_corners))
    along = [slice_axis(b, grid, len(places) - 1, spatial - 1 - i, 1) for i in range(spatial)]  # a grid lists dimensions from last to first
    last = b.transposed(x, (0, *range(2, len(dims)), 1))  # channels last: an index selects all channels of an element
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


@onnx_rule("AffineGrid", since=20)
@rounded_once
def affine_grid(b: ImportBuilder, theta: Value, size: Value, *, align_corners: int = 0) -> Value:
    """`theta` (N, r, r + 1) times each position of an image of `size` (N, C, spatial…), its last coordinate first, and 1: (N, spatial…, r)."""
    matrices, sizes = dims_of(theta), b.bound_sizes(size, "size")
    rank = len(sizes) - 2
    if rank not in (2, 3) or len(matrices) != 3 or not (holds(matrices[1], "==", rank) and holds(matrices[2], "==", rank + 1)):
        raise ModelError(f"theta must be (N, 2, 3) with a size of 4 numbers, or (N, 3, 4) with 5; got {type_of(theta)} with {len(sizes)} numbers")
    if not holds(sizes[0], "==", matrices[0]):
        raise ModelError(f"size is for {size_text(sizes[0])} images, theta for {size_text(matrices[0])}")
    spatial = sizes[2:]
    transposed = b.transposed(theta, (0, 2, 1))
    return b.with_shape(b.matmul(positions(b, spatial, bool(align_corners), theta), transposed), (matrices[0], *spatial, rank))


def positions(b: ImportBuilder, spatial: tuple[int | Size, ...], aligned: bool, like: Value) -> Value:
    """The positions of an image from -1 to 1, (number of positions, coordinates and a 1), in the element type of `like`.

    -1 and 1 are the edges of the image, or, if it is `aligned`, the middles of the first and last elements; a single element is then at -1.
    """
    rank = len(spatial)
    if is_static(spatial):
        counted = static_sizes(spatial)
        along = [np.arange(n) * (2 / max(n - 1, 1)) - 1 if aligned else (2 * np.arange(n) + 1) / max(n, 1) - 1 for n in counted]
        grid = [*reversed(np.meshgrid(*along, indexing="ij")), np.ones(counted)]
        return b.scalars(np.stack(grid, axis=-1).reshape(-1, rank + 1), like=like)
    axes = []
    for dim, count in enumerate(spatial):
        number, one, two = b.convert(counting(b, count, dim, rank), type_of(like).dtype), b.scalar(1, like=like), b.scalar(2, like=like)
        total = size_scalar(b, count, like)
        if aligned:
            steps = b.div(b.mul(number, two), b.maximum(b.sub(total, one), one))
        else:
            steps = b.div(b.add(b.mul(number, two), one), total)
        axes.append(b.expand(b.sub(steps, one), shape=spatial))
    ones = b.expand(b.scalar(1, like=like), shape=spatial)
    columns = [with_new_axes(b, value, [rank]) for value in (*reversed(axes), ones)]
    return b.with_shape(b.concat(columns, axis=rank), (math.prod(spatial), rank + 1))


@dataclass(frozen=True)
class Regions(Group):
    """The attributes of RoiAlign in all its versions."""

    mode: Literal["avg", "max"] = "avg"
    output_height: int = 1
    output_width: int = 1
    sampling_ratio: int = 0
    spatial_scale: float = 1.0


@onnx_rule("RoiAlign", since=10)
def roi_align_of_corners(b: ImportBuilder, x: Value, rois: Value, batch_indices: Value, *, regions: Regions) -> Value:
    return roi_align(b, x, rois, batch_indices, regions=regions, coordinate_transformation_mode="output_half_pixel")


@onnx_rule("RoiAlign", since=16)
def roi_align(
    b: ImportBuilder, x: Value, rois: Value, batch_indices: Value, *, regions: Regions,
    coordinate_transformation_mode: Literal["half_pixel", "output_half_pixel"] = "half_pixel",
) -> Value:  # fmt: skip
    sizes, samples = (regions.output_height, regions.output_width), regions.sampling_ratio
    if min(sizes) < 1 or samples < 0:
        given = f"{sizes[0]}, {sizes[1]} and {samples}"
        raise ModelError(f"output_height and output_width must be 1 or more, sampling_ratio 0 or more; got {given}")
    place, half_pixel = from_the_start(b, batch_indices, dims_of(x)[0], batch_indices), coordinate_transformation_mode == "half_pixel"
    return b.roi_align(x, rois, place, sizes=sizes, samples=samples, scale=regions.spatial_scale, half_pixel=half_pixel, mode=regions.mode)


@onnx_rule("MaxRoiPool", since=1)
def max_roi_pool(b: ImportBuilder, x: Value, rois: Value, *, pooled_shape: Sequence[int], spatial_scale: float = 1.0) -> Value:
    """Fast R-CNN's pooling: corners are rounded to pixels, the end of a region is inclusive, and a region has at least one pixel."""
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
