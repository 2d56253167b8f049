"""Element-wise arithmetic and activations. Shapes broadcast as in numpy; operands have equal dtypes."""

import math

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import FLOATS, NUMERIC, SIGNED, TensorType, dtype_info, is_float
from stepwell.dialects.graph.base import Elementwise, GraphOp, InferredTypes, KeepsFinite, Operand, Pure, Result, SingleOperand
from stepwell.dialects.graph.inference import binary, expect_dtype, unary
from stepwell.dialects.graph.numerics import integer_power, is_floating, pointwise, power, truncating_divide, widened
from stepwell.dialects.graph.traits import Exact
from stepwell.dialects.graph.value_range import ANY, Range, clamped, of_integers
from stepwell.dialects.support.errors import InferenceError


class Unary(SingleOperand, traits=[Pure, Elementwise]):
    """An element-wise op with one operand."""


class FloatUnary(Unary, infer=unary(FLOATS)):
    """An element-wise op on floats."""


class Binary(GraphOp, traits=[Pure, Elementwise]):
    """An element-wise op with two operands."""

    lhs: Operand
    rhs: Operand
    result: Result


class NumericBinary(Binary, infer=binary(NUMERIC)):
    """An element-wise op with two numeric operands."""


class AddOp(NumericBinary, name="add", traits=[KeepsFinite, Exact]):
    """`lhs + rhs`; integers wrap."""

    reference = pointwise(np.add)
    value_range = of_integers(lambda a, b: (a[0] + b[0], a[1] + b[1]))


class SubOp(NumericBinary, name="sub", traits=[KeepsFinite, Exact]):
    """`lhs - rhs`; integers wrap."""

    reference = pointwise(np.subtract)
    value_range = of_integers(lambda a, b: (a[0] - b[1], a[1] - b[0]))


class MulOp(NumericBinary, name="mul", traits=[KeepsFinite, Exact], reference=pointwise(np.multiply)):
    """`lhs * rhs`; integers wrap."""


