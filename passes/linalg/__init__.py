"""Passes on linalg: destination-passing style, in-place epilogues, borders, collapsed dimensions."""

from stepwell.passes.linalg import collapse_dimensions, fill_borders, remove_boundaries, share_destinations, use_destinations

__all__ = ["collapse_dimensions", "fill_borders", "remove_boundaries", "share_destinations", "use_destinations"]
