"""Operations on sequences of tokens."""

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.graph.base import GraphOp, InferredTypes, Operand, Pure, Result
from stepwell.dialects.graph.inference import INDEX, expect_at_least, expect_dtype, expect_rank, expect_same_dtype, expect_shape


class CountNgramsOp(GraphOp, name="count_ngrams", traits=[Pure]):
    """The number of occurrences of n-grams in each row of `x`: row i of `pool` is counted in column `columns[i]` of the result, of width `size`.

    The tokens of an n-gram are one, two, … up to `skips` + 1 positions apart. The rows of `pool` must be sorted in ascending lexicographic order,
    without duplicates, so that they can be found by bisection.
    """

    x: Operand
    pool: Operand
    columns: Operand
    result: Result
    size: ir.IntegerAttr
    skips: ir.IntegerAttr

    @staticmethod
    def infer(x: TensorType, pool: TensorType, columns: TensorType, *, size: int, skips: int) -> InferredTypes:
        expect_dtype("x", x, INDEX)
        expect_same_dtype(x=x, pool=pool)
        expect_dtype("columns", columns, INDEX)
        expect_rank("x", x, 2)
        expect_rank("pool", pool, 2)
        expect_shape("columns", columns, pool.shape[:1], f"the number of rows of operand 'pool' ({pool})")
        expect_at_least("size", [size], 0)
        expect_at_least("skips", [skips], 0)
        return TensorType("i64", (x.shape[0], size))

    @staticmethod
    def reference(x: np.ndarray, pool: np.ndarray, columns: np.ndarray, *, size: int, skips: int) -> np.ndarray:
        counts = np.zeros((len(x), size), np.int64)
        places = {tuple(row): int(column) for row, column in zip(pool.tolist(), columns, strict=True)}
        length = pool.shape[1]
        for row, tokens in enumerate(x.tolist()):
            for apart in range(1, skips + 2):
                for start in range(len(tokens) - (length - 1) * apart):
                    column = places.get(tuple(tokens[start + i * apart] for i in range(length)))
                    if column is not None:
                        counts[row, column] += 1
        return counts

    @staticmethod
    def flops(x: TensorType, pool: TensorType, columns: TensorType, *, result: TensorType, size: int, skips: int) -> int:
        return x.elements * (skips + 1) * max(pool.static_shape[0].bit_length(), 1)
