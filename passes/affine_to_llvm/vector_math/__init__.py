"""Functions of the math dialect on f32 as polynomials on lanes; importing this registers all of them."""

from stepwell.passes.affine_to_llvm.vector_math import error_function, exponential, inverse_trigonometric, logarithm, power, trigonometric
from stepwell.passes.affine_to_llvm.vector_math.expansions import EXPANSIONS, Expansion, expands

__all__ = [
    "EXPANSIONS", "Expansion", "error_function", "expands", "exponential", "inverse_trigonometric", "logarithm", "power", "trigonometric",
]  # fmt: skip
