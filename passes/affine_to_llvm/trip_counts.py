"""How often loops go round, where their bounds are constants."""

from collections.abc import Sequence

from stepwell.dialects.core.mlir import ir, known_index

__all__ = ["trip_count"]


def trip_count(bounds: Sequence[ir.Value]) -> int | None:
    """The number of iterations of a loop from a first bound up to a second by a third; None if one of them is no constant."""
    low, high, step = map(known_index, bounds)
    if low is None or high is None or step is None:
        return None
    return max(0, -(-(high - low) // step))
