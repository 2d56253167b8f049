"""The operators that run in Python at the border of a model; importing this registers them."""

from stepwell.dialects.support.exports import load_modules

load_modules(__name__)
