"""The command lines: `stepwell` and `stepwell-opt`."""
