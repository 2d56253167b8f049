"""Backends: their interface, their registry, the phases of passes that they share. A folder each holds the built-in ones."""
