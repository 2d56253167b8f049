"""Ops that passes treat like built-in ones because of their traits: a product, `com.example::RowProduct`, and `com.example::Interleave`.

    stepwell run model.onnx --load examples/plugins/product_op.py

The product states which elements of its operands are multiplied. So the quantiser gives it integers, and a quantised network computes it in integers,
with weights in panels, narrow operands, and casts, a bias and an activation fused into its kernel. The copying op states that it
joins its operands. So quantisation moves before it, and the producers of operands write directly into its result, in the same kernel.
"""

import re
from collections.abc import Sequence

import numpy as np

from stepwell.plugin import (
    NUMERIC,
    Dim,
    Fusion,
    GraphOp,
    ImportBuilder,
    InferenceError,
    InferredTypes,
    JoinsData,
    LinalgBuilder,
    Operand,
    Operands,
    Pure,
    Result,
    Speculatable,
    SumOfProducts,
    SumsProducts,
    TensorType,
    Value,
    VariadicOperand,
    contract,
    dims,
    expect_dim,
    expect_dtype,
    expect_rank,
    expect_same_dtype,
    ir,
    lowering,
    onnx_rule,
    widened,
)


class RowProductOp(GraphOp, name="row_product", traits=[Pure, SumsProducts, Speculatable]):
    """`x @ transpose(w)`: the product of each row of `x` (M, K) with each row of `w` (N, K), as linear layers store their weights."""

    fusion = Fusion.COMPLEX  # element-wise ops after it become part of its kernel

    x: Operand
    w: Operand
    result: Result

    @staticmethod
    def infer(x: TensorType, w: TensorType) -> InferredTypes:
        expect_dtype("x", x, NUMERIC)
        expect_same_dtype(x=x, w=w)
        for name, operand in (("x", x), ("w", w)):
            expect_rank(name, operand, 2)
        expect_dim("w", w, 1, x.shape[1], f"the columns of operand 'x' ({x})")
        return x.with_shape((x.shape[0], w.shape[0]))

    @staticmethod
    @widened  # f16 and bf16 are multiplied and summed in f32, and rounded once
    def reference(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        return np.matmul(x, w.T)

    @staticmethod
    def flops(x: TensorType, w: TensorType, *, result: TensorType) -> int:
        return 2 * result.elements * x.static_shape[1]

    def sum_of_products(self) -> SumOfProducts:
        """Rows of `x` are the rows of the result, and rows of `w` its columns; None marks the reduction dimension."""
        return SumOfProducts(lhs=(0, None), rhs=(1, None), rank=2, depth=self.operand_types()[0].shape[1])


@lowering(RowProductOp)
def lower_row_product(op: RowProductOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """One contraction over rows, columns and the reduction dimension: schedules use a dot-product instruction if the target has one."""
    (x, w), (row, column, summed) = operands, dims(0, 1, 2)
    return contract(b, x, [row, summed], w, [column, summed], op.result_types()[0].dtype, [b.size(x, 0), b.size(w, 0)], 1)


@onnx_rule("RowProduct", since=1, domain="com.example")
def row_product(b: ImportBuilder, x: Value, w: Value) -> Value:
    """The importer's rule."""
    return b.row_product(x, w)


class InterleaveOp(GraphOp, name="interleave", traits=[Pure, JoinsData]):
    """The interleaved rows (along the first dimension) of all operands, which have one type: the first of each, then the second of each, …"""

    inputs: VariadicOperand
    result: Result

    @staticmethod
    def infer(inputs: Sequence[TensorType]) -> InferredTypes:
        if not inputs or not inputs[0].rank:
            raise InferenceError(f"takes at least one operand, with rows, got {list(map(str, inputs))}")
        for number, other in enumerate(inputs):
            if other != inputs[0]:
                raise InferenceError(f"operand {number} must be of the type of operand 0 ({inputs[0]}), got {other}")
        rows: Dim = inputs[0].shape[0]
        return inputs[0].with_shape((None if rows is None else rows * len(inputs), *inputs[0].shape[1:]))

    @staticmethod
    def reference(inputs: Sequence[np.ndarray]) -> np.ndarray:
        return np.stack(inputs, axis=1).reshape(len(inputs) * len(inputs[0]), *inputs[0].shape[1:])

    @staticmethod
    def flops(inputs: Sequence[TensorType], *, result: TensorType) -> int:
        return 0


@lowering(InterleaveOp)
def lower_interleave(op: InterleaveOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """Insert each operand into its slice of (rows, operands, …), and merge the first two dimensions."""
    rows, *inner = b.sizes(operands[0])
    apart = [[0, 1], *([i] for i in range(2, 2 + len(inner)))]
    out = b.empty(op.result_types()[0].dtype, [rows, len(operands), *inner])
    for number, value in enumerate(operands):
        out = b.insert(b.reshape(value, apart, [rows, 1, *inner]), out, [0, number, *(0 for _ in inner)])
    return b.reshape(out, apart, b.given_all(op.result_types()[0].shape))


@onnx_rule("Interleave", since=1, domain="com.example")
def interleave(b: ImportBuilder, *inputs: Value) -> Value:
    """The importer's rule."""
    return b.interleave(list(inputs))


def quantised(x: np.ndarray, scale: float, zero: int) -> np.ndarray:
    """The bytes that QuantizeLinear computes from `x`."""
    return np.asarray(np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8))


if __name__ == "__main__":
    import small_models

    import stepwell

    random = np.random.default_rng(0)
    x, w = random.standard_normal((24, 64)).astype(np.float32), random.integers(-127, 128, (32, 64)).astype(np.int8)
    bias = (random.integers(-4096, 4096, 32) * 2**-12).astype(np.float32)
    # A quantised layer, as a quantiser writes it: bytes, weights and the result have scales, here powers of two, so that nothing is rounded.
    numbers = quantised(x, 2**-5, 128).astype(np.int64) - 128
    layer = np.maximum(numbers @ w.T.astype(np.int64) * 2**-12 + bias, 0)
    weights = {"s": np.float32(2**-5), "z": np.uint8(128), "t": np.full(32, 2**-7, np.float32), "u": np.zeros(32, np.int8), "w": w, "b": bias}
    nodes: list[small_models.Node] = [
        ("QuantizeLinear", ["x", "s", "z"], {}), ("DequantizeLinear", ["@", "s", "z"], {}), ("DequantizeLinear", ["w", "t", "u"], {"axis": 0}),
        ("com.example::RowProduct", ["v1", "v2"], {}), ("Add", ["@", "b"], {}), ("Relu", ["@"], {}), ("QuantizeLinear", ["@", "r", "n"], {}),
    ]  # fmt: skip
    y = quantised(layer, 2**-4, 3)
    model = small_models.chain(nodes, x, y, **weights, r=np.float32(2**-4), n=np.uint8(3))
    small_models.check(model, x, y, kernels=2)  # one computes the bytes of `x`, the other everything else
    # The zero point is subtracted from the bytes, of either sign; weights lie in panels, and the product itself widens its operands.
    assert re.search(r"packed_matmul_\w+\(%arg0: tensor<24x64xu?i8>.*, %arg1: tensor<(\d+x){4}i8>", stepwell.lower(model, "graph-opt").text())
    # The producers of the parts store them directly in their places, as bytes.
    parts: list[small_models.Node] = [
        ("Relu", ["x"], {}), ("Mul", ["x", "x"], {}), ("com.example::Interleave", ["v0", "v1"], {}), ("QuantizeLinear", ["@", "s", "z"], {}),
    ]  # fmt: skip
    both = np.stack([np.maximum(x, 0), x * x], axis=1).reshape(48, 64)
    y = quantised(both, 2**-5, 128)
    model = small_models.chain(parts, x, y, s=weights["s"], z=weights["z"])
    small_models.check(model, x, y, kernels=1)
    assert re.search('"graph.interleave".*tensor<48x64xui8>', stepwell.lower(model, "graph-opt").text())
