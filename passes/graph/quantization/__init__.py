"""Passes on quantised networks, which decide which ops are computed in integers."""
