"""Passes that take work out of loops."""
