"""A plugin that adds one operator, `com.example::SoftShrink`: its op, its import rule and its lowering, all in this file.

Use it with `--load examples/soft_shrink/soft_shrink.py`, or from an installed package through the entry-point group `stepwell.plugins`.
"""

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import FLOATS, TensorType
from stepwell.dialects.graph.base import Elementwise, GraphOp, InferredTypes, KeepsFinite, Operand, Pure, Result
from stepwell.dialects.graph.inference import expect_dtype
from stepwell.dialects.graph.numerics import widened
from stepwell.dialects.support.errors import InferenceError
from stepwell.importer.builder import ImportBuilder, Value
from stepwell.importer.registry import onnx_rule
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering
from stepwell.passes.graph_to_linalg.scalars import Scalars


class SoftShrinkOp(GraphOp, name="soft_shrink", traits=[Pure, Elementwise, KeepsFinite]):
    """`x` drawn towards zero by `amount`: `x - amount` above it, `x + amount` below its negative, 0 between."""

    x: Operand
    amount: ir.FloatAttr
    result: Result

    @staticmethod
    def infer(x: TensorType, *, amount: float) -> InferredTypes:
        expect_dtype("x", x, FLOATS)
        if amount < 0:
            raise InferenceError(f"attribute 'amount' must be 0 or more, got {amount}")
        return x

    @staticmethod
    @widened  # f16 and bf16 are computed in f32, and rounded once
    def reference(x: np.ndarray, *, amount: float) -> np.ndarray:
        return np.sign(x) * np.maximum(np.abs(x) - x.dtype.type(amount), 0)


@onnx_rule("SoftShrink", since=1, domain="com.example")
def soft_shrink(b: ImportBuilder, x: Value, *, amount: float = 0.5) -> Value:
    """The importer's rule: its signature is the operator's schema."""
    return b.soft_shrink(x, amount=amount)


@lowering(SoftShrinkOp)
def lower_soft_shrink(op: SoftShrinkOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """One element-wise linalg.generic; `Scalars` makes its body for any float type."""
    (x_type,), amount = op.operand_types(), op.attribute_values()["amount"]
    s = Scalars(b, x_type.dtype)

    def body(x: ir.Value) -> ir.Value:
        size = s.maximum(s.sub(s.abs(x), s.const(amount)), s.const(0.0))
        return s.select(s.compare("lt", x, s.const(0.0)), s.neg(size), size)

    return b.elementwise(operands, x_type.dtype, x_type.static_shape, body)
