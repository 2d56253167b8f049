"""exp, exp2, expm1, sinh, cosh, tanh and erf: `x = k ln 2 + r` with an integer k, and a polynomial in the small r.

The scheme is P. T. P. Tang's (1989) without his table: in f32 a polynomial of a few more terms is cheaper than a gather.
"""

from stepwell.passes.affine_to_llvm.vector_math import coefficients as c
from stepwell.passes.affine_to_llvm.vector_math.expansions import expands
from stepwell.passes.affine_to_llvm.vector_math.lanes import Floats, Ints, fma, polynomial

ROUNDER = 1.5 * 2.0**23  # added to |x| < 2^22 it leaves the nearest integer in the low bits
ROUNDER_BITS = 0x4B400000  # those of ROUNDER as f32
BIAS = 127  # of the exponent of f32
SIGN = -(1 << 31)  # the sign bit of f32
BELOW_2 = ~(1 << 30)  # all bits but the highest of the exponent


def nearest(x: Floats, factor: float = 1.0) -> tuple[Ints, Floats]:
    """The integer nearest to `factor * x`, both as an integer and as a float. For NaN: an unspecified integer, and NaN."""
    shifted = x + ROUNDER if factor == 1 else fma(x, factor, ROUNDER)
    return shifted.bits() - ROUNDER_BITS, shifted - ROUNDER


def power_of_two(n: Ints) -> Floats:
    """2^n for -127 < n < 128."""
    return ((n + BIAS) << 23).as_float()


def scaled(x: Floats, n: Ints, same: Floats) -> Floats:
    """`x * 2^n`, rounded once, for x around 1 and |n| < 250: by an instruction, or in two steps, of which only the last may overflow or round.

    `same` is n as floats.
    """
    if x.shape.capabilities.power_scaling:
        return x.scaled(n, same)
    half = n >> 1
    return x * power_of_two(half) * power_of_two(n - half)


def split(x: Floats) -> tuple[Ints, Floats, Floats]:
    """`k`, `k` as floats, and `r` with `x = k ln 2 + r`, |r| <= ln(2) / 2, for |x| < 200."""
    k, multiple = nearest(x, c.LOG2_E[0])
    return k, multiple, fma(multiple, -c.LN2[1], fma(multiple, -c.LN2[0], x))


def exp_small(r: Floats) -> Floats:
    """`e^r` for |r| <= ln(2) / 2."""
    return fma(r * r, polynomial(r, c.EXP), r) + 1.0


def below_2(r: Floats) -> Floats:
    """`r` if |r| < 2, and a number below 2 for any other value, including infinities and NaN: the exponent loses its highest bit.

    Unlike two comparisons this keeps the multiplication units free, which are the bottleneck of vector maths.
    """
    return (r.bits() & BELOW_2).as_float()


def expm1_small(r: Floats) -> Floats:
    """`e^r - 1` for |r| <= ln(2) / 2."""
    return fma(r * r, polynomial(r, c.EXPM1), r)


@expands("math.exp", ulps=1.1)
def exp(x: Floats) -> Floats:
    """`2^k e^r` with `x = k ln 2 + r`."""
    if x.scales:  # the instruction accepts any k, including NaN; only r must be bounded, since it is meaningless for huge x
        k, same, r = split(x)
        return exp_small(below_2(r)).scaled(k, same)
    k, same, r = split(x.at_most(89.0).at_least(-104.0))
    return scaled(exp_small(r), k, same)


def exp2_small(r: Floats) -> Floats:
    """`2^r` for |r| <= 1/2."""
    return fma(r, polynomial(r, c.EXP2), 1.0)


@expands("math.exp2", ulps=0.9)
def exp2(x: Floats) -> Floats:
    """`2^k 2^r` with the integer k nearest to x."""
    x = x.at_most(129.0).at_least(-151.0)
    k, multiple = nearest(x)
    return scaled(exp2_small(x - multiple), k, multiple)


@expands("math.expm1", ulps=1.5)
def expm1(x: Floats) -> Floats:
    """`2^k (e^r - 1) + (2^k - 1)` with `x = k ln 2 + r`; x itself if that is the nearest result."""
    k, _, r = split(x.at_most(89.0).at_least(-18.0))
    half = power_of_two(k - 1)  # half of 2^k, which may overflow although the product does not
    result = fma(half, expm1_small(r), half - 0.5) * 2.0
    return (abs(x) < 2.0**-25).choose(x, result)


@expands("math.tanh", ulps=1.4)
def tanh(x: Floats) -> Floats:
    """`|x| + |x|^3 P(x^2)` up to 5/8, `1 - 2 / (e^(2|x|) + 1)` from there, and the sign of x."""
    magnitude = abs(x)
    square = magnitude * magnitude
    near = fma(magnitude * square, polynomial(square, c.TANH), magnitude)
    bounded = magnitude.at_most(9.1)
    twice = bounded + bounded
    k, multiple = nearest(twice, c.LOG2_E[0])
    # One part of ln 2 is enough: its error grows with k, but the exponential's share of the result shrinks faster.
    r = fma(multiple, -sum(c.LN2), twice)
    far = 1.0 - 2.0 / fma(power_of_two(k), exp_small(r), 1.0)
    return with_sign_of((magnitude < 0.625).choose(near, far), x)


def with_sign_of(magnitude: Floats, x: Floats) -> Floats:
    """`magnitude`, which is not negative, with the sign of x."""
    return (magnitude.bits() | (x.bits() & SIGN)).as_float()


def hyperbolic(x: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """`a + b, a - b, sinh r, cosh r - 1` with `a = 2^k / 8`, `b = 2^-k / 8` and `|x| = k ln 2 + r`.

    Then `sinh |x| = 4 ((a + b) sinh r + (a - b) cosh r)` and `cosh x = 4 ((a + b) cosh r + (a - b) sinh r)`.
    """
    k, _, r = split(abs(x).at_most(89.6))
    a, b = power_of_two(k - 3), ((BIAS - 3 - k).at_least(0) << 23).as_float()  # b is 0 where it is too small to matter
    square = r * r
    return a + b, a - b, fma(r * square, polynomial(square, c.SINH), r), square * polynomial(square, c.COSH)


@expands("math.sinh", ulps=1.9)
def sinh(x: Floats) -> Floats:
    """By the addition theorem from `|x| = k ln 2 + r`; x itself if that is the nearest result."""
    total, difference, s, cosh_less_1 = hyperbolic(x)
    result = (difference + fma(difference, cosh_less_1, total * s)) * 4.0
    return (abs(x) < 2.0**-13).choose(x, with_sign_of(result, x))


@expands("math.cosh", ulps=1.9)
def cosh(x: Floats) -> Floats:
    """By the addition theorem from `|x| = k ln 2 + r`."""
    total, difference, s, cosh_less_1 = hyperbolic(x)
    return (total + fma(total, cosh_less_1, difference * s)) * 4.0


@expands("math.erf", ulps=1.2)
def erf(x: Floats) -> Floats:
    """`|x| + |x| P(x^2)` up to 1, `1 - 2^Q(|x|)` up to 4, 1 from there, and the sign of x."""
    magnitude = abs(x).at_most(4.0)
    near = fma(magnitude, polynomial(magnitude * magnitude, c.ERF_NEAR), magnitude)
    exponent = polynomial(magnitude, c.ERF_FAR)
    k, multiple = nearest(exponent)
    far = fma(exp2_small(exponent - multiple), -power_of_two(k), 1.0)
    return with_sign_of((magnitude < 1.0).choose(near, far), x)
