"""Rounds narrow floats only once, at the end of a composition of several ops."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from stepwell.border.registry import Group
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import compute_dtype, type_of
from stepwell.frontends.builder import ModelBuilder

Function = TypeVar("Function", bound=Callable[..., Any])


def computed_wide(block: Function) -> Function:
    """A function of a builder and values that computes narrow floats in their compute type and rounds its results, each once.

    Each op of the graph dialect rounds its own result. Without this, a composition of several would round in between, where a sum or a square
    overflows although the result fits.
    """

    return rounded_by(block, lambda b, results, narrow: [narrowed(b, value, narrow) for value in results])


def rounded_by(block: Function, round_results: Callable[[Any, Sequence[Any], str], Sequence[Any]]) -> Function:
    """A function like `computed_wide`; `round_results` gets the builder, the wide results and the narrow type, and returns the rounded ones."""

    @functools.wraps(block)
    def wrapped(b: ModelBuilder, *operands: Any, **attributes: Any) -> Any:
        narrow = narrow_type(operands)
        if narrow is None:
            return block(b, *operands, **attributes)
        made = block(b, *widened(b, operands), **attributes)
        return tuple(round_results(b, made, narrow)) if isinstance(made, (tuple, list)) else round_results(b, [made], narrow)[0]

    return wrapped  # type: ignore[return-value]  # functools.wraps hides the signature


def narrow_type(operands: Sequence[Any]) -> str | None:
    """The element type of the first operand, or field of a group, that is a narrow float; None if none is."""
    values = (value for v in operands for value in (vars(v).values() if isinstance(v, Group) else [v]))
    return next((type_of(v).dtype for v in values if is_narrow(v)), None)


def is_narrow(value: object) -> bool:
    """Whether an operand is a value whose elements are computed in a wider type."""
    return isinstance(value, ir.Value) and compute_dtype(type_of(value).dtype) != type_of(value).dtype


def widened(b: ModelBuilder, operands: Sequence[Any]) -> list[Any]:
    """The operands, those of narrow floats in the type that they are computed in, also within groups."""

    def wide(v: Any) -> Any:
        if isinstance(v, Group):
            return replace(v, **{name: wide(value) for name, value in vars(v).items()})
        return b.convert(v, compute_dtype(type_of(v).dtype)) if is_narrow(v) else v

    return [wide(v) for v in operands]


def narrowed(b: ModelBuilder, value: Any, dtype: str) -> Any:
    """A result rounded to `dtype` if it is in the type that this is computed in; any other unchanged."""
    return b.convert(value, dtype) if isinstance(value, ir.Value) and type_of(value).dtype == compute_dtype(dtype) else value
