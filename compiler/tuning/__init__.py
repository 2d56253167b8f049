"""Measured tuning: searches the choices of a compilation for faster ones, measures them in place, and writes a plan."""
