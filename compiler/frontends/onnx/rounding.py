"""Rounds narrow floats only once, at the end, in operators that are imported as several ops."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from stepwell.dialects.core.types import TensorType
from stepwell.frontends.blocks import rounding
from stepwell.frontends.blocks.rounding import narrow_type, widened
from stepwell.frontends.onnx.builder import ImportBuilder

Function = TypeVar("Function", bound=Callable[..., Any])


def rounded_once(rule: Function) -> Function:
    """A rule that computes f16 and bf16 in f32 and rounds its results to the narrow type, once each (see `computed_wide`).

    A result in f32 is not rounded if ONNX infers that the output is f32.
    """

    @functools.wraps(rule)
    def wrapped(b: ImportBuilder, *inputs: Any, **attributes: Any) -> Any:
        narrow = narrow_type(inputs)
        if narrow is None:
            return rule(b, *inputs, **attributes)
        made = rule(b, *widened(b, inputs), **attributes)
        if isinstance(made, (tuple, list)):
            return narrowed(b, made, narrow, b.node.output_types)
        return narrowed(b, [made], narrow, b.node.output_types)[0]

    return wrapped  # type: ignore[return-value]  # functools.wraps hides the signature


def narrowed(b: ImportBuilder, results: Sequence[Any], narrow: str, types: Sequence[TensorType | None]) -> tuple[Any, ...]:
    """The results, those in f32 rounded to the type that ONNX infers (`types`, None without an inferred type) or else to the narrow type."""
    inferred = [*types, *[None] * (len(results) - len(types))]
    return tuple(rounding.narrowed(b, value, narrow if kind is None else kind.dtype) for value, kind in zip(results, inferred, strict=False))
