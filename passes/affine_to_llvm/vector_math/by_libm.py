"""log1p and expm1 from log and exp of libm: upstream's lowerings to `log(1 + x)` and `exp(x) - 1` lose the digits that these functions are for.

W. Kahan's formulas correct the rounding of `1 + x` and `exp(x)` with the help of the inverse function.
"""

from collections.abc import Callable
from math import inf

from stepwell.dialects.core.mlir import math
from stepwell.passes.affine_to_llvm.vector_math.lanes import Floats


def log1p(x: Floats) -> Floats:
    """`log(u) x / (u - 1)` with `u = 1 + x` after rounding: correct to a few ulps."""
    u = x + 1.0
    rounded = u - 1.0
    corrected = u.apply(math.LogOp) * (x / rounded)
    return (rounded.equal(0.0) | x.equal(inf)).choose(x, corrected)


def expm1(x: Floats) -> Floats:
    """`(u - 1) x / log(u)` with `u = exp(x)` after rounding: correct to a few ulps."""
    u = x.apply(math.ExpOp)
    difference = u - 1.0
    corrected = difference * (x / u.apply(math.LogOp))
    far = (difference.equal(-1.0) | difference.equal(inf)).choose(difference, corrected)
    return u.equal(1.0).choose(x, far)


BY_LIBM: dict[str, Callable[[Floats], Floats]] = {"math.log1p": log1p, "math.expm1": expm1}
