"""pow: `2^(y log2 x)`, with the logarithm and the product in f64, whose 53 bits the largest exponents need."""

from collections.abc import Callable
from math import inf, nan

from stepwell.passes.affine_to_llvm.vector_math import coefficients as c
from stepwell.passes.affine_to_llvm.vector_math.expansions import expands
from stepwell.passes.affine_to_llvm.vector_math.exponential import SIGN, exp2_small, nearest, scaled
from stepwell.passes.affine_to_llvm.vector_math.lanes import Floats, polynomial
from stepwell.passes.affine_to_llvm.vector_math.logarithm import decompose

WIDE_ROUNDER = 1.5 * 2.0**52  # like exponential.ROUNDER, for f64


def log2_wide(x: Floats) -> Floats:
    """log2 of an f32 that is not negative, in f64 to 36 bits."""
    e, f = decompose(x)
    wide = f.wide()
    s = wide / (wide + 2.0)
    result = e.wide() + s * polynomial(s * s, c.LOG2_WIDE)
    return x.equal(0.0).choose(result.constant(-inf), (x < inf).choose(result, x.wide()))


@expands("math.powf", ulps=1.0)
def power(x: Floats, y: Floats) -> Floats:
    """`2^k 2^r` with `y log2 |x| = k + r`, negative for a negative x and an odd y; the special cases are those of C (annex F)."""
    magnitude = abs(x)
    exponent = (y.wide() * log2_wide(magnitude)).at_most(129.0).at_least(-151.0)
    multiple = (exponent + WIDE_ROUNDER) - WIDE_ROUNDER
    k, same = nearest(multiple.narrow())
    result = scaled(exp2_small((exponent - multiple).narrow()), k, same)
    integer = y.floor().equal(y)
    half = y * 0.5
    sign = (integer & half.floor().differs(half)).choose(x.bits() & SIGN, 0)
    signed = (result.bits() | sign).as_float()
    signed = ((x < 0.0) & (x > -inf)).choose(integer.choose(signed, nan), signed)
    one = y.equal(0.0) | x.equal(1.0) | (magnitude.equal(1.0) & abs(y).equal(inf))
    return one.choose(result.constant(1.0), signed)


def square_root(x: Floats) -> Floats:
    """`x^(1/2)`, which differs from sqrt for -0 and minus infinity."""
    return x.equal(-inf).choose(-x, (x + 0.0).sqrt())


# Cheaper ways than the general one, by exponent.
CONSTANT_EXPONENTS: dict[float | None, Callable[[Floats], Floats]] = {
    -1.0: lambda x: 1.0 / x,
    -0.5: lambda x: 1.0 / square_root(x),
    0.5: square_root,
    1.0: lambda x: x,
    2.0: lambda x: x * x,
    3.0: lambda x: x * x * x,
}
