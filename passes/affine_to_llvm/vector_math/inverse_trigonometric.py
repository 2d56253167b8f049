"""asin, acos and atan: odd polynomials for small arguments, to which the others are reduced."""

from stepwell.passes.affine_to_llvm.vector_math import coefficients as c
from stepwell.passes.affine_to_llvm.vector_math.expansions import expands
from stepwell.passes.affine_to_llvm.vector_math.exponential import with_sign_of
from stepwell.passes.affine_to_llvm.vector_math.lanes import Floats, Mask, fma, polynomial


def asin_parts(magnitude: Floats) -> tuple[Mask, Floats, Floats]:
    """Whether `magnitude` is above 1/2; s; and `asin s - s`, where s is `magnitude` up to 1/2 and `sqrt((1 - magnitude) / 2)` above."""
    above = magnitude > 0.5
    halved = fma(magnitude, -0.5, 0.5)
    square = above.choose(halved, magnitude * magnitude)
    s = above.choose(halved.sqrt(), magnitude)
    return above, s, s * square * polynomial(square, c.ASIN)


@expands("math.asin", ulps=1.2)
def asin(x: Floats) -> Floats:
    """`asin s`, above 1/2 `pi/2 - 2 asin s`, and the sign of x; NaN above 1."""
    above, s, rest = asin_parts(abs(x))
    high = fma(s, -2.0, c.PI[0] / 2)
    lost = fma(s, -2.0, c.PI[0] / 2 - high)
    outer = high + (lost - fma(rest, 2.0, -c.PI[1] / 2))
    return with_sign_of(above.choose(outer, s + rest), x)


@expands("math.acos", ulps=1.2)
def acos(x: Floats) -> Floats:
    """`pi/2 - asin x`; above 1/2 `2 asin s`, below -1/2 `pi - 2 asin s`; NaN above 1."""
    above, s, rest = asin_parts(abs(x))
    angle = s + rest
    middle = c.PI[0] / 2 - (with_sign_of(angle, x) - c.PI[1] / 2)
    twice = angle * 2.0
    outer = (x > 0.0).choose(twice, c.PI[0] - (twice - c.PI[1]))
    return above.choose(outer, middle)


@expands("math.atan", ulps=1.4)
def atan(x: Floats) -> Floats:
    """`atan |x|`, above 1 `pi/2 - atan(1 / |x|)`, and the sign of x."""
    magnitude = abs(x)
    above = magnitude > 1.0
    s = above.choose(1.0 / magnitude, magnitude)
    square = s * s
    angle = fma(s * square, polynomial(square, c.ATAN), s)
    return with_sign_of(above.choose(c.PI[0] / 2 - (angle - c.PI[1] / 2), angle), x)
