"""Stands in for pnnx where torch is not installed."""

raise ImportError("No module named 'torch'")
