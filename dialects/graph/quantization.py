"""Linear quantisation: conversion of floats to integers and back, by a scale and a zero point that broadcast to the data."""

import numpy as np

from stepwell.dialects.core.dtypes import BYTES, NARROW
from stepwell.dialects.core.types import TensorType, to_numpy
from stepwell.dialects.graph.base import Elementwise, GraphOp, InferredTypes, KeepsFinite, Operand, Pure, Result, broadcast, compatible
from stepwell.dialects.graph.inference import expect_dtype, expect_same_dtype
from stepwell.dialects.graph.logic import saturated
from stepwell.dialects.graph.traits import Converts, Exact
from stepwell.dialects.graph.value_range import Range
from stepwell.dialects.support.errors import InferenceError


class QuantizeOp(GraphOp, name="quantize", traits=[Pure, Elementwise, KeepsFinite, Exact]):
    """`x / scale`, rounded to even, plus the zero point, saturated to the zero point's type; 0 for NaN.

    Scale and zero point broadcast to `x`: one number, or one for each index of some axes. This is the affine scheme of Jacob et al., "Quantization
    and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference", 2018; ONNX's QuantizeLinear.
    """

    x: Operand
    scale: Operand
    zero_point: Operand
    result: Result

    @staticmethod
    def infer(x: TensorType, scale: TensorType, zero_point: TensorType) -> InferredTypes:
        expect_dtype("x", x, ("f32",))
        expect_same_dtype(x=x, scale=scale)
        expect_dtype("zero_point", zero_point, NARROW)
        return _fitting(x, scale=scale, zero_point=zero_point).with_dtype(zero_point.dtype)

    @staticmethod
    def reference(x: np.ndarray, scale: np.ndarray, zero_point: np.ndarray) -> np.ndarray:
        return saturated(np.rint(x / scale) + zero_point.astype(np.float32), zero_point.dtype)

    def value_range(self, x: Range, scale: Range, zero_point: Range) -> Range:
        """The full range of the result's type."""
        limits = np.iinfo(to_numpy(self.result_types()[0].dtype))
        return (int(limits.min), int(limits.max))


class DequantizeOp(GraphOp, name="dequantize", traits=[Pure, Elementwise, KeepsFinite, Exact, Converts]):
    """`(x - zero_point) * scale`: the floats that quantised integers represent.

    The difference wraps in i32, and is exact for narrower integers. Scale and zero point broadcast to `x`, as in `quantize`; ONNX's DequantizeLinear.
    """

    x: Operand
    scale: Operand
    zero_point: Operand
    result: Result

    @staticmethod
    def infer(x: TensorType, scale: TensorType, zero_point: TensorType) -> InferredTypes:
        expect_dtype("x", x, (*NARROW, "i32"))
        expect_same_dtype(x=x, zero_point=zero_point)
        expect_dtype("scale", scale, ("f32",))
        return _fitting(x, scale=scale, zero_point=zero_point).with_dtype(scale.dtype)

    @staticmethod
    def reference(x: np.ndarray, scale: np.ndarray, zero_point: np.ndarray) -> np.ndarray:
        return (x.astype(np.int32) - zero_point.astype(np.int32)).astype(np.float32) * scale

    def repeats_cheaply(self) -> bool:
        """True, because the op converts integers to floats."""
        return True


class FakeQuantizeOp(GraphOp, name="fake_quantize", traits=[Pure, Elementwise, KeepsFinite]):
    """`dequantize(quantize(x, 1, zero_point), 1, zero_point)`, computed in floats: the nearest integer that `quantize` can represent.

    The name is from Krishnamoorthi, "Quantizing deep convolutional networks for efficient inference", 2018.
    """

    x: Operand
    zero_point: Operand
    result: Result

    @staticmethod
    def infer(x: TensorType, zero_point: TensorType) -> InferredTypes:
        expect_dtype("x", x, ("f32",))
        expect_dtype("zero_point", zero_point, BYTES)
        return _fitting(x, zero_point=zero_point)

    @staticmethod
    def reference(x: np.ndarray, zero_point: np.ndarray) -> np.ndarray:
        one = np.ones((), np.float32)
        return DequantizeOp.reference(QuantizeOp.reference(x, one, zero_point), one, zero_point)

    def value_range(self, x: Range, zero_point: Range) -> Range:
        """The range of a difference of two bytes."""
        limits = np.iinfo(to_numpy(self.operand_types()[1].dtype))
        return (float(limits.min - limits.max), float(limits.max - limits.min))


def _fitting(x: TensorType, **others: TensorType) -> TensorType:
    """The type of `x`, to which the other operands must broadcast. Raises InferenceError if they do not."""
    if not compatible(x.with_shape(broadcast(x, *others.values())), x):
        told = " and ".join(f"'{name}' ({kind})" for name, kind in others.items())
        raise InferenceError(f"operand{'s' * (len(others) > 1)} {told} must broadcast to operand 'x', got {x}")
    return x
