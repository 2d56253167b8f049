"""Operations that sample images: at arbitrary positions, in boxes, or over windows that depend on data."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import FLOATS, TensorType, compute_dtype
from stepwell.dialects.graph.base import GraphOp, IndexOperand, InferredTypes, Operand, Pure, Result
from stepwell.dialects.graph.inference import (
    INDEX,
    expect_at_least,
    expect_choice,
    expect_dim,
    expect_dtype,
    expect_rank,
    expect_rank_at_least,
    expect_same_dtype,
    expect_shape,
)
from stepwell.dialects.graph.numerics import checked_indices, narrow, wide
from stepwell.dialects.support.errors import ElementTypeError, InferenceError

MOST_SAMPLES = 1 << 20  # samples along a side of a part of a region, if their number depends on data; no reasonable region has more


class InterpolateOp(GraphOp, name="interpolate", traits=[Pure]):
    """Samples of `x` (batch, channels, spatial…) at `places` (batch, …, one coordinate for each spatial dimension), by linear interpolation.

    A sample is the weighted sum of the 2^r surrounding elements, without those outside the image and those with weight 0. A NaN position is outside.
    Coordinates have the type in which `x` is computed: f32 for f16 and bf16. With `last_first`, coordinates are ordered from the last dimension to
    the first, as in a grid, else from the first to the last.
    """

    x: Operand
    places: Operand
    result: Result
    last_first: ir.BoolAttr

    @staticmethod
    def infer(x: TensorType, places: TensorType, *, last_first: bool) -> InferredTypes:
        expect_dtype("x", x, FLOATS)
        expect_rank_at_least("x", x, 3)
        expect_rank_at_least("places", places, 2)
        wanted = compute_dtype(x.dtype)
        if places.dtype != wanted:
            raise ElementTypeError(f"the element type of operand 'places' must be {wanted} for operand 'x' of {x}, got {places}")
        expect_dim("places", places, 0, x.shape[0], f"the batch of operand 'x' ({x})")
        expect_dim("places", places, places.rank - 1, x.rank - 2, f"the spatial rank of operand 'x' ({x})")
        return x.with_shape((*x.shape[:2], *places.shape[1:-1]))

    @staticmethod
    def reference(x: np.ndarray, places: np.ndarray, *, last_first: bool) -> np.ndarray:
        image, spatial = wide(x), x.shape[2:]
        places = places[..., ::-1] if last_first else places
        out = np.zeros((*x.shape[:2], *places.shape[1:-1]), image.dtype)
        batch = np.arange(x.shape[0]).reshape(-1, *[1] * (places.ndim - 2))
        for chosen in itertools.product(*(around(places[..., i], size) for i, size in enumerate(spatial))):
            at: tuple[Any, ...] = (batch, slice(None), *(c[0] for c in chosen))
            found = np.moveaxis(image[at], -1, 1) if 0 not in spatial else out
            weight = np.expand_dims(np.multiply.reduce([c[1] for c in chosen]), 1)
            out += np.where(weight != 0, found * weight, 0)
        return narrow(out, x.dtype)

    @staticmethod
    def flops(x: TensorType, places: TensorType, *, last_first: bool, result: TensorType) -> int:
        return result.elements << (x.rank - 1)


def around(places: np.ndarray, size: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The two neighbours of each position along one dimension, as index and weight; both are 0 if there is none."""
    near = (places > -1) & (places < size)
    low = np.floor(np.where(near, places, 0))
    above = (np.where(near, places, 0) - low).astype(places.dtype)
    found = []
    for index, weight in ((low, 1 - above), (low + 1, above)):
        inside = near & (index >= 0) & (index < size)
        found.append((np.where(inside, index, 0).astype(np.int64), np.where(inside, weight, 0).astype(places.dtype)))
    return found


