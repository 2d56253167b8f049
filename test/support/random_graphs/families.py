"""The table of operators: families of them, and one function for each that has rules of its own."""

from random_graphs import movement, pointwise, reductions, windows  # noqa: F401  (fill the table)
