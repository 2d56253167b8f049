"""Packed matmul: a product whose right-hand side is stored in panels, strips of neighbouring columns that are contiguous in memory."""

from collections.abc import Iterator

import numpy as np

from stepwell.dialects.core.types import FLOATS, TensorType, is_float
from stepwell.dialects.graph.base import Fusion, GraphOp, InferredTypes, Operand, Pure, Result
from stepwell.dialects.graph.inference import expect_dim, expect_dtype, expect_rank, expect_rank_at_least, expect_same_dtype
from stepwell.dialects.graph.numerics import contract, narrow, wide
from stepwell.dialects.support.errors import InferenceError

ROWS_AT_ONCE = 1024  # copied at a time, so that the pieces of a transposed matrix fit a cache


def in_panels(matrix: np.ndarray, width: int) -> Iterator[np.ndarray]:
    """The N / width panels (K, width) of a matrix (K, N); columns of zeros fill up the last one.

    This is how matrix products pack their operands since Goto and van de Geijn, "Anatomy of High-Performance Matrix
    Multiplication", ACM TOMS 34(3), 2008: the innermost loops walk each panel from its first byte to its last.
    """
    rows, columns = matrix.shape
    for first in range(0, columns, width):
        part = matrix[:, first : first + width]
        panel = np.empty((rows, width), matrix.dtype)
        panel[:, part.shape[1] :] = 0
        for start in range(0, rows, ROWS_AT_ONCE):
            panel[start : start + ROWS_AT_ONCE, : part.shape[1]] = part[start : start + ROWS_AT_ONCE]
        yield panel


def in_groups(matrix: np.ndarray, depth: int, width: int) -> np.ndarray:
    """The panels (N / width, K / depth, width, depth) of a matrix (K, N) of integers, whose rows are a multiple of `depth`.

    `depth` neighbours of a column lie side by side, as instructions for dot products read them.
    """
    rows, columns = matrix.shape
    grouped = matrix.reshape(rows // depth, depth, columns).transpose(0, 2, 1).reshape(rows // depth, columns * depth)
    return np.stack([panel.reshape(-1, width, depth) for panel in in_panels(grouped, width * depth)])


class PackedMatmulOp(GraphOp, name="packed_matmul", traits=[Pure]):
    """The matrix product of `x` (…, M, K) and one matrix in panels `w` (N / b, K, b), giving (…, M, N / b, b): columns stay in order.

    The panels of integers, i32, are (N / b, K / d, b, d): each d neighbours of a column lie side by side.
    """

    fusion = Fusion.COMPLEX

    x: Operand
    w: Operand
    result: Result

    @staticmethod
    def infer(x: TensorType, w: TensorType) -> InferredTypes:
        expect_dtype("x", x, (*FLOATS, "i32"))
        expect_same_dtype(x=x, w=w)
        expect_rank_at_least("x", x, 2)
        expect_rank("w", w, 3 if is_float(x.dtype) else 4)
        columns, depth = x.shape[-1], 1 if w.rank == 3 else w.shape[3]
        if depth is None or (columns is not None and columns % max(depth, 1)):
            raise InferenceError(f"the columns of operand 'x' ({x}) must be groups of as many as the last dimension of operand 'w' ({w})")
        expect_dim("w", w, 1, columns and columns // max(depth, 1), f"as many as the groups of columns of operand 'x' ({x})")
        return TensorType(x.dtype, (*x.shape[:-1], w.shape[0], w.shape[2]))

    @staticmethod
    def reference(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        if w.ndim == 4:
            panels, groups, width, depth = w.shape
            w = w.transpose(0, 1, 3, 2).reshape(panels, groups * depth, width)
        return narrow(contract(wide(x), wide(w), axes=([x.ndim - 1], [1])), x.dtype)

    @staticmethod
    def flops(x: TensorType, w: TensorType, *, result: TensorType) -> int:
        return 2 * result.elements * x.static_shape[-1]
