"""Operations on whole matrices, other than products."""

import math

import numpy as np

from stepwell.dialects.core.dtypes import WIDE_FLOATS
from stepwell.dialects.core.sizes import holds
from stepwell.dialects.core.types import FLOATS, TensorType
from stepwell.dialects.graph.base import InferredTypes, Pure, SingleOperand
from stepwell.dialects.graph.inference import expect_dtype, expect_rank, expect_rank_at_least
from stepwell.dialects.graph.numerics import narrow, wide
from stepwell.dialects.support.errors import InferenceError

LEAST_ROUNDS = 100  # iterations of pairwise coupling before it gives up, as in LIBSVM; the number of classes if that is larger
NEAR_ENOUGH = 0.005  # tolerance of the optimality conditions, divided by the number of classes


class DetOp(SingleOperand, name="det", traits=[Pure]):
    """The determinants of the square matrices in the last two dimensions of `x`."""

    @staticmethod
    def infer(x: TensorType) -> InferredTypes:
        expect_dtype("x", x, FLOATS)
        expect_rank_at_least("x", x, 2)
        rows, columns = x.shape[-2:]
        if not holds(rows, "==", columns):
            raise InferenceError(f"operand 'x' must hold square matrices, got {x}")
        return x.with_shape(x.shape[:-2])

    @staticmethod
    def reference(x: np.ndarray) -> np.ndarray:
        return narrow(determinants(wide(x)), x.dtype)

    @staticmethod
    def flops(x: TensorType, *, result: TensorType) -> int:
        return 2 * x.elements * x.static_shape[-1] // 3


def determinants(matrices: np.ndarray) -> np.ndarray:
    """The determinants of many matrices at once, by elimination with partial pivoting; a column of zeros below a zero pivot is left as it is."""
    work = matrices.reshape(math.prod(matrices.shape[:-2]), *matrices.shape[-2:]).copy()
    every, size = np.arange(len(work)), matrices.shape[-1]
    total = np.ones(len(work), matrices.dtype)
    for k in range(size):
        column = np.abs(work[:, k:, k])
        row = k + np.argmax(np.where(np.isnan(column), -1, column), axis=-1)  # NaN is chosen as a pivot only if there is no other
        work[every, k], work[every, row] = work[every, row], work[every, k].copy()
        pivot = work[:, k, k]
        total *= np.where(row == k, pivot, -pivot)
        factors = np.where(pivot[:, np.newaxis] == 0, 0, work[:, k + 1 :, k] / pivot[:, np.newaxis])
        work[:, k + 1 :, k + 1 :] -= factors[..., np.newaxis] * work[:, np.newaxis, k, k + 1 :]
    return total.reshape(matrices.shape[:-2])


class PairwiseCouplingOp(SingleOperand, name="pairwise_coupling", traits=[Pure]):
    """The probabilities of classes, (samples, classes), from those of pairs in `x` (samples, classes, classes).

    `x[n, i, j]` is the probability of class i, given that the class is i or j. The algorithm is the second method of T. Wu, C. Lin, R. Weng,
    "Probability estimates for multi-class classification by pairwise coupling", 2004, with the iteration and termination test of LIBSVM. Computed in
    f64. The diagonals of `x` are ignored.
    """

    @staticmethod
    def infer(x: TensorType) -> InferredTypes:
        expect_dtype("x", x, WIDE_FLOATS)
        expect_rank("x", x, 3)
        rows, columns = x.shape[1:]
        if not holds(rows, "==", columns):
            raise InferenceError(f"operand 'x' must hold square matrices, got {x}")
        return x.with_shape(x.shape[:2])

    @staticmethod
    def reference(x: np.ndarray) -> np.ndarray:
        out = np.zeros(x.shape[:2], np.float64)
        for number, pairs in enumerate(x.astype(np.float64)):
            out[number] = coupled(pairs)
        return out.astype(x.dtype)

    @staticmethod
    def flops(x: TensorType, *, result: TensorType) -> int:
        return 4 * x.elements * x.static_shape[-1]


def coupled(pairs: np.ndarray) -> np.ndarray:
    """The class probabilities of one sample, from those of all pairs (classes, classes)."""
    classes = len(pairs)
    others = np.where(np.eye(classes, dtype=bool), 0, pairs).T  # the probability of the other class of a pair
    q = -others * others.T
    np.fill_diagonal(q, np.sum(np.square(others), axis=1))
    p = np.full(classes, 1 / max(classes, 1))
    for _ in range(max(LEAST_ROUNDS, classes)):
        qp = q @ p
        whole = p @ qp
        if np.max(np.abs(qp - whole), initial=0) < NEAR_ENOUGH / max(classes, 1):
            break
        for i in range(classes):
            step = (whole - qp[i]) / q[i, i]
            whole = (whole + step * (step * q[i, i] + 2 * qp[i])) / (1 + step) / (1 + step)
            qp = (qp + step * q[i]) / (1 + step)
            p[i] += step
            p /= 1 + step
    return p
