"""Element-wise transcendental functions: roots, exponentials, trigonometry, and the functions that activations need."""

import math

import numpy as np

from stepwell.dialects.graph.elementwise import FloatUnary
from stepwell.dialects.graph.numerics import erf, pointwise, widened
from stepwell.dialects.graph.value_range import Range


class SqrtOp(FloatUnary, name="sqrt", reference=pointwise(np.sqrt)):
    """The square root of `x`; NaN for negative `x`."""


class RsqrtOp(FloatUnary, name="rsqrt", reference=pointwise(lambda x: np.reciprocal(np.sqrt(x)))):
    """`1 / sqrt(x)`."""


class ExpOp(FloatUnary, name="exp"):
    """`e` to the power of `x`."""

    reference = pointwise(np.exp)

    def value_range(self, x: Range) -> Range:
        """The range starts at 0: small powers underflow."""
        return (0, math.inf)


class LogOp(FloatUnary, name="log", reference=pointwise(np.log)):
    """The natural logarithm of `x`."""


class SinOp(FloatUnary, name="sin", reference=pointwise(np.sin)):
    """The sine of `x` in radians."""


class CosOp(FloatUnary, name="cos", reference=pointwise(np.cos)):
    """The cosine of `x` in radians."""


class TanOp(FloatUnary, name="tan", reference=pointwise(np.tan)):
    """The tangent of `x` in radians."""


class AsinOp(FloatUnary, name="asin", reference=pointwise(np.arcsin)):
    """The arc sine of `x`, in radians."""


class AcosOp(FloatUnary, name="acos", reference=pointwise(np.arccos)):
    """The arc cosine of `x`, in radians."""


class AtanOp(FloatUnary, name="atan", reference=pointwise(np.arctan)):
    """The arc tangent of `x`, in radians."""


class SinhOp(FloatUnary, name="sinh", reference=pointwise(np.sinh)):
    """The hyperbolic sine of `x`."""


class CoshOp(FloatUnary, name="cosh", reference=pointwise(np.cosh)):
    """The hyperbolic cosine of `x`."""


class TanhOp(FloatUnary, name="tanh", reference=pointwise(np.tanh)):
    """The hyperbolic tangent of `x`."""


class AsinhOp(FloatUnary, name="asinh", reference=pointwise(np.arcsinh)):
    """The inverse hyperbolic sine of `x`."""


class AcoshOp(FloatUnary, name="acosh", reference=pointwise(np.arccosh)):
    """The inverse hyperbolic cosine of `x`."""


class AtanhOp(FloatUnary, name="atanh", reference=pointwise(np.arctanh)):
    """The inverse hyperbolic tangent of `x`."""


class ErfOp(FloatUnary, name="erf", reference=pointwise(erf)):
    """The error function of `x`."""


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


class SoftplusOp(FloatUnary, name="softplus", reference=pointwise(lambda x: np.logaddexp(x, x.dtype.type(0)))):
    """`log(1 + exp(x))`."""
