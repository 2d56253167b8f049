"""Lowerings of the dialect `packed`."""
