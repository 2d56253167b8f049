"""Values known at compile time: small literals in the IR, and weights by name in a separate table."""

import numpy as np

from stepwell.dialects.core.attributes import to_python
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import TensorType, from_numpy
from stepwell.dialects.graph.base import Fusion, GraphOp, InferredTypes, Pure, Result
from stepwell.dialects.graph.traits import Speculatable


class ConstantOp(GraphOp, name="constant", fusion=Fusion.FREE, traits=[Pure, Speculatable]):
    """A small literal tensor."""

    value: ir.DenseElementsAttr
    result: Result

    @staticmethod
    def infer(*, value: np.ndarray) -> InferredTypes:
        return TensorType(from_numpy(value.dtype), value.shape)

    @staticmethod
    def reference(*, value: np.ndarray) -> np.ndarray:
        return value

    @staticmethod
    def flops(*, result: TensorType, value: np.ndarray) -> int:
        return 0


class ParameterOp(GraphOp, name="parameter", fusion=Fusion.FREE, traits=[Pure, Speculatable]):
    """The entry `id` of the weight table; its type is the entry's type."""

    id: ir.StringAttr
    result: Result

    @staticmethod
    def flops(*, result: TensorType, id: str) -> int:
        return 0

    def attribute_problem(self) -> str | None:
        """The problem with the id, if any: messages and listings name weights by their ids."""
        if (problem := super().attribute_problem()) is not None or ir.StringAttr(self.operation.attributes["id"]).value.isprintable():
            return problem
        return f"attribute 'id' must have printable characters only, got {self.operation.attributes['id']}"


def constant_array(op: ConstantOp) -> np.ndarray:
    """The array that a constant holds."""
    return to_python(op.attributes["value"])
