"""The border of a model: nodes with strings and maps that run in Python before and after the compiled code."""
