"""Ranges of the elements of a tensor: what ops say of their results, whatever the data are."""

import math
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from stepwell.dialects.core.types import is_float

Range: TypeAlias = tuple[float, float]
"""The least and the greatest value, both included; NaN may come beside it."""
ANY: Range = (-math.inf, math.inf)


def union(ranges: Iterable[Range]) -> Range:
    """The least range that holds all of these, of which there is at least one."""
    lows, highs = zip(*ranges, strict=True)
    return (min(lows), max(highs))


def clamped(x: Range, low: float, high: float) -> Range:
    """The range of `min(max(x, low), high)`."""
    return (min(max(x[0], low), high), min(max(x[1], low), high))


def of_integers(combine: Callable[[Range, Range], Range]) -> Any:
    """The `value_range` of a binary op whose integer results lie where `combine` says; floats, which are rounded, lie anywhere."""

    def value_range(self: Any, lhs: Range, rhs: Range) -> Range:
        return ANY if is_float(self.result_types()[0].dtype) else combine(lhs, rhs)

    return value_range
