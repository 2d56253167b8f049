"""Sequences of dynamic length: a row of numbers for each element, which holds its address and sizes (dialects/flow/boxes.py)."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stepwell.dialects.core.segments import BOX_ELEMENTS
from stepwell.dialects.core.sizes import Dim, Size
from stepwell.dialects.core.types import TensorType, type_of
from stepwell.dialects.flow.boxes import boxed, opened
from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.builder import Value, dims_of, normalized_axis
from stepwell.frontends.onnx.builder import ImportBuilder, NotResolvedError
from stepwell.frontends.onnx.rules.loops import loop_of
from stepwell.frontends.onnx.sequences import ListValue, SequenceValue
from stepwell.signature import BOXES


@dataclass(frozen=True)
class ElementKind:
    """The common properties of all elements of a sequence: their element type, and the sizes that they share, None for others."""

    dtype: str
    shape: tuple[Dim, ...] | None = None
    """None as long as there was no element."""

    @staticmethod
    def from_type(b: ImportBuilder, x: TensorType) -> "ElementKind":
        """The kind of one tensor. Symbols that become known while the model runs differ between elements."""
        return ElementKind(x.dtype, tuple(size if b.symbols.are_of_inputs([size]) else None for size in x.shape))

    def joined(self, other: "ElementKind") -> "ElementKind":
        """The kind of the elements of both. Raises ModelError for another element type, NotResolvedError for another rank."""
        if self.dtype != other.dtype:
            raise ModelError(f"the elements of a sequence must have one type: expected {self.dtype}, got {other.dtype}")
        if self.shape is None or other.shape is None:
            return other if self.shape is None else self
        if len(self.shape) != len(other.shape):
            ranks = f"{len(self.shape)} and {len(other.shape)}"
            raise NotResolvedError(
                f"elements of the ranks {ranks} in a sequence whose length only the run tells are not supported; supported: one rank"
            )
        return replace(self, shape=tuple(a if a == b else None for a, b in zip(self.shape, other.shape, strict=True)))


@dataclass(frozen=True)
class BoxedSequence(SequenceValue):
    """A sequence of any length, of elements of one rank: a row of `rows` (`tensor<n x 9 x i64>`) is the box of an element."""

    kind: ElementKind
    rows: Value

    held = BOXES

    @property
    def dtype(self) -> str:  # type: ignore[override]  # a field there, computed here
        return self.kind.dtype

    @property
    def parts(self) -> tuple[Value, ...]:
        return (self.rows,)

    def with_parts(self, parts: Iterator[Value]) -> "BoxedSequence":
        return replace(self, rows=next(parts))

    def length(self, b: ImportBuilder) -> Value:
        return b.with_shape(b.sizes(values=(self._count,)), ())

    def element_at(self, b: ImportBuilder, position: Value) -> Value:
        place, _ = self._bound(b, position, self._count - 1)
        return self._opened(b, self._rows(b, place, 1), self._sizes(b))

    def inserted(self, b: ImportBuilder, x: Value, position: Value | None) -> "BoxedSequence":
        kind = self.kind.joined(ElementKind.from_type(b, type_of(x)))
        row = _row(b, x)
        if position is None:
            return BoxedSequence(kind, b.concat([self.rows, row], axis=0))
        place, after = self._bound(b, position, self._count)
        return BoxedSequence(kind, b.concat([self._rows(b, 0, place), row, self._rows(b, place, after)], axis=0))

    def erased(self, b: ImportBuilder, position: Value | None) -> "BoxedSequence":
        place, after = self._bound(b, b.literal(np.array(-1, np.int64)) if position is None else position, self._count - 1)
        return replace(self, rows=b.concat([self._rows(b, 0, place), self._rows(b, place + 1, after)], axis=0))

    def concatenated(self, b: ImportBuilder, axis: int, *, new_axis: bool) -> Value:
        first = self.element_at(b, b.literal(np.array(0, np.int64)))
        sizes, rank = dims_of(first), type_of(first).rank
        axis = normalized_axis(axis, rank + new_axis)
        if not new_axis and not b.symbols.are_of_inputs([(self.kind.shape or (None,) * rank)[axis]]):
            return self._grown(b, first, axis)

        def rounds(number: Value, going_on: Value, known: Value) -> tuple[Value, ...]:
            return going_on, known, self._opened(b, b.at_round(self.rows, number, axis=0, backwards=False), sizes)

        _, joined = _looped(b, self.length(b), [first], rounds)  # carrying one determines the sizes that each iteration collects
        joined = b.transposed(joined, [*range(1, axis + 1), 0, *range(axis + 1, rank + 1)])
        if new_axis:
            return joined
        shape = dims_of(joined)
        return b.with_shape(joined, (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))

    def element(self, b: ImportBuilder, number: Value) -> Value:
        """The element at an index that is known to be within the sequence."""
        return self._opened(b, b.at_round(self.rows, number, axis=0, backwards=False), self._sizes(b))

    @property
    def _count(self) -> int | Size:
        return dims_of(self.rows)[0]

    def _rows(self, b: ImportBuilder, start: int | Size, size: int | Size) -> Value:
        return b.slice(self.rows, starts=(start, 0), sizes=(size, -1), steps=(1, 1))

    def _bound(self, b: ImportBuilder, position: Value, last: int | Size) -> tuple[Size, Size]:
        """A position, counted from the front, and its distance from `last`, as symbols: the run checks both before they are used."""
        count = b.with_shape(b.sizes(values=(self._count,)), ())
        position = b.convert(b.with_shape(position, ()), "i64")
        place = b.select(b.less(position, b.scalar(0, like=position)), b.add(position, count), position)
        ahead = b.sub(count, place) if last == self._count else b.sub(count, b.add(place, b.scalar(1, like=place)))
        symbol, behind = b.symbols.fresh("position"), b.symbols.fresh("elements_after_position")
        b.bind_sizes(b.concat([b.with_shape(place, (1,)), b.with_shape(ahead, (1,))], axis=0), sizes=(symbol, behind))
        return symbol, behind

    def _sizes(self, b: ImportBuilder) -> tuple[int | Size, ...]:
        """The sizes of an element, with new symbols for those that differ. Raises NotResolvedError if the rank is unknown."""
        shape = self.kind.shape
        if shape is None:
            said = b.node.output_types[0] if b.node.output_types else None
            if said is None:
                raise NotResolvedError(
                    "elements of a sequence of which nothing says the rank are not supported; supported: a sequence type with a shape"
                )
            shape = (None,) * said.rank
        name = next(filter(None, b.node.output_names), "element")
        return dims_of_type(b.symbols.completed(name, TensorType(self.dtype, shape)))

    def _opened(self, b: ImportBuilder, row: Value, sizes: Sequence[int | Size]) -> Value:
        return opened(b, b.with_shape(row, (BOX_ELEMENTS,)), self.dtype, sizes)

    def _grown(self, b: ImportBuilder, first: Value, axis: int) -> Value:
        """The elements joined one by one, since each has its own size along the axis."""
        others = [size for i, size in enumerate(dims_of(first)) if i != axis]

        def rounds(number: Value, going_on: Value, joined: Value) -> tuple[Value, ...]:
            row = b.at_round(self.rows, b.add(number, b.scalar(1, like=number)), axis=0, backwards=False)
            own = b.symbols.fresh("element")
            return going_on, b.concat([joined, self._opened(b, row, (*others[:axis], own, *others[axis:]))], axis=axis)

        count = self.length(b)
        (joined,) = _looped(b, b.sub(count, b.scalar(1, like=count)), [first], rounds)
        return joined


def dims_of_type(tensor: TensorType) -> tuple[int | Size, ...]:
    """The sizes of a type in which each is known or has a symbol."""
    return tuple(size for size in tensor.shape if size is not None)


def kind_of(b: ImportBuilder, sequence: SequenceValue) -> ElementKind:
    """The common properties of all elements."""
    if isinstance(sequence, BoxedSequence):
        return sequence.kind
    kind = ElementKind(sequence.dtype)
    for x in sequence.elements if isinstance(sequence, ListValue) else ():
        kind = kind.joined(ElementKind.from_type(b, type_of(x)))
    return kind


def in_boxes(b: ImportBuilder, sequence: SequenceValue, kind: ElementKind) -> BoxedSequence:
    """The sequence as rows of boxes, with these properties."""
    if isinstance(sequence, BoxedSequence):
        return replace(sequence, kind=kind)
    elements = sequence.elements if isinstance(sequence, ListValue) else ()
    rows = [_row(b, x) for x in elements] or [no_rows(b)]
    return BoxedSequence(kind, b.concat(rows, axis=0) if len(rows) > 1 else rows[0])


def boxed_by(b: ImportBuilder, count: Value, make: Callable[[Value], Sequence[Value]], outputs: int = 1) -> list[BoxedSequence]:
    """Sequences of `count` elements each: the results of `make` for each index from 0."""
    kinds: list[ElementKind] = []

    def rounds(number: Value, going_on: Value, *rows: Value) -> tuple[Value, ...]:
        made = make(number)
        kinds[:] = [ElementKind.from_type(b, type_of(x)) for x in made]
        return going_on, *(b.concat([before, _row(b, x)], axis=0) for before, x in zip(rows, made, strict=True))

    results = _looped(b, count, [no_rows(b)] * outputs, rounds, range(outputs))
    return [BoxedSequence(kind, rows) for kind, rows in zip(kinds, results, strict=True)]


def no_rows(b: ImportBuilder) -> Value:
    """The rows of an empty sequence."""
    return b.literal(np.zeros((0, BOX_ELEMENTS), np.int64))


def _row(b: ImportBuilder, x: Value) -> Value:
    return b.with_shape(boxed(b, x), (1, BOX_ELEMENTS))


def _looped(
    b: ImportBuilder, count: Value, initial: Sequence[Value], rounds: Callable[..., tuple[Value, ...]], growing: Collection[int] = ()
) -> tuple[Value, ...]:
    with b.at_node(replace(b.node, output_names=(), output_types=())):
        results, _ = loop_of(b, count, b.literal(np.array(True)), initial, rounds, growing)
    return results
