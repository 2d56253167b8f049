"""Element-wise transcendental functions: roots, exponentials, trigonometry, and the functions that activations need."""

import math

import numpy as np

from stepwell.dialects.graph.elementwise import FloatUnary
from stepwell.dialects.graph.numerics import erf, pointwise, widened
from stepwell.dialects.graph.value_range import Range


class SqrtOp(FloatUnary, name="sqrt"):
    """The square root of `x`; NaN for negative `x`."""

    reference = pointwise(np.sqrt)


class RsqrtOp(FloatUnary, name="rsqrt"):
    """`1 / sqrt(x)`."""

    reference = pointwise(lambda x: np.reciprocal(np.sqrt(x)))


class ExpOp(FloatUnary, name="exp"):
    """`e` to the power of `x`."""

    reference = pointwise(np.exp)

    def value_range(self, x: Range) -> Range:
        """The range starts at 0: small powers underflow."""
        return (0, math.inf)


class LogOp(FloatUnary, name="log"):
    """The natural logarithm of `x`."""

    reference = pointwise(np.log)


class SinOp(FloatUnary, name="sin"):
    """The sine of `x` in radians."""

    reference = pointwise(np.sin)


class CosOp(FloatUnary, name="cos"):
    """The cosine of `x` in radians."""

    reference = pointwise(np.cos)


class TanOp(FloatUnary, name="tan"):
    """The tangent of `x` in radians."""

    reference = pointwise(np.tan)


class AsinOp(FloatUnary, name="asin"):
    """The arc sine of `x`, in radians."""

    reference = pointwise(np.arcsin)


class AcosOp(FloatUnary, name="acos"):
    """The arc cosine of `x`, in radians."""

    reference = pointwise(np.arccos)


class AtanOp(FloatUnary, name="atan"):
    """The arc tangent of `x`, in radians."""

    reference = pointwise(np.arctan)


class SinhOp(FloatUnary, name="sinh"):
    """The hyperbolic sine of `x`."""

    reference = pointwise(np.sinh)


class CoshOp(FloatUnary, name="cosh"):
    """The hyperbolic cosine of `x`."""

    reference = pointwise(np.cosh)


class TanhOp(FloatUnary, name="tanh"):
    """The hyperbolic tangent of `x`."""

    reference = pointwise(np.tanh)


class AsinhOp(FloatUnary, name="asinh"):
    """The inverse hyperbolic sine of `x`."""

    reference = pointwise(np.arcsinh)


class AcoshOp(FloatUnary, name="acosh"):
    """The inverse hyperbolic cosine of `x`."""

    reference = pointwise(np.arccosh)


class AtanhOp(FloatUnary, name="atanh"):
    """The inverse hyperbolic tangent of `x`."""

    reference = pointwise(np.arctanh)


class ErfOp(FloatUnary, name="erf"):
    """The error function of `x`."""

    reference = pointwise(erf)


class SigmoidOp(FloatUnary, name="sigmoid"):
    """`1 / (1 + exp(-x))`."""

    @staticmethod
    @widened
    def reference(x: np.ndarray) -> np.ndarray:
        small = np.exp(-np.abs(x))  # never overflows
        return np.where(x < 0, small, x.dtype.type(1)) / (1 + small)

    def value_range(self, x: Range) -> Range:
        """From 0 to 1, both included because of rounding."""
        return (0, 1)


class SoftplusOp(FloatUnary, name="softplus"):
    """`log(1 + exp(x))`."""

    reference = pointwise(lambda x: np.logaddexp(x, x.dtype.type(0)))
