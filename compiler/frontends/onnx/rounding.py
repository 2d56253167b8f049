"""Operators that are imported as several ops round narrow floats once, at the end."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from stepwell.dialects.core.dtypes import HALVES
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import TensorType, type_of
from stepwell.frontends.onnx.builder import ImportBuilder

Function = TypeVar("Function", bound=Callable[..., Any])

WIDE = "f32"  # what halves are computed in


def rounded_once(rule: Function) -> Function:
    """A rule that computes f16 and bf16 in f32 and rounds its results to the narrow type, each once.

    Each op of the graph dialect rounds its own result. Without this, an operator that takes several of them would round in between, where a
    sum or a square overflows although what is made of it fits. A result in f32 is rounded unless ONNX infers that the output is f32.
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

    return wrapped  # type: ignore[return-value]


def narrow_type(inputs: Sequence[Any]) -> str | None:
    """The element type of the first of a node's inputs that is a narrow float; None if none is."""
    return next((type_of(v).dtype for v in inputs if isinstance(v, ir.Value) and type_of(v).dtype in HALVES), None)


def widened(b: ImportBuilder, inputs: Sequence[Any]) -> list[Any]:
    """The inputs, those of narrow floats in f32."""
    return [b.convert(v, WIDE) if isinstance(v, ir.Value) and type_of(v).dtype in HALVES else v for v in inputs]


def narrowed(b: ImportBuilder, results: Sequence[Any], narrow: str, types: Sequence[TensorType | None]) -> tuple[Any, ...]:
    """The results, those in f32 rounded to what ONNX infers (`types`, None where it infers nothing) or else to the narrow type."""
    found = []
    for i, value in enumerate(results):
        inferred = types[i] if i < len(types) else None
        is_wide = isinstance(value, ir.Value) and type_of(value).dtype == WIDE
        found.append(b.convert(value, narrow if inferred is None else inferred.dtype) if is_wide else value)
    return tuple(found)
