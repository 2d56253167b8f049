"""Normalisations of older networks; newer ones are decomposed into reductions and element-wise ops."""

import math

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import FLOATS, TensorType
from stepwell.dialects.graph.base import Fusion, GraphOp, InferredTypes, Operand, Pure, Result, SingleOperand
from stepwell.dialects.graph.inference import expect_dtype, expect_rank_at_least, expect_same_dtype, expect_shape
from stepwell.dialects.graph.numerics import narrow, wide
from stepwell.dialects.support.errors import InferenceError


class BatchNormOp(GraphOp, name="batch_norm", traits=[Pure]):
    """`(x - mean) / sqrt(var + epsilon) * scale + bias` with one value for each channel (dimension 1) of `x`."""

    x: Operand
    scale: Operand
    bias: Operand
    mean: Operand
    var: Operand
    result: Result
    epsilon: ir.FloatAttr

    @staticmethod
    def infer(x: TensorType, scale: TensorType, bias: TensorType, mean: TensorType, var: TensorType, *, epsilon: float) -> InferredTypes:
        expect_dtype("x", x, FLOATS)
        expect_rank_at_least("x", x, 2)
        for name, operand in (("scale", scale), ("bias", bias), ("mean", mean), ("var", var)):
            expect_same_dtype(x=x, **{name: operand})
            expect_shape(name, operand, x.shape[1:2], f"the channels of operand 'x' ({x})")
        if not (math.isfinite(epsilon) and epsilon >= 0):
            raise InferenceError(f"attribute 'epsilon' must be 0 or more, got {epsilon}")
        counts = [size for size in (x.shape[1], scale.shape[0], bias.shape[0], mean.shape[0], var.shape[0]) if isinstance(size, int)]
        return x.with_shape((x.shape[0], counts[0], *x.shape[2:])) if counts else x  # one known size gives all of them

    @staticmethod
    def reference(x: np.ndarray, scale: np.ndarray, bias: np.ndarray, mean: np.ndarray, var: np.ndarray, *, epsilon: float) -> np.ndarray:
        s, b, m, v = (wide(a).reshape(-1, *[1] * (x.ndim - 2)) for a in (scale, bias, mean, var))
        return narrow((wide(x) - m) / np.sqrt(v + v.dtype.type(epsilon)) * s + b, x.dtype)

    @staticmethod
    def flops(x: TensorType, scale: TensorType, bias: TensorType, mean: TensorType, var: TensorType, *, result: TensorType, epsilon: float) -> int:
        return 2 * x.elements  # a multiplication and an addition, after the channels' factors are computed


class LrnOp(SingleOperand, name="lrn", fusion=Fusion.COMPLEX, traits=[Pure]):
    """`x / (bias + alpha / size * s) ** beta`, where `s` is the sum of squares of `size` adjacent channels (dimension 1)."""

    size: ir.IntegerAttr
    alpha: ir.FloatAttr
    beta: ir.FloatAttr
    bias: ir.FloatAttr

    @staticmethod
    def infer(x: TensorType, *, size: int, alpha: float, beta: float, bias: float) -> InferredTypes:
        expect_dtype("x", x, FLOATS)
        expect_rank_at_least("x", x, 2)
        if size < 1:
            raise InferenceError(f"attribute 'size' must be 1 or more, got {size}")
        return x

    @staticmethod
    def reference(x: np.ndarray, *, size: int, alpha: float, beta: float, bias: float) -> np.ndarray:
        w = wide(x)
        before, after = (size - 1) // 2, size // 2
        squares = np.pad(np.square(w), [(0, 0), (before, after), *[(0, 0)] * (x.ndim - 2)])
        around = np.zeros_like(w)
        for i in range(size):
            around += squares[:, i : i + x.shape[1]]
        real = w.dtype.type
        return narrow(w / np.power(real(bias) + real(alpha / size) * around, real(beta)), x.dtype)

    @staticmethod
    def flops(x: TensorType, *, result: TensorType, size: int, **attributes: object) -> int:
        return x.elements * (2 * size + 4)
