"""Passes that move work out of loops."""
