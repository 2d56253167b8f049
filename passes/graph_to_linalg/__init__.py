"""Lowering from graph to linalg: lowerings by op family, and the packing of weights into one arena; importing this registers them."""

from stepwell.dialects.support.exports import load_modules

load_modules(__name__)
