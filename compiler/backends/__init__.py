"""Backends: their interface, their registry, and the phases of passes that they share. Each built-in one has a folder."""
