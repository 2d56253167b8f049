"""sin, cos and tan: `|x| = k pi/2 + r` with an integer k, of which only the last two bits matter, and polynomials in r.

Up to `FAR` the reduction is W. J. Cody and W. Waite's with three parts of pi/2 and fused multiplications, and it keeps the rounding error of r.
Beyond, it is M. H. Payne and R. N. Hanek's (1983), in f64: only the bits of 2/pi that matter for x are multiplied. It runs only if a lane of the
vector needs it, and only that lane uses the result, so lanes do not depend on each other.
"""

from dataclasses import dataclass

from stepwell.passes.affine_to_llvm.vector_math import coefficients as c
from stepwell.passes.affine_to_llvm.vector_math.expansions import expands
from stepwell.passes.affine_to_llvm.vector_math.exponential import SIGN, nearest
from stepwell.passes.affine_to_llvm.vector_math.lanes import Floats, Ints, fma, polynomial, when_any
from stepwell.passes.affine_to_llvm.vector_math.power import WIDE_ROUNDER

FAR = 2.0**15  # angles beyond, in radians, are reduced in f64


@dataclass(frozen=True)
class Angle:
    """`quadrant pi/2 + r + low`, |r| <= pi/4; `low` is the rounding error of r. Only the last two bits of `quadrant` matter."""

    quadrant: Ints
    r: Floats
    low: Floats


def reduce(x: Floats) -> Angle:
    """The angle of an x that is not negative."""
    k, multiple = nearest(x, c.TWO_OVER_PI)
    first, second, third = c.HALF_PI
    near = fma(multiple, -first, x)  # exact: it has no more bits than pi/2
    product = multiple * second
    r = near - product
    low = ((near - r) - product) - fma(multiple, third, fma(multiple, second, -product))
    far = x >= FAR

    def far_reduction() -> list[Ints]:
        angle = reduce_far(x)
        return [far.choose(angle.quadrant, k), far.choose(angle.r, r).bits(), far.choose(angle.low, low).bits()]

    quadrant, r_bits, low_bits = when_any(far, far_reduction, [k, r.bits(), low.bits()])
    return Angle(quadrant, r_bits.as_float(), low_bits.as_float())


def reduce_far(x: Floats) -> Angle:
    """The angle of an arbitrarily large finite x; for infinity and NaN one whose r is NaN."""
    wide = x.wide()
    # x = y 2^(24 j), where y is an integer unless j = 0, so that only the value of 2^(24 j) 2/pi modulo 4 matters.
    y, parts = wide, [wide.constant(part) for part in c.QUADRANTS[:3]]
    for j in range(1, 5):
        above = x >= 2.0 ** (24 * (j + 1))
        y = above.choose(wide * 2.0 ** (-24 * j), y)
        parts = [above.choose(wide.constant(c.QUADRANTS[3 * j + i]), part) for i, part in enumerate(parts)]
    first, second = y * parts[0], y * parts[1]  # exact: 24 and 29 bits
    first_whole, second_whole = whole(first), whole(second)
    fraction = (first - first_whole) + (second - second_whole) + y * parts[2]
    last_whole = whole(fraction)
    angle = (fraction - last_whole) * c.HALF_PI_WIDE
    r = angle.narrow()
    quadrants = (first_whole - 4.0 * whole(first_whole * 0.25)) + (second_whole - 4.0 * whole(second_whole * 0.25)) + last_whole
    k, _ = nearest(quadrants.narrow())
    return Angle(k, r, (angle - r.wide()).narrow())


def whole(x: Floats) -> Floats:
    """The integer nearest to an f64 below 2^51."""
    return (x + WIDE_ROUNDER) - WIDE_ROUNDER


def sine_of(a: Angle, square: Floats) -> Floats:
    """`sin(r + low)`."""
    return a.r + fma(a.r * square, polynomial(square, c.SIN), a.low)


def cosine_of(a: Angle, square: Floats) -> Floats:
    """`cos(r + low)`; the rounding error of `1 - r^2 / 2` is added at the end."""
    half = square * 0.5
    high = 1.0 - half
    rest = (1.0 - high) - half
    return high + (rest + fma(square * square, polynomial(square, c.COS), -(a.r * a.low)))


def circular(a: Angle, turn: int) -> Floats:
    """`sin(angle + turn pi/2)`."""
    square = a.r * a.r
    quadrant = a.quadrant + turn if turn else a.quadrant
    value = (quadrant & 1).equal(0).choose(sine_of(a, square), cosine_of(a, square))
    return (value.bits() ^ ((quadrant & 2) << 30)).as_float()


@expands("math.sin", ulps=0.9)
def sin(x: Floats) -> Floats:
    """The sine or cosine of r by quadrant, with the sign of x."""
    return (circular(reduce(abs(x)), 0).bits() ^ (x.bits() & SIGN)).as_float()


@expands("math.cos", ulps=0.9)
def cos(x: Floats) -> Floats:
    """The cosine or sine of r by quadrant."""
    return circular(reduce(abs(x)), 1)


@expands("math.tan", ulps=1.9)
def tan(x: Floats) -> Floats:
    """`tan r`, or `-1 / tan r` in the odd quadrants, with the sign of x."""
    a = reduce(abs(x))
    square = a.r * a.r
    # tan(r + low) = tan r + low (1 + tan^2 r)
    tangent = a.r + fma(a.r * square, polynomial(square, c.TAN), fma(a.low, square, a.low))
    value = (a.quadrant & 1).equal(0).choose(tangent, -1.0 / tangent)
    return (value.bits() ^ (x.bits() & SIGN)).as_float()
