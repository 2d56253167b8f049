"""Operators of the border: one function for each, whose signature is the operator's attributes; it returns functions to run and to infer types."""

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
"""The type of a value of the compiled part before compilation: some type of numbers."""


@dataclass(frozen=True)
class Group:
    """The base class of dataclasses whose fields are attributes of an operator, or, as an input parameter of an importer's rule, inputs in a row."""


def parts_of(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    """The inputs or attributes that a parameter stands for: the fields of a group, or the parameter itself."""
    fields = inspect.signature(parameter.annotation).parameters.values() if is_group(parameter) else [parameter]
    return [field.replace(kind=parameter.kind) for field in fields]


def is_group(parameter: inspect.Parameter) -> bool:
    """Whether a parameter stands for the fields of a group."""
    return isinstance(parameter.annotation, type) and issubclass(parameter.annotation, Group)


@dataclass(frozen=True)
class Kind:
    """The known properties of a value before a run: its type, its shape (or `UNRANKED`), and its array if it is a constant."""

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
        """The description of an input or output of this kind."""
        return TensorInfo(name, self.shape, self.dtype, self.form, keys=self.keys)

    @staticmethod
    def from_info(info: TensorInfo) -> "Kind":
        """The kind of an input or output."""
        return Kind(info.dtype, info.shape, info.form, info.keys)

    @staticmethod
    def constant(array: np.ndarray) -> "Kind":
        """The kind of a constant."""
        return Kind(array.dtype, array.shape, array=array)


@dataclass(frozen=True)
class Prepared:
    """An operator with its attributes. Both functions return one value or a tuple.

    `run` takes arrays (None for an absent input) and raises InputError for data that it refuses; `infer` takes the kinds of the inputs and raises
    ModelError or UnsupportedError.
    """

    run: Callable[..., Any]
    infer: Callable[..., Any]


@dataclass(frozen=True)
class Operator:
    """How nodes of one operator run in Python from opset `since` on, until an entry with a newer `since` replaces it."""

    name: str
    domain: str
    since: int
    function: Callable[..., Prepared]
    of_strings: bool | Callable[[Mapping[str, Any]], bool]
    """Whether a node handles strings or maps, whatever its inputs are; a function of its attributes if these decide."""

    def prepare(self, attributes: Mapping[str, Any]) -> Prepared:
        """The operator with attributes. Raises UnsupportedError or ModelError for invalid ones."""
        declared = inspect.signature(self.function).parameters
        parameters = {part.name: part for parameter in declared.values() for part in parts_of(parameter)}
        unknown = [name for name in attributes if name not in parameters]
        if unknown:
            raise UnsupportedError(f"attribute {unknown[0]} is not supported in Python; supported attributes: {', '.join(parameters) or 'none'}")
        missing = [name for name, p in parameters.items() if p.default is p.empty and name not in attributes]
        if missing:
            raise ModelError(f"without the attribute {missing[0]} it makes no sense")
        arguments = {name: value for name, value in attributes.items() if name in declared}
        for group in filter(is_group, declared.values()):
            fields = [part.name for part in parts_of(group) if part.name in attributes]
            arguments[group.name] = group.annotation(**{name: attributes[name] for name in fields})
        return self.function(**arguments)


_operators: dict[tuple[str, str], list[Operator]] = {}


def border_operator(
    name: str, *, since: int, domain: str = "", of_strings: bool | Callable[[Mapping[str, Any]], bool] = False
) -> Callable[[Function], Function]:
    """Register the decorated function as the Python implementation of operator `name`, from opset version `since` of `domain` on.

    The function takes the attributes by keyword (with a default for an optional one) and returns a `Prepared`; tables are built there, once. A node
    runs in Python if an input of it is strings or maps, or if `of_strings`, which may be a function of the attributes, says so. Raises StepwellError
    if there is one for that version.
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
    """The registered operators, by domain and name."""
    return _operators
