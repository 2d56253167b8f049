"""The cost of commands: CPU seconds of all their processes, by part, and compared between two checkouts."""
