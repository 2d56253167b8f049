"""Passes on linalg: destinations, in-place epilogues, schedules."""
