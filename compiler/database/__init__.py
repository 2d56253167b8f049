"""Tuning records in SQLite: what was tried on which machine, how long it took, and what was decided."""
