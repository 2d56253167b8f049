"""The table of operators: families of them, and one function for each that has rules of its own."""

# ruff: noqa: F401  (imported to fill the table)
from random_graphs import (
    movement,
    pointwise,
    quantised,
    recurrent,
    reductions,
    selection,
    stateful,
    windows,
)
