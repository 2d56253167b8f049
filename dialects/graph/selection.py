"""Operations that select elements by value, so that the number of selected elements is known only at run time."""

import math

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import DTYPES, FLOATS, TensorType
from stepwell.dialects.graph.base import GraphOp, InferredTypes, Operand, Pure, Result
from stepwell.dialects.graph.flops import one_per_input
from stepwell.dialects.graph.inference import expect_axis, expect_dim, expect_dtype, expect_rank, expect_same_dtype, expect_scalar, expect_shape
from stepwell.dialects.graph.numerics import wide


class UniqueOp(GraphOp, name="unique", flops=one_per_input, traits=[Pure]):
    """The distinct slices of `x` along `axis`, ascending if `sorted`, else in order of first occurrence.

    `indices` holds the position of each slice's first occurrence, `counts` the number of its occurrences, and `inverse` the index of the distinct
    slice for each slice of `x`. Slices are compared lexicographically; NaN sorts last and equals itself.
    """

    x: Operand
    values: Result
    indices: Result
    inverse: Result
    counts: Result
    axis: ir.IntegerAttr
    sorted: ir.BoolAttr

    @staticmethod
    def infer(x: TensorType, *, axis: int, sorted: bool) -> InferredTypes:
        expect_dtype("x", x, DTYPES)
        expect_axis("axis", axis, x.rank)
        size = x.shape[axis]
        count = size if size in (0, 1) else None
        places = TensorType("i64", (count,))
        shape = tuple(count if i == axis else d for i, d in enumerate(x.shape))
        return x.with_shape(shape), places, TensorType("i64", (size,)), places

    @staticmethod
    def reference(x: np.ndarray, *, axis: int, sorted: bool) -> tuple[np.ndarray, ...]:
        slices = np.moveaxis(wide(x), axis, 0).reshape(x.shape[axis], math.prod(x.shape[:axis] + x.shape[axis + 1 :]))
        order, starts = ordered_rows(slices)  # stable: of equal slices, the first occurrence comes first
        first, group = order[starts], np.cumsum(starts) - 1
        inverse = np.empty(len(slices), np.int64)
        inverse[order] = group
        counts = np.bincount(group, minlength=len(first)).astype(np.int64)
        if not sorted:
            chosen = np.argsort(first)
            rank = np.empty_like(chosen)
            rank[chosen] = np.arange(len(chosen))
            first, counts, inverse = first[chosen], counts[chosen], rank[inverse]
        return np.take(x, first, axis=axis), first.astype(np.int64), inverse.astype(np.int64), counts


def ordered_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of rows in ascending order, as `graph.order_rows` says, and for each sorted row whether it differs from the previous one."""
    order = np.lexsort(rows.T[::-1]) if rows.shape[1] else np.arange(len(rows))  # stable
    ranked = rows[order]
    same = (ranked[1:] == ranked[:-1]) | ((ranked[1:] != ranked[1:]) & (ranked[:-1] != ranked[:-1]))
    return order, np.concatenate([np.ones(min(len(rows), 1), bool), ~same.all(axis=1)])


class NonMaxSuppressionOp(GraphOp, name="non_max_suppression", traits=[Pure]):
    """The selected boxes of each image (batch, boxes, 4) and class, best first; of two boxes that overlap strongly, the higher score is kept.

    `scores` are (batch, classes, boxes). Boxes with scores up to `score_threshold` are dropped, and then each box whose intersection over union with
    a kept box exceeds `iou_threshold`. At most `most` boxes are kept per class. Among equal scores, the first box wins. A box is given by two
    opposite corners y x y x, or by its centre, width and height if `centred`. The result's rows are image, class and box.
    """

    boxes: Operand
    scores: Operand
    most: Operand
    iou_threshold: Operand
    score_threshold: Operand
    result: Result
    centred: ir.BoolAttr

    @staticmethod
    def infer(
        boxes: TensorType, scores: TensorType, most: TensorType, iou_threshold: TensorType, score_threshold: TensorType, *, centred: bool
    ) -> InferredTypes:
        expect_dtype("boxes", boxes, FLOATS)
        expect_same_dtype(boxes=boxes, scores=scores)
        expect_rank("scores", scores, 3)
        expect_shape("boxes", boxes, (None, None, 4), "the coordinates of a box")
        expect_dim("scores", scores, 0, boxes.shape[0], f"the batch of operand 'boxes' ({boxes})")
        expect_dim("scores", scores, 2, boxes.shape[1], f"the number of boxes of operand 'boxes' ({boxes})")
        expect_scalar("most", most, ("i64",))
        for name, threshold in (("iou_threshold", iou_threshold), ("score_threshold", score_threshold)):
            expect_scalar(name, threshold, FLOATS)
        return TensorType("i64", (None, 3))

    @staticmethod
    def reference(
        boxes: np.ndarray, scores: np.ndarray, most: np.ndarray, iou_threshold: np.ndarray, score_threshold: np.ndarray, *, centred: bool
    ) -> np.ndarray:
        kept: list[tuple[int, int, int]] = []
        for image, (own, of_classes) in enumerate(zip(wide(boxes), wide(scores), strict=True)):
            low, high = corners(own, centred)
            for number, values in enumerate(of_classes):
                candidates = np.flatnonzero(values > score_threshold)
                chosen: list[int] = []
                for box in candidates[np.argsort(-values[candidates], kind="stable")]:
                    if len(chosen) >= int(most):
                        break
                    if not np.any(overlap(low, high, int(box), chosen) > iou_threshold):
                        chosen.append(int(box))
                kept += [(image, number, box) for box in chosen]
        return np.array(kept, np.int64).reshape(-1, 3)


def corners(boxes: np.ndarray, centred: bool) -> tuple[np.ndarray, np.ndarray]:
    """The lower and upper corners of boxes (boxes, 4), each (boxes, 2)."""
    first, second = boxes[:, :2], boxes[:, 2:]
    if centred:
        return first - second / 2, first + second / 2
    return np.minimum(first, second), np.maximum(first, second)


def overlap(low: np.ndarray, high: np.ndarray, box: int, others: list[int]) -> np.ndarray:
    """The intersection over union of a box and each of the others; 0 for boxes without an area."""
    sides = np.minimum(high[box], high[others]) - np.maximum(low[box], low[others])
    areas = [np.prod(high[i] - low[i], axis=-1) for i in (box, others)]
    common = np.where((sides > 0).all(axis=-1), np.prod(sides, axis=-1), 0)
    union = areas[0] + areas[1] - common
    real = (common > 0) & (areas[0] > 0) & (areas[1] > 0) & (union > 0)
    return np.asarray(np.where(real, common / np.where(real, union, 1), 0))
