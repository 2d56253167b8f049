"""Schedules: the space they are taken from, what they cost, the default ones, and loops that ops share; importing this registers the passes."""

from stepwell.passes.schedule import assign_schedules, fuse_loops

__all__ = ["assign_schedules", "fuse_loops"]
