"""Element-wise operations; shapes broadcast as numpy's do, operand dtypes are equal."""

import numpy as np

from stepwell.dialects.errors import InferenceError
from stepwell.dialects.graph.base import GraphOp, InferredTypes, Operand, Pure, Result, broadcast
from stepwell.dialects.types import NUMERIC, TensorType


def numeric_binary(lhs: TensorType, rhs: TensorType) -> TensorType:
    """Two numeric tensors of one dtype, broadcast."""
    if lhs.dtype != rhs.dtype:
        raise InferenceError(f"operands 'lhs' and 'rhs' must have one element type, got {lhs} and {rhs}")
    if lhs.dtype not in NUMERIC:
        raise InferenceError(f"operand 'lhs' must be numeric, got {lhs}")
    return TensorType(lhs.dtype, broadcast(lhs, rhs))


class AddOp(GraphOp, name="add", traits=[Pure]):
    """`lhs + rhs`."""

    lhs: Operand
    rhs: Operand
    result: Result

    @staticmethod
    def infer(lhs: TensorType, rhs: TensorType) -> InferredTypes:
        return numeric_binary(lhs, rhs)

    @staticmethod
    def reference(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        return lhs + rhs


class ReluOp(GraphOp, name="relu", traits=[Pure]):
    """`max(x, 0)`."""

    x: Operand
    result: Result

    @staticmethod
    def infer(x: TensorType) -> InferredTypes:
        if x.dtype not in NUMERIC:
            raise InferenceError(f"operand 'x' must be numeric, got {x}")
        return x

    @staticmethod
    def reference(x: np.ndarray) -> np.ndarray:
        return np.maximum(x, np.zeros((), x.dtype))
