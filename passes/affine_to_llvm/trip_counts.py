"""Trip counts of loops with constant bounds."""

from collections.abc import Sequence

from stepwell.dialects.core.mlir import ir, known_index


def trip_count(bounds: Sequence[ir.Value]) -> int | None:
    """The trip count of a loop from its lower bound, upper bound and step; None if one of them is not a constant."""
    low, high, step = map(known_index, bounds)
    if low is None or high is None or step is None:
        return None
    return max(0, -(-(high - low) // step))
