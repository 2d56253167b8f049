"""Ranges of the elements of a tensor: the bounds that ops declare for their results, whatever the data are."""

import math
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from stepwell.dialects.core.types import is_float

Range: TypeAlias = tuple[float, float]
"""The smallest and the largest value, both included; NaN may occur besides."""
ANY: Range = (-math.inf, math.inf)


def union(ranges: Iterable[Range]) -> Range:
    """The smallest range that contains all of these ranges, of which there is at least one."""
    lows, highs = zip(*ranges, strict=True)
    return (min(lows), max(highs))


def clamped(x: Range, low: float, high: float) -> Range:
    """The range of `min(max(x, low), high)`."""
    return (min(max(x[0], low), high), min(max(x[1], low), high))


def of_integers(combine: Callable[[Range, Range], Range]) -> Any:
    """Make the `value_range` of a binary op: integer results are in the range `combine` returns; floats, which are rounded, may have any value."""

    def value_range(self: Any, lhs: Range, rhs: Range) -> Range:
        return ANY if is_float(self.result_types()[0].dtype) else combine(lhs, rhs)

    return value_range
