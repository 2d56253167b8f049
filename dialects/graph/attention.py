"""Scaled dot-product attention (Vaswani et al., "Attention Is All You Need", 2017) as one op."""

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import FLOATS, TensorType
from stepwell.dialects.graph.base import Fusion, GraphOp, InferredTypes, Operand, OptionalOperand, Pure, Result, broadcast, compatible
from stepwell.dialects.graph.contraction import MatmulOp
from stepwell.dialects.graph.inference import expect_dtype, expect_same_dtype
from stepwell.dialects.graph.numerics import narrow, wide
from stepwell.dialects.graph.reduction import SoftmaxOp
from stepwell.dialects.support.errors import InferenceError


class AttentionOp(GraphOp, name="attention", fusion=Fusion.COMPLEX, traits=[Pure]):
    """`softmax(q k * scale + mask) v`, with the softmax along the last dimension.

    `q` is (…, queries, depth), `k` (…, depth, keys), `v` (…, keys, columns); leading dimensions broadcast. `mask` broadcasts to the scores (…,
    queries, keys).
    """

    q: Operand
    k: Operand
    v: Operand
    mask: OptionalOperand
    result: Result
    scale: ir.FloatAttr

    @staticmethod
    def infer(q: TensorType, k: TensorType, v: TensorType, mask: TensorType | None, *, scale: float) -> InferredTypes:
        expect_dtype("q", q, FLOATS)
        expect_same_dtype(q=q, k=k)
        scores = scores_of(q, k)
        if mask is not None:
            expect_same_dtype(q=q, mask=mask)
            if mask.rank > scores.rank or not compatible(scores.with_shape(broadcast(scores, mask)), scores):
                raise InferenceError(f"operand 'mask' ({mask}) must broadcast to the scores ({scores})")
        expect_same_dtype(q=q, v=v)
        return MatmulOp.infer(scores, v)

    @staticmethod
    def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None, *, scale: float) -> np.ndarray:
        wide_q = wide(q)
        scores = np.matmul(wide_q, wide(k)) * wide_q.dtype.type(scale)
        if mask is not None:
            scores = scores + wide(mask)
        return narrow(np.matmul(SoftmaxOp.reference(scores, axis=scores.ndim - 1), wide(v)), q.dtype)

    @staticmethod
    def flops(q: TensorType, k: TensorType, v: TensorType, mask: TensorType | None, *, result: TensorType, scale: float) -> int:
        scores = scores_of(q, k)
        each = 6 if mask is None else 7  # operations per score: softmax, scale, and mask
        return MatmulOp.flops(q, k, result=scores) + each * scores.elements + MatmulOp.flops(scores, v, result=result)

    def scores(self) -> TensorType:
        """The type of `q k`."""
        return scores_of(TensorType.from_mlir(self.q.type), TensorType.from_mlir(self.k.type))


def scores_of(q: TensorType, k: TensorType) -> TensorType:
    """The type of `q k`. Raises InferenceError if the two types do not fit together."""
    scores = MatmulOp.infer(q, k)
    assert isinstance(scores, TensorType)
    return scores
