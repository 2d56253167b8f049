"""Operations on whole matrices beyond products."""

import math

import numpy as np

from stepwell.dialects.core.types import FLOATS, TensorType
from stepwell.dialects.graph.base import GraphOp, InferredTypes, Operand, Pure, Result
from stepwell.dialects.graph.inference import expect_dtype, expect_rank_at_least
from stepwell.dialects.graph.numerics import narrow, wide
from stepwell.dialects.support.errors import InferenceError


class DetOp(GraphOp, name="det", traits=[Pure]):
    """The determinants of the square matrices in the last two dimensions of `x`."""

    x: Operand
    result: Result

    @staticmethod
    def infer(x: TensorType) -> InferredTypes:
        expect_dtype("x", x, FLOATS)
        expect_rank_at_least("x", x, 2)
        rows, columns = x.shape[-2:]
        if None not in (rows, columns) and rows != columns:
            raise InferenceError(f"operand 'x' must hold square matrices, got {x}")
        return x.with_shape(x.shape[:-2])

    @staticmethod
    def reference(x: np.ndarray) -> np.ndarray:
        return narrow(determinants(wide(x)), x.dtype)

    @staticmethod
    def flops(x: TensorType, *, result: TensorType) -> int:
        return 2 * x.elements * (x.shape[-1] or 1) // 3


def determinants(matrices: np.ndarray) -> np.ndarray:
    """By elimination with partial pivoting, all matrices at once; a column of zeros below a pivot of 0 is left as it is."""
    work = matrices.reshape(math.prod(matrices.shape[:-2]), *matrices.shape[-2:]).copy()
    every, size = np.arange(len(work)), matrices.shape[-1]
    total = np.ones(len(work), matrices.dtype)
    for k in range(size):
        column = np.abs(work[:, k:, k])
        row = k + np.argmax(np.where(np.isnan(column), -1, column), axis=-1)  # NaN is no pivot, if there is another
        work[every, k], work[every, row] = work[every, row], work[every, k].copy()
        pivot = work[:, k, k]
        total *= np.where(row == k, pivot, -pivot)
        factors = np.where(pivot[:, np.newaxis] == 0, 0, work[:, k + 1 :, k] / pivot[:, np.newaxis])
        work[:, k + 1 :, k + 1 :] -= factors[..., np.newaxis] * work[:, np.newaxis, k, k + 1 :]
    return total.reshape(matrices.shape[:-2])
