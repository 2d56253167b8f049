"""Lowering from linalg to affine loops with vector ops; importing this registers the passes."""

from stepwell.dialects.support.exports import load_modules

load_modules(__name__)
