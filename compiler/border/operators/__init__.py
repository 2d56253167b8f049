"""The operators that run in Python at the border of a model; importing this registers them."""

from stepwell.border.operators import casts, labels, maps, moving, text, tokens  # noqa: F401
