"""erf: an odd polynomial near 0, the complement as a power of two further out."""

from stepwell.passes.affine_to_llvm.vector_math import coefficients as c
from stepwell.passes.affine_to_llvm.vector_math.expansions import expands
from stepwell.passes.affine_to_llvm.vector_math.exponential import exp2_small, nearest, power_of_two, with_sign_of
from stepwell.passes.affine_to_llvm.vector_math.lanes import Floats, fma, polynomial


@expands("math.erf", ulps=1.2)
def erf(x: Floats) -> Floats:
    """`|x| + |x| P(x^2)` up to 1, `1 - 2^Q(|x|)` up to 4, 1 from there, and the sign of x."""
    magnitude = abs(x).at_most(4.0)
    near = fma(magnitude, polynomial(magnitude * magnitude, c.ERF_NEAR), magnitude)
    exponent = polynomial(magnitude, c.ERF_FAR)
    k, multiple = nearest(exponent)
    far = fma(exp2_small(exponent - multiple), -power_of_two(k), 1.0)
    return with_sign_of((magnitude < 1.0).choose(near, far), x)
