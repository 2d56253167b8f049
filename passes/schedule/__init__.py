"""Schedules: their space, cost model, defaults and search, and loop fusion; importing this registers the passes."""

from stepwell.passes.schedule import assign_schedules, fuse_loops, version_kernels

__all__ = ["assign_schedules", "fuse_loops", "version_kernels"]
