"""The parts of scripts/bench.py: engines in processes of their own, what is measured, and how it is shown."""
