"""Passes on linalg: destination-passing style, in-place epilogues, borders, collapsed dimensions; importing this registers the passes."""

from stepwell.dialects.support.exports import load_modules

load_modules(__name__)
