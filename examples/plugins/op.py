"""A new operator, `com.example::SoftShrink`: its op, its importer rule and its lowering in one file.

    stepwell run model.onnx --load examples/plugins/op.py

or from an installed package through the entry-point group `stepwell.plugins`. Run by itself, it compiles a model with such a node.
"""

import numpy as np

from stepwell.plugin import (
    FLOATS,
    Elementwise,
    GraphOp,
    ImportBuilder,
    InferenceError,
    InferredTypes,
    KeepsFinite,
    LinalgBuilder,
    Operand,
    Operands,
    Pure,
    Result,
    Scalars,
    TensorType,
    Value,
    expect_dtype,
    ir,
    lowering,
    onnx_rule,
    widened,
)


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
    """One element-wise linalg.generic; `Scalars` builds its body for any float type, and `b.sizes` returns its sizes, static or dynamic."""
    (x_type,), amount = op.operand_types(), op.attribute_values()["amount"]
    s = Scalars(b, x_type.dtype)

    def body(x: ir.Value) -> ir.Value:
        size = s.maximum(s.sub(s.abs(x), s.const(amount)), s.const(0.0))
        return s.select(s.compare("lt", x, s.const(0.0)), s.neg(size), size)

    return b.elementwise(operands, x_type.dtype, b.sizes(operands[0]), body)


if __name__ == "__main__":
    import small_models

    x = np.linspace(-2, 2, 15, dtype=np.float32).reshape(3, 5)
    y = np.sign(2 * x) * np.maximum(np.abs(2 * x) - np.float32(0.75), 0)
    model = small_models.chain([("Add", ["x", "x"], {}), ("com.example::SoftShrink", ["@"], {"amount": 0.75})], x, y)
    small_models.check(model, x, y, kernels=1)
