"""Passes on quantised networks: which of their ops are computed in integers."""
