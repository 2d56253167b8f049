"""Passes on the graph level; importing this registers them."""

from stepwell.dialects.support.exports import load_modules

load_modules(__name__)
