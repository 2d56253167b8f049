"""From tensors to memory: which buffer holds what, where it lies, and what is computed in place; importing this registers the passes."""

from stepwell.dialects.support.exports import load_modules

load_modules(__name__)
