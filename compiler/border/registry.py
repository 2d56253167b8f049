"""Operators of the border: one function for each, whose Python signature is the operator's attributes; it makes what runs and what infers types."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from stepwell.dialects.support.errors import ModelError, StepwellError, UnsupportedError
from stepwell.dialects.support.extensions import extension
from stepwell.signature import MAP, UNRANKED, TensorInfo, is_string

Function = TypeVar("Function", bound=Callable[..., "Prepared"])
Shape = tuple[int | str | None, ...]
NUMBER = np.dtype(np.void)
"""The type of a value that the compiled part makes, before that is compiled: some type of numbers."""


@dataclass(frozen=True)
class Kind:
    """What is known of a value before a run: its type, its shape (or `UNRANKED`), and its array if that is a constant."""

    dtype: np.dtype
    shape: Shape
    form: tuple[str, ...] = ()
    keys: np.dtype | None = None
    array: np.ndarray | None = None

    @property
    def is_foreign(self) -> bool:
        """Whether compiled code cannot take it: strings and maps."""
        return is_string(self.dtype) or MAP in self.form

    @property
    def rank(self) -> int | None:
        return None if self.shape == UNRANKED else len(self.shape)

    def with_shape(self, shape: Shape) -> "Kind":
        """A value of this type with another shape."""
        return replace(self, shape=shape, array=None)

    def info(self, name: str) -> TensorInfo:
        """The description of an input or output that is this."""
        return TensorInfo(name, self.shape, self.dtype, self.form, keys=self.keys)

    @staticmethod
    def of(info: TensorInfo) -> "Kind":
        """What an input or output is."""
        return Kind(info.dtype, info.shape, info.form, info.keys)

    @staticmethod
    def constant(array: np.ndarray) -> "Kind":
        """What a constant is."""
        return Kind(array.dtype, array.shape, array=array)


@dataclass(frozen=True)
class Prepared:
    """An operator with its attributes. `run` takes arrays (None for an input that is absent) and `infer` the kinds of them; both give one
    value or a tuple. `run` raises InputError for data that it does not take, `infer` ModelError or UnsupportedError."""

    run: Callable[..., Any]
    infer: Callable[..., Any]


@dataclass(frozen=True)
class Operator:
    """How nodes of one operator run in Python from opset `since` on, until an entry with a newer `since` takes over."""

    name: str
    domain: str
    since: int
    function: Callable[..., Prepared]
    of_strings: bool | Callable[[Mapping[str, Any]], bool]
    """Whether a node is of strings or maps, whatever its inputs are; a function of its attributes where these decide."""

    def prepare(self, attributes: Mapping[str, Any]) -> Prepared:
        """The operator with attributes. Raises UnsupportedError or ModelError for those that make no sense."""
        parameters = inspect.signature(self.function).parameters
        unknown = [name for name in attributes if name not in parameters]
        if unknown:
            raise UnsupportedError(f"attribute {unknown[0]} is not supported in Python; supported attributes: {', '.join(parameters) or 'none'}")
        missing = [name for name, p in parameters.items() if p.default is p.empty and name not in attributes]
        if missing:
            raise ModelError(f"without the attribute {missing[0]} it makes no sense")
        return self.function(**attributes)


_operators: dict[tuple[str, str], list[Operator]] = {}


def border_operator(
    name: str, *, since: int, domain: str = "", of_strings: bool | Callable[[Mapping[str, Any]], bool] = False
) -> Callable[[Function], Function]:
    """Register the decorated function as what operator `name` is in Python, from opset version `since` of `domain` on.

    The function takes the attributes by keyword (a default for an optional one) and returns a `Prepared`; tables are made there, once. A node runs
    in Python if an input of it is strings or maps, or where `of_strings`, which may be a function of the attributes, says so.
    Raises StepwellError if there is one for that version.
    """

    def register(function: Function) -> Function:
        entries = _operators.setdefault((domain, name), [])
        if any(entry.since == since for entry in entries):
            raise StepwellError(f"there is a border operator {name} for opset {since} of '{domain or 'ai.onnx'}' already")
        entries.append(Operator(name, domain, since, function, of_strings))
        extension(function)
        return function

    return register


def registered() -> Mapping[tuple[str, str], Sequence[Operator]]:
    """The operators that are registered, by domain and name."""
    return _operators
