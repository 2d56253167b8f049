"""Passes on linalg: destinations, in-place epilogues, shared loops, schedules."""

from stepwell.passes.linalg import assign_schedules, collapse_dimensions, fill_borders, remove_boundaries, share_loops, use_destinations

__all__ = ["assign_schedules", "collapse_dimensions", "fill_borders", "remove_boundaries", "share_loops", "use_destinations"]
