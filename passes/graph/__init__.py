"""Passes on the graph dialect: folding, simplification, fusion, outlining."""
