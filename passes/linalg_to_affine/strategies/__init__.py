"""Strategies that compute register tiles, one file each; importing this registers them."""

from stepwell.dialects.support.exports import load_modules

load_modules(__name__)
