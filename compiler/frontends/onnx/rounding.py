"""Rounds narrow floats only once, at the end, in operators that are imported as several ops."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from stepwell.dialects.core.types import TensorType
from stepwell.frontends.blocks import rounding
from stepwell.frontends.blocks.rounding import rounded_by
from stepwell.frontends.onnx.builder import ImportBuilder

Function = TypeVar("Function", bound=Callable[..., Any])


def rounded_once(rule: Function) -> Function:
    """A rule that computes f16 and bf16 in f32 and rounds its results to the narrow type, once each (see `computed_wide`).

    A result in f32 is not rounded if ONNX infers that the output is f32.
    """

    return rounded_by(rule, lambda b, results, narrow: narrowed(b, results, narrow, b.node.output_types))


def narrowed(b: ImportBuilder, results: Sequence[Any], narrow: str, types: Sequence[TensorType | None]) -> tuple[Any, ...]:
    """The results, those in f32 rounded to the type that ONNX infers (`types`, None without an inferred type) or else to the narrow type."""
    inferred = [*types, *[None] * (len(results) - len(types))]
    return tuple(rounding.narrowed(b, value, narrow if kind is None else kind.dtype) for value, kind in zip(results, inferred, strict=False))
