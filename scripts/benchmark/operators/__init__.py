"""The operators that are compared one by one, at sizes that networks have: a file for each family."""

import re
from collections.abc import Iterator

from benchmark.jobs import Failure
from benchmark.operators import (
    attention,
    classical,
    convolutions,
    elementwise,
    movement,
    normalizations,
    pooling,
    products,
    quantized,
    recurrent,
    reductions,
    sampling,
    selection,
)
from benchmark.operators.case import Case

__all__ = ["Case", "all_cases", "select"]

FAMILIES = (
    recurrent, attention, normalizations, elementwise, reductions, movement, pooling, sampling, convolutions, products, selection,
    quantized, classical,
)  # fmt: skip


def all_cases() -> Iterator[Case]:
    """Every case, in the order they are shown in."""
    for family in FAMILIES:
        yield from family.cases()


def select(pattern: str = "") -> list[Case]:
    """The cases whose operator, shape or origin the regular expression is found in, whatever the case of letters. Raises Failure for none."""
    try:
        matcher = re.compile(pattern, re.IGNORECASE)
    except re.error as error:
        raise Failure(f"'{pattern}' is no regular expression: {error}") from None
    found = [case for case in all_cases() if matcher.search(f"{case.operator} {case.shape} ({case.origin})")]
    if not found:
        raise Failure(f"no operator, shape or origin matches '{pattern}'")
    return found
