"""Schedules: their space, cost model, defaults and search, and loop fusion; importing this registers the passes."""

from stepwell.dialects.support.exports import load_modules

load_modules(__name__)
