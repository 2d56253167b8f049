"""Passes that make ops of the dialect `packed`: blocks of channels, panels of columns, Winograd's method; importing this registers them."""

from stepwell.dialects.support.exports import load_modules

load_modules(__name__)
