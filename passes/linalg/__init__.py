"""Passes on linalg: destinations, in-place epilogues, schedules."""

from stepwell.passes.linalg import assign_schedules, collapse_dimensions, use_destinations

__all__ = ["assign_schedules", "collapse_dimensions", "use_destinations"]
