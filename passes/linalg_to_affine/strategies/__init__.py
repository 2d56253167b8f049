"""What computes register tiles: one file for each strategy; importing this registers them."""

from stepwell.dialects.support.exports import load_modules

load_modules(__name__)
