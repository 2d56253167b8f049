"""Targets: descriptions of machines, their registry, and the host."""