class RoiAlignOp(GraphOp, name="roi_align", traits=[Pure]):
    """Regions of images resampled to `sizes`: each part of a region is the mean of a grid of samples (K. He et al., "Mask R-CNN", 2017).

    `boxes` (regions, x1 y1 x2 y2) times `scale` are in pixels of `x` (batch, channels, height, width); `batch_indices` selects the image. `samples`
    is the number of samples along each side of a part; 0 means one for each pixel or fraction of a pixel. A sample is interpolated linearly between
    the centres of pixels if `half_pixel`. Otherwise it is interpolated between pixels' corners, and no region is smaller than a pixel. More than one
    pixel outside the image, a sample is 0. All samples of an infinite region are there, and a NaN region has no samples: both give 0. In `mode`
    "max", the result is the maximum over the terms of all samples (each pixel times its weight), as ONNX defines.
    """

    x: Operand
    boxes: Operand
    batch_indices: Operand
    result: Result
    sizes: ir.DenseI64ArrayAttr
    samples: ir.IntegerAttr
    scale: ir.FloatAttr
    half_pixel: ir.BoolAttr
    mode: ir.StringAttr

    def index_operand(self) -> IndexOperand:
        return IndexOperand(self.batch_indices, (0,))

    @staticmethod
    def infer(
        x: TensorType, boxes: TensorType, batch_indices: TensorType, *, sizes: Sequence[int], samples: int, scale: float, half_pixel: bool, mode: str
    ) -> InferredTypes:
        expect_dtype("x", x, FLOATS)
        expect_same_dtype(x=x, boxes=boxes)
        expect_dtype("batch_indices", batch_indices, INDEX)
        expect_rank("x", x, 4)
        expect_shape("boxes", boxes, (None, 4), "x1, y1, x2 and y2 of a region")
        expect_shape("batch_indices", batch_indices, boxes.shape[:1], f"the number of regions in operand 'boxes' ({boxes})")
        if len(sizes) != 2:
            raise InferenceError(f"attribute 'sizes' must have 2 entries, height and width; got {list(sizes)}")
        expect_at_least("sizes", sizes, 1)
        expect_at_least("samples", [samples], 0)
        expect_choice("mode", mode, ("avg", "max"))
        return x.with_shape((boxes.shape[0], x.shape[1], *sizes))

    @staticmethod
    def reference(
        x: np.ndarray, boxes: np.ndarray, batch_indices: np.ndarray, *, sizes: Sequence[int], samples: int, scale: float, half_pixel: bool, mode: str
    ) -> np.ndarray:
        images, places = wide(x), checked_indices(batch_indices, x.shape[0])
        out = np.zeros((len(boxes), x.shape[1], *sizes), np.float64)
        for region, (box, place) in enumerate(zip(wide(boxes), places, strict=True)):
            along = [
                parts_of_region(box[axis], box[2 + axis], x.shape[3 - axis], sizes[1 - axis], samples, scale, half_pixel) for axis in (1, 0)
            ]
            for row, column in itertools.product(*map(range, sizes)):
                (ys, tops, rows), (xs, lefts, columns) = along[0][row], along[1][column]
                terms = [
                    images[place][:, ys[i]][:, :, xs[j]] * (tops[i][:, np.newaxis] * lefts[j])
                    for i, j in itertools.product(range(2), range(2))
                ]
                if rows * columns == 0:
                    continue
                if mode == "max":
                    least = 0 if len(tops[0]) < rows or len(lefts[0]) < columns else -np.inf  # the term of a sample outside is 0
                    out[region, :, row, column] = np.max(terms, axis=(0, 2, 3), initial=least)
                else:
                    out[region, :, row, column] = np.sum(terms, axis=(0, 2, 3), dtype=np.float64) / (rows * columns)
        return narrow(out, x.dtype)


def parts_of_region(
    start: np.floating, end: np.floating, size: int, count: int, samples: int, scale: float, half_pixel: bool
) -> list[tuple[list[np.ndarray], list[np.ndarray], int]]:
    """For each of the `count` parts of a region, the samples along one dimension.

    These are the pixels below and above those samples that are in the image, their weights, and the total number of samples. Computed in the type of
    the bounds.
    """
    kind = start.dtype.type
    offset, factor = kind(0.5 if half_pixel else 0), kind(scale)
    low, high = start * factor - offset, end * factor - offset
    length = high - low if half_pixel else np.maximum(high - low, kind(1))
    step = length / kind(count)
    grid = samples or (int(np.ceil(min(step, kind(MOST_SAMPLES)))) if step > 0 else 0)
    found = []
    for part in range(count):
        where = low + kind(part) * step + (np.arange(grid).astype(kind) + kind(0.5)) * step / kind(grid)
        where = np.maximum(where[(where >= -1) & (where <= size)], kind(0))
        below = np.minimum(where.astype(np.int64), size - 1)
        where = np.where(below >= size - 1, below.astype(kind), where)
        above = where - below.astype(kind)
        found.append(([below, np.minimum(below + 1, size - 1)], [1 - above, above], grid))
    return found


class RoiMaxPoolOp(GraphOp, name="roi_max_pool", traits=[Pure]):
    """The maximum of `x` (batch, channels, height, width) in each window of regions of images (R. Girshick, "Fast R-CNN", 2015).

    Window (i, j) of region r covers the rows from `rows[r, i, 0]` up to but not including `rows[r, i, 1]`, and columns likewise, clipped to the image
    that `batch_indices[r]` selects. An empty window gives 0. NaN counts as the largest value.
    """

    x: Operand
    batch_indices: Operand
    rows: Operand
    columns: Operand
    result: Result

    def index_operand(self) -> IndexOperand:
        return IndexOperand(self.batch_indices, (0,))

    @staticmethod
    def infer(x: TensorType, batch_indices: TensorType, rows: TensorType, columns: TensorType) -> InferredTypes:
        expect_dtype("x", x, FLOATS)
        expect_rank("x", x, 4)
        expect_dtype("batch_indices", batch_indices, INDEX)
        expect_rank("batch_indices", batch_indices, 1)
        for name, bounds in (("rows", rows), ("columns", columns)):
            expect_dtype(name, bounds, ("i64",))
            expect_rank(name, bounds, 3)
            expect_dim(name, bounds, 0, batch_indices.shape[0], f"the number of regions in operand 'batch_indices' ({batch_indices})")
            expect_dim(name, bounds, 2, 2, "where a window begins and ends")
        return x.with_shape((batch_indices.shape[0], x.shape[1], rows.shape[1], columns.shape[1]))

    @staticmethod
    def reference(x: np.ndarray, batch_indices: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        places = checked_indices(batch_indices, x.shape[0])
        out = np.zeros((len(places), x.shape[1], rows.shape[1], columns.shape[1]), x.dtype)
        rows, columns = (np.clip(bounds, 0, size) for bounds, size in ((rows, x.shape[2]), (columns, x.shape[3])))
        for region, i, j in np.ndindex(len(places), rows.shape[1], columns.shape[1]):
            window = x[places[region], :, slice(*rows[region, i]), slice(*columns[region, j])]
            if 0 not in window.shape:
                out[region, :, i, j] = np.max(window, axis=(1, 2))
        return out

    @staticmethod
    def flops(x: TensorType, batch_indices: TensorType, rows: TensorType, columns: TensorType, *, result: TensorType) -> int:
        return batch_indices.static_shape[0] * (x.elements // max(x.static_shape[0], 1))