class DivOp(NumericBinary, name="div", traits=[Exact]):
    """`lhs / rhs`; integer division truncates toward zero, and integer division by zero is undefined."""

    @staticmethod
    def reference(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        return widened(np.divide)(lhs, rhs) if is_floating(lhs.dtype) else truncating_divide(lhs, rhs)


class ModOp(NumericBinary, name="mod"):
    """The remainder of `lhs / rhs`: with the sign of `lhs` if `fmod`, else with the sign of `rhs`."""

    fmod: ir.BoolAttr

    @staticmethod
    def reference(lhs: np.ndarray, rhs: np.ndarray, *, fmod: bool) -> np.ndarray:
        return widened(np.fmod if fmod else np.mod)(lhs, rhs)

    def value_range(self, lhs: Range, rhs: Range) -> Range:
        """The range is below the divisor if that is known to be positive."""
        least, most = rhs
        if least <= 0 or not math.isfinite(most):
            return ANY
        top = most if is_float(self.result_types()[0].dtype) else most - 1
        return (-top if self.attribute_values()["fmod"] and lhs[0] < 0 else 0, top)


class PowOp(NumericBinary, name="pow"):
    """`lhs ** rhs`; an integer raised to a negative power gives the truncated reciprocal."""

    @staticmethod
    def reference(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        return widened(power)(lhs, rhs) if is_floating(lhs.dtype) else integer_power(lhs, rhs)


class MaximumOp(NumericBinary, name="maximum", traits=[KeepsFinite, Exact]):
    """The larger of `lhs` and `rhs`; NaN if either is NaN."""

    reference = pointwise(np.maximum)
    value_range = of_integers(lambda a, b: (max(a[0], b[0]), max(a[1], b[1])))


class MinimumOp(NumericBinary, name="minimum", traits=[KeepsFinite, Exact]):
    """The smaller of `lhs` and `rhs`; NaN if either is NaN."""

    reference = pointwise(np.minimum)
    value_range = of_integers(lambda a, b: (min(a[0], b[0]), min(a[1], b[1])))


class NegOp(Unary, name="neg", traits=[Exact], infer=unary((*SIGNED, *FLOATS)), reference=pointwise(np.negative)):
    """`-x`; integers wrap."""


class AbsOp(Unary, name="abs", traits=[Exact]):
    """`|x|`; the smallest integer is unchanged."""

    infer = unary(NUMERIC)
    reference = pointwise(np.abs)

    def value_range(self, x: Range) -> Range:
        """The range starts at 0, or at the bound that is closer to 0 if `x` has one sign."""
        low, high = x
        return (max(low, -high, 0), max(-low, high))


class SignOp(Unary, name="sign", infer=unary(NUMERIC), reference=pointwise(np.sign)):
    """-1, 0 or 1 for negative, zero or positive `x`; NaN for NaN."""


class ReciprocalOp(FloatUnary, name="reciprocal", reference=pointwise(np.reciprocal)):
    """`1 / x`."""


class FloorOp(FloatUnary, name="floor", traits=[KeepsFinite], reference=pointwise(np.floor)):
    """The largest integer that is at most `x`."""


class CeilOp(FloatUnary, name="ceil", traits=[KeepsFinite], reference=pointwise(np.ceil)):
    """The smallest integer that is at least `x`."""


class RoundOp(FloatUnary, name="round", traits=[KeepsFinite, Exact], reference=pointwise(np.rint)):
    """The nearest integer, with ties to even."""


class ReluOp(Unary, name="relu", traits=[KeepsFinite, Exact]):
    """`max(x, 0)`; NaN for NaN."""

    infer = unary(NUMERIC)

    @staticmethod
    def reference(x: np.ndarray) -> np.ndarray:
        return np.maximum(x, np.zeros((), x.dtype))

    def value_range(self, x: Range) -> Range:
        """The operand's range clamped to values from 0."""
        return clamped(x, 0.0, math.inf)


class LeakyReluOp(FloatUnary, name="leaky_relu", traits=[KeepsFinite]):
    """`x` where `x >= 0`, else `alpha * x`."""

    alpha: ir.FloatAttr

    @staticmethod
    @widened
    def reference(x: np.ndarray, *, alpha: float) -> np.ndarray:
        return np.where(x < 0, x.dtype.type(alpha) * x, x)


class EluOp(FloatUnary, name="elu"):
    """`x` where `x >= 0`, else `alpha * (exp(x) - 1)`."""

    alpha: ir.FloatAttr

    @staticmethod
    @widened
    def reference(x: np.ndarray, *, alpha: float) -> np.ndarray:
        return np.where(x < 0, x.dtype.type(alpha) * np.expm1(x), x)


class ClampOp(Unary, name="clamp", traits=[KeepsFinite, Exact]):
    """`min(max(x, min), max)`; NaN for NaN. An infinite bound has no effect."""

    min: ir.FloatAttr
    max: ir.FloatAttr

    @staticmethod
    def infer(x: TensorType, *, min: float, max: float) -> InferredTypes:
        expect_dtype("x", x, NUMERIC)
        for name, bound in (("min", min), ("max", max)):
            if math.isnan(bound):
                raise InferenceError(f"attribute '{name}' must be a number, got NaN")
            if not is_float(x.dtype) and math.isfinite(bound) and bound != int(bound):
                raise InferenceError(f"attribute '{name}' must be whole (or infinite) for {x}, got {bound}")
        return x

    @staticmethod
    def reference(x: np.ndarray, *, min: float, max: float) -> np.ndarray:
        if is_floating(x.dtype):
            return widened(lambda w: np.minimum(np.maximum(w, w.dtype.type(min)), w.dtype.type(max)))(x)
        limits = dtype_info(x.dtype).limits
        low, high = (np.array(integer_bound(bound, *limits), x.dtype) for bound in (min, max))
        return np.minimum(np.maximum(x, low), high)

    def value_range(self, x: Range) -> Range:
        """The operand's range clamped to the bounds."""
        attributes = self.attribute_values()
        return clamped(x, attributes["min"], attributes["max"])


def integer_bound(bound: float, low: int, high: int) -> int:
    """A clamp's bound as an integer of a type with the limits `low` and `high`."""
    return low if bound <= low else high if bound >= high else int(bound)
