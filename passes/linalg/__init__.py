"""Passes on linalg: destinations, in-place epilogues, borders, dimensions that are walked as one."""

from stepwell.passes.linalg import collapse_dimensions, fill_borders, remove_boundaries, use_destinations

__all__ = ["collapse_dimensions", "fill_borders", "remove_boundaries", "use_destinations"]
