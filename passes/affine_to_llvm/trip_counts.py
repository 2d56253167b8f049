"""How often loops go round, where their bounds are constants."""

from collections.abc import Sequence

from stepwell.dialects.core.mlir import defining_op, ir

__all__ = ["trip_count"]


def trip_count(bounds: Sequence[ir.Value]) -> int | None:
    """The number of iterations of a loop from a first bound up to a second by a third; None if one of them is no constant."""
    numbers = []
    for value in bounds:
        made = defining_op(value)
        if made is None or made.name != "arith.constant":
            return None
        numbers.append(ir.IntegerAttr(made.attributes["value"]).value)
    low, high, step = numbers
    return max(0, -(-(high - low) // step))
