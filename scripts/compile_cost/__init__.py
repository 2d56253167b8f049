"""What commands cost: CPU seconds of all their processes, by part, and how they compare between two checkouts."""
