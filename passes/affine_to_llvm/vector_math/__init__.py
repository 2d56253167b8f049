"""Functions of the math dialect on f32 as polynomials on lanes; importing this registers all of them."""

from stepwell.dialects.support.exports import load_modules

load_modules(__name__)
