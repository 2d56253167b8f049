"""log, log2, log10, log1p and functions derived from them: `x = 2^e (1 + f)` with 1 + f around 1, and a polynomial in f."""

from math import inf, nan

from stepwell.passes.affine_to_llvm.vector_math import coefficients as c
from stepwell.passes.affine_to_llvm.vector_math.expansions import expands
from stepwell.passes.affine_to_llvm.vector_math.exponential import BIAS, with_sign_of
from stepwell.passes.affine_to_llvm.vector_math.lanes import Floats, Mask, fma, polynomial

SQRT_HALF_BITS = 0x3F3504F3  # of the f32 next to sqrt(1/2), where the mantissas begin
MANTISSA = (1 << 23) - 1  # the mantissa bits of f32
LEAST_NORMAL = 2.0**-126  # the smallest normal f32


def decompose(x: Floats) -> tuple[Floats, Floats]:
    """`e, f` with `x = 2^e (1 + f)` and sqrt(1/2) <= 1 + f < sqrt(2), for any finite x above 0."""
    tiny = x < LEAST_NORMAL
    offset = tiny.choose(x * 2.0**24, x).bits() - SQRT_HALF_BITS
    exponent = (offset >> 23).to_float()
    mantissa = ((offset & MANTISSA) + SQRT_HALF_BITS).as_float()
    return tiny.choose(exponent - 24.0, exponent), mantissa - 1.0


def natural(e: Floats, f: Floats) -> Floats:
    """`e ln 2 + log(1 + f)`. The rounding error of the sum of the large terms is added back, so that cancellation does no harm."""
    high = fma(e, c.LN2[0], f)
    lost = f - fma(e, -c.LN2[0], high)
    return high + (lost + fma(e, c.LN2[1], f * f * polynomial(f, c.LOG)))


def with_specials(result: Floats, x: Floats, pole: float = 0.0) -> Floats:
    """`result`, but minus infinity at the pole, NaN below it (and for NaN), and infinity for infinity."""
    outside = x.equal(pole).choose(x.constant(-inf), nan)
    return x.equal(inf).choose(x, (x > pole).choose(result, outside))


@expands("math.log", ulps=0.9)
def log(x: Floats) -> Floats:
    """`e ln 2 + log(1 + f)`."""
    return with_specials(natural(*decompose(x)), x)


def in_base(x: Floats, step: tuple[float, float], scale: tuple[float, float], tail: tuple[float, ...]) -> Floats:
    """`e step + f scale + f^2 tail(f)`, where `step` is log 2 and `scale` is log of Euler's number, each in two parts."""
    e, f = decompose(x)
    linear = f * scale[0]
    rest = fma(f, scale[1], fma(f, scale[0], -linear))
    high = fma(e, step[0], linear)
    lost = linear - fma(e, -step[0], high)
    return with_specials(high + (lost + fma(e, step[1], fma(f * f, polynomial(f, tail), rest))), x)


@expands("math.log2", ulps=1.0)
def log2(x: Floats) -> Floats:
    """`e + log2(1 + f)`."""
    return in_base(x, (1.0, 0.0), c.LOG2_E, c.LOG2)


@expands("math.log10", ulps=0.9)
def log10(x: Floats) -> Floats:
    """`e log10(2) + log10(1 + f)`."""
    return in_base(x, c.LOG10_2, c.LOG10_E, c.LOG10)


def log_of_sum(x: Floats, doubled: Mask | None = None) -> Floats:
    """`log(1 + x)` for x > -1, plus ln 2 in lanes that are `doubled`; x itself if that is the nearest result.

    The exponent is that of the rounded sum, but f is exact up to one rounding: `2^-e x + (2^-e - 1)`.
    """
    exponent = ((x + 1.0).bits() - SQRT_HALF_BITS) >> 23
    power = ((BIAS + 2 - exponent) << 23).as_float()  # 2^(2 - e), since 2^-e may be too small
    f = fma(x * 0.25, power, fma(power, 0.25, -1.0))
    e = exponent.to_float()
    result = natural(e if doubled is None else doubled.choose(e + 1.0, e), f)
    return (abs(x) < 2.0**-25).choose(x, result)


@expands("math.log1p", ulps=1.6)
def log1p(x: Floats) -> Floats:
    """`e ln 2 + log(1 + f)` with `1 + x = 2^e (1 + f)`."""
    return with_specials(log_of_sum(x), x, -1.0)


LARGE = 2.0**28  # beyond this, adding 1 under a root or in a logarithm makes no difference


@expands("math.asinh", ulps=1.9)
def asinh(x: Floats) -> Floats:
    """`log1p(|x| + x^2 / (1 + sqrt(x^2 + 1)))`, for large values `log1p(|x|) + ln 2`, and the sign of x."""
    magnitude = abs(x)
    large = magnitude > LARGE
    square = magnitude * magnitude
    sum_less_1 = magnitude + square / ((square + 1.0).sqrt() + 1.0)
    result = log_of_sum(large.choose(magnitude, sum_less_1), large)
    return with_sign_of(magnitude.equal(inf).choose(magnitude, result), x)


@expands("math.acosh", ulps=2.0)
def acosh(x: Floats) -> Floats:
    """`log1p(t + sqrt(t^2 + 2 t))` with `t = x - 1`, for large values `log1p(x) + ln 2`; NaN below 1."""
    large = x > LARGE
    t = x - 1.0
    result = log_of_sum(large.choose(x, t + fma(t, t, t + t).sqrt()), large)
    return x.equal(inf).choose(x, (x >= 1.0).choose(result, nan))


@expands("math.atanh", ulps=2.2)
def atanh(x: Floats) -> Floats:
    """`log1p(2 |x| / (1 - |x|)) / 2` and the sign of x; NaN above 1."""
    magnitude = abs(x)
    result = log1p(magnitude * 2.0 / (1.0 - magnitude)) * 0.5
    return with_sign_of((magnitude <= 1.0).choose(result, nan), x)
