"""Sequences and optionals during import: they disappear if their length, or whether they have a value, is known."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import type_of
from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.builder import Value, dims_of, normalized_axis
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.signature import LIST


class SequenceValue(ABC):
    """A sequence of tensors of one element type, each with its own shape."""

    dtype: str
    held: str
    """How an output of a model consists of it, as in `OutputGroup`."""

    @property
    @abstractmethod
    def parts(self) -> tuple[Value, ...]:
        """The tensors of which it consists in IR."""

    @abstractmethod
    def with_parts(self, parts: Iterator[Value]) -> "SequenceValue":
        """A sequence of the same form, made of the next of these tensors."""

    @abstractmethod
    def length(self, b: ImportBuilder) -> Value:
        """The number of elements, a scalar of i64."""

    @abstractmethod
    def element_at(self, b: ImportBuilder, position: Value) -> Value:
        """The element at a position, from the end if negative. Raises ModelError if there is none; if unknown, the run checks it."""

    @abstractmethod
    def inserted(self, b: ImportBuilder, x: Value, position: Value | None) -> "SequenceValue":
        """The sequence with `x` before that position, or at the end. Raises ModelError for a position that does not exist or another type."""

    @abstractmethod
    def erased(self, b: ImportBuilder, position: Value | None) -> "SequenceValue":
        """The sequence without the element at that position, or without the last. Raises ModelError if there is none."""

    @abstractmethod
    def concatenated(self, b: ImportBuilder, axis: int, *, new_axis: bool) -> Value:
        """The elements joined along an axis, which may be a new one of size 1 in each. Raises ModelError if there are none."""


@dataclass(frozen=True)
class ListValue(SequenceValue):
    """A sequence of known length: each element is a separate value."""

    dtype: str
    elements: tuple[Value, ...] = ()
    held = LIST

    @property
    def parts(self) -> tuple[Value, ...]:
        return self.elements

    def with_parts(self, parts: Iterator[Value]) -> "ListValue":
        return replace(self, elements=tuple(itertools.islice(parts, len(self.elements))))

    @staticmethod
    def from_elements(elements: Sequence[Value]) -> "ListValue":
        """The sequence of these elements, of which there is at least one. Raises ModelError if their element types differ."""
        found = ListValue(type_of(elements[0]).dtype, tuple(elements))
        for x in elements:
            found.check_type(x)
        return found

    def check_type(self, x: Value) -> None:
        """Raise ModelError unless `x` has the element type."""
        if type_of(x).dtype != self.dtype:
            raise ModelError(f"the elements of a sequence must have one type: expected {self.dtype}, got {type_of(x)}")

    def length(self, b: ImportBuilder) -> Value:
        return b.literal(np.array(len(self.elements), np.int64))

    def element_at(self, b: ImportBuilder, position: Value) -> Value:
        if b.constant_value(position) is not None:
            return self.elements[self._place(b, position, len(self.elements))]
        if not self.elements:
            raise ModelError("its sequence has no elements, so that no position exists")
        return b.gather(self.concatenated(b, 0, new_axis=True), b.with_shape(position, ()), axis=0)

    def inserted(self, b: ImportBuilder, x: Value, position: Value | None) -> "ListValue":
        self.check_type(x)
        count = len(self.elements)
        place = count if position is None else self._place(b, position, count + 1, lowest=-count)
        return replace(self, elements=(*self.elements[:place], x, *self.elements[place:]))

    def erased(self, b: ImportBuilder, position: Value | None) -> "ListValue":
        count = len(self.elements)
        if not count:
            raise ModelError("its sequence has no element to erase")
        place = count - 1 if position is None else self._place(b, position, count)
        return replace(self, elements=(*self.elements[:place], *self.elements[place + 1 :]))

    @property
    def is_uniform(self) -> bool:
        """Whether the elements have the same type."""
        return len(set(map(type_of, self.elements))) <= 1

    def concatenated(self, b: ImportBuilder, axis: int, *, new_axis: bool) -> Value:
        if not self.elements:
            raise ModelError("its sequence has no elements to concatenate")
        axis = normalized_axis(axis, type_of(self.elements[0]).rank + new_axis)
        parts = [b.with_shape(x, (*dims_of(x)[:axis], 1, *dims_of(x)[axis:])) for x in self.elements] if new_axis else list(self.elements)
        return b.concat(parts, axis=axis) if len(parts) > 1 else parts[0]

    def _place(self, b: ImportBuilder, position: Value, end: int, lowest: int | None = None) -> int:
        """A position below `end`, counted from the front; those from the end begin at `lowest`."""
        lowest = -end if lowest is None else lowest
        place = int(b.known_scalar(position, "the position"))
        if not lowest <= place < end:
            allowed = f"must be from {lowest} to {end - 1}" if end else "does not exist"
            raise ModelError(f"the position {allowed} in a sequence of {len(self.elements)} elements, got {place}")
        return place + len(self.elements) if place < 0 else place


@dataclass(frozen=True)
class Nothing:
    """An empty optional that might hold a tensor of that element type, or a sequence of such."""

    dtype: str
    of_sequence: bool = False


AnyValue: TypeAlias = ir.Value | SequenceValue | Nothing


def described(value: AnyValue) -> str:
    """The kind of a value, for messages."""
    if isinstance(value, ListValue):
        return f"a sequence of {len(value.elements)} elements"
    if isinstance(value, SequenceValue):
        return "a sequence"
    return "an optional that holds nothing" if isinstance(value, Nothing) else f"a tensor ({type_of(value)})"


def tensors(values: Sequence[AnyValue], what: str) -> list[Value]:
    """The values, which must be tensors. Raises ModelError, naming them as `what`, if one is not."""
    wrong = next((value for value in values if not isinstance(value, ir.Value)), None)
    if wrong is not None:
        raise ModelError(f"{what} must be tensors, got {described(wrong)}")
    return [value for value in values if isinstance(value, ir.Value)]
