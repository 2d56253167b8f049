"""The registry of functions of the math dialect with expansions of our own, and their largest errors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from stepwell.dialects.support.extensions import extension
from stepwell.passes.affine_to_llvm.vector_math.lanes import Floats


@dataclass(frozen=True)
class Expansion:
    """The expansion of one op of the math dialect on f32."""

    op: str
    function: Callable[..., Floats]
    """Maps the operands to the result; its docstring explains the method."""
    ulps: float
    """The largest error over all operands, in units of the last place of the exact result, as scripts/check_vector_math.py finds it."""


EXPANSIONS: dict[str, Expansion] = {}
C = TypeVar("C", bound=Callable[..., Floats])


def expands(op: str, *, ulps: float) -> Callable[[C], C]:
    """Register a function as the expansion of `op`."""

    def add(function: C) -> C:
        EXPANSIONS[op] = Expansion(op, function, ulps)
        extension(function, code_generation=True)
        return function

    return add
