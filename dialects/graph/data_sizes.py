"""Operations for sizes that depend on data: numbers in a tensor become sizes, and results of the maximum size are cut to their actual size."""

from collections.abc import Sequence

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Dim, Size, holds
from stepwell.dialects.core.types import BOOL, NUMERIC, TensorType
from stepwell.dialects.graph.base import GraphOp, InferredTypes, MovesData, Operand, Pure, Result, SingleOperand, Sizes
from stepwell.dialects.graph.flops import no_arithmetic, one_per_input
from stepwell.dialects.graph.inference import (
    expect_at_least,
    expect_dtype,
    expect_length,
    expect_rank,
)
from stepwell.dialects.graph.numerics import wide
from stepwell.dialects.graph.selection import NonMaxSuppressionOp, ordered_rows
from stepwell.dialects.graph.traits import Fusion
from stepwell.dialects.support.errors import InferenceError


class BindSizesOp(GraphOp, name="bind_sizes", fusion=Fusion.FREE, flops=no_arithmetic):
    """Binds the symbols in `sizes` to the numbers in the vector `values`, which must be non-negative integers.

    If an entry is a number, or an expression of symbols that are already bound, it must equal the number in `values`; otherwise the run ends with an
    error that names the node. No pass may move an op whose types or attributes use the symbols before this one. The op is not pure, so that no pass
    removes it.
    """

    values: Operand
    sizes: Sizes

    @staticmethod
    def infer(values: TensorType, *, sizes: Sequence[int | Size]) -> InferredTypes:
        expect_dtype("values", values, ("i64",))
        expect_rank("values", values, 1)
        if values.shape[0] != len(sizes):
            raise InferenceError(f"attribute 'sizes' {list(sizes)} must have an entry for each element of operand 'values' ({values})")
        return ()


class KeepOp(GraphOp, name="keep", fusion=Fusion.FREE, flops=no_arithmetic):
    """Keeps `x` from being removed as unused, because a symbol that is bound at its definition is used.

    A size is used by its name alone (`graph.sizes`, attributes), so a loop of which only the size of a result is used would be removed before
    `outline-regions` has bound the symbol. That pass removes these ops.
    """

    x: Operand

    @staticmethod
    def infer(x: TensorType) -> InferredTypes:
        return ()


class FirstOp(SingleOperand, name="first", traits=[Pure, MovesData]):
    """The first `sizes[i]` elements of `x` along each dimension `i`; -1 means all."""

    sizes: Sizes

    @staticmethod
    def infer(x: TensorType, *, sizes: Sequence[int | Size]) -> InferredTypes:
        expect_length("sizes", sizes, x.rank, "one for each dimension")
        expect_at_least("sizes", [size for size in sizes if isinstance(size, int)], -1)
        for have, size in zip(x.shape, sizes, strict=True):
            if size != -1 and not holds(size, "<=", have):
                raise InferenceError(f"attribute 'sizes' {list(sizes)} has more than operand 'x' ({x})")
        return x.with_shape([have if size == -1 else size for have, size in zip(x.shape, sizes, strict=True)])

    @staticmethod
    def reference(x: np.ndarray, *, sizes: Sequence[int]) -> np.ndarray:
        return x[tuple(slice(None if size == -1 else size) for size in sizes)]

    def contiguous_run(self) -> Dim:
        """The last dimension, if all of it is taken."""
        return self.result_types()[0].shape[-1] if self.attribute_values()["sizes"][-1:] == (-1,) else 0


class NonZeroPlacesOp(GraphOp, name="non_zero_places", flops=one_per_input, traits=[Pure]):
    """Like `non_zero`, but with one column for each element of `x`: only the first `count` (a vector with one number) columns are meaningful."""

    x: Operand
    places: Result
    count: Result

    @staticmethod
    def infer(x: TensorType) -> InferredTypes:
        expect_dtype("x", x, (BOOL, *NUMERIC))
        return TensorType("i64", (x.rank, x.size)), TensorType("i64", (1,))

    @staticmethod
    def reference(x: np.ndarray) -> tuple[np.ndarray, ...]:
        found = np.argwhere(wide(x)).T
        return _padded(found, 1, x.size), np.array([found.shape[1]])


class OrderRowsOp(GraphOp, name="order_rows", flops=one_per_input, traits=[Pure]):
    """The row numbers of the matrix `x` sorted in ascending order, lexicographically from the first column; the sort is stable.

    `starts` is true for each sorted row that differs from the previous one. NaN sorts last and equals itself.
    """

    x: Operand
    order: Result
    starts: Result

    @staticmethod
    def infer(x: TensorType) -> InferredTypes:
        expect_dtype("x", x, (BOOL, *NUMERIC))
        expect_rank("x", x, 2)
        return TensorType("i64", x.shape[:1]), TensorType(BOOL, x.shape[:1])

    @staticmethod
    def reference(x: np.ndarray) -> tuple[np.ndarray, ...]:
        order, starts = ordered_rows(wide(x))
        return order.astype(np.int64), starts


class KeptBoxesOp(GraphOp, name="kept_boxes", traits=[Pure]):
    """Like `non_max_suppression`, but with as many rows as scores: only the first `count` (a vector with one number) rows are meaningful."""

    boxes: Operand
    scores: Operand
    most: Operand
    iou_threshold: Operand
    score_threshold: Operand
    rows: Result
    count: Result
    centred: ir.BoolAttr

    @staticmethod
    def infer(
        boxes: TensorType, scores: TensorType, most: TensorType, iou_threshold: TensorType, score_threshold: TensorType, *, centred: bool
    ) -> InferredTypes:
        NonMaxSuppressionOp.infer(boxes, scores, most, iou_threshold, score_threshold, centred=centred)
        return TensorType("i64", (scores.size, 3)), TensorType("i64", (1,))

    @staticmethod
    def reference(boxes: np.ndarray, scores: np.ndarray, *operands: np.ndarray, centred: bool) -> tuple[np.ndarray, ...]:
        kept = NonMaxSuppressionOp.reference(boxes, scores, *operands, centred=centred)
        return _padded(kept, 0, scores.size), np.array([len(kept)])

    @staticmethod
    def flops(boxes: TensorType, scores: TensorType, *operands: TensorType, result: TensorType, centred: bool) -> int:
        return scores.elements


def _padded(array: np.ndarray, axis: int, size: int) -> np.ndarray:
    """An integer array padded with zeros at the end of an axis."""
    missing = [(0, size - array.shape[i] if i == axis else 0) for i in range(array.ndim)]
    return np.pad(array, missing).astype(np.int64)
