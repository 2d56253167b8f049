"""Matrix products whose right-hand side is stored in panels: strips of neighbouring columns, each contiguous in memory."""

from collections.abc import Iterator

import numpy as np

from stepwell.dialects.core.types import FLOATS, TensorType
from stepwell.dialects.graph.base import Fusion, GraphOp, InferredTypes, Operand, Pure, Result
from stepwell.dialects.graph.inference import expect_dim, expect_dtype, expect_rank, expect_rank_at_least, expect_same_dtype
from stepwell.dialects.graph.numerics import contract, narrow, wide

ROWS_AT_ONCE = 1024  # so that a matrix that was transposed is copied in pieces that a cache holds


def in_panels(matrix: np.ndarray, width: int) -> Iterator[np.ndarray]:
    """The panels (K, width) of a matrix (K, N), N / width of them, with columns of zeros added up to a multiple of the width.

    The form in which matrix products have packed their operands since Goto and van de Geijn, "Anatomy of High-Performance Matrix
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


class PanelMatmulOp(GraphOp, name="panel_matmul", traits=[Pure]):
    """The matrix product of `x` (…, M, K) and one matrix in panels `w` (N / b, K, b), to (…, M, N / b, b): a row's columns stay in order."""

    fusion = Fusion.COMPLEX

    x: Operand
    w: Operand
    result: Result

    @staticmethod
    def infer(x: TensorType, w: TensorType) -> InferredTypes:
        expect_dtype("x", x, FLOATS)
        expect_same_dtype(x=x, w=w)
        expect_rank_at_least("x", x, 2)
        expect_rank("w", w, 3)
        expect_dim("w", w, 1, x.shape[-1], f"as many as the columns of operand 'x' ({x})")
        return TensorType(x.dtype, (*x.shape[:-1], w.shape[0], w.shape[2]))

    @staticmethod
    def reference(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        return narrow(contract(wide(x), wide(w), axes=([x.ndim - 1], [1])), x.dtype)

    @staticmethod
    def flops(x: TensorType, w: TensorType, *, result: TensorType) -> int:
        return 2 * result.elements * x.static_shape[-1]
