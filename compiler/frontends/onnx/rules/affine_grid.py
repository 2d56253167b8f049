"""The rule for AffineGrid: the images of an image's positions under an affine transformation."""

import math

import numpy as np

from stepwell.dialects.core.sizes import Size, holds, is_static, static_sizes
from stepwell.dialects.core.types import size_text, type_of
from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.blocks.slicing import counting, size_scalar, with_new_axes
from stepwell.frontends.builder import Value, dims_of
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import onnx_rule
from stepwell.frontends.onnx.rounding import rounded_once


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
