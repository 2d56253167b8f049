"""Lowering from affine to the llvm dialect; importing this registers its passes."""

from stepwell.dialects.support.exports import load_modules

load_modules(__name__)
