"""The forms of sequences and optionals at the end of branches, and between iterations of a loop: as the tensors in them."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from onnx import GraphProto

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.support.errors import UnsupportedError
from stepwell.frontends.builder import Value
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.rules.boxed_sequences import ElementKind, in_boxes, kind_of
from stepwell.frontends.onnx.sequences import AnyValue, ListValue, Nothing, SequenceValue, described

Form: TypeAlias = "ElementKind | None"
"""The properties of the elements of a sequence in boxes; None for a value that stays unchanged."""


def parts_of(values: Iterable[AnyValue]) -> list[Value]:
    """The tensors in values, in order."""
    found: list[Value] = []
    for value in values:
        if isinstance(value, SequenceValue):
            found += value.parts
        elif isinstance(value, ir.Value):
            found.append(value)
    return found


def regrouped(like: Sequence[AnyValue], parts: Iterable[Value]) -> tuple[AnyValue, ...]:
    """Values with the same forms as those in `like`, made of other tensors: the inverse of `parts_of`."""
    rest = iter(parts)
    made: list[AnyValue] = []
    for value in like:
        if isinstance(value, SequenceValue):
            made.append(value.with_parts(rest))
        else:
            made.append(next(rest) if isinstance(value, ir.Value) else value)
    return tuple(made)


def met(b: ImportBuilder, one: AnyValue, other: AnyValue, what: str) -> Form:
    """The form that fits either of two values. Raises UnsupportedError, naming their origin as `what`, if there is none."""
    if isinstance(one, ListValue) and isinstance(other, ListValue) and len(one.elements) == len(other.elements) and one.dtype == other.dtype:
        return None
    if isinstance(one, SequenceValue) and isinstance(other, SequenceValue):
        return kind_of(b, one).joined(kind_of(b, other))
    if (isinstance(one, ir.Value) and isinstance(other, ir.Value)) or (isinstance(one, Nothing) and one == other):
        return None
    text = f"{what} {described(one)} or {described(other)}, as only the run decides, are not supported"
    raise UnsupportedError(f"{text}; supported: values that are both tensors, or both sequences")


def formed(b: ImportBuilder, values: Sequence[AnyValue], forms: Sequence[Form]) -> list[AnyValue]:
    """The values in these forms; sequences are put into boxes at the insertion point."""
    pairs = zip(values, forms, strict=True)
    return [in_boxes(b, v, form) if form is not None and isinstance(v, SequenceValue) else v for v, form in pairs]


def first_form(b: ImportBuilder, value: AnyValue, body: GraphProto, number: int) -> Form:
    """The form in which a loop carries its carried value of that number: boxes for a sequence whose length an iteration may change."""
    if not isinstance(value, SequenceValue):
        return None
    if isinstance(value, ListValue) and _keeps_length(body, number, len(value.elements)):
        return None
    return kind_of(b, value)


def _keeps_length(body: GraphProto, number: int, count: int) -> bool:
    """Whether an iteration keeps the length of a carried sequence of `count` elements, as far as its nodes show."""
    makers = {name: node for node in body.node for name in node.output}
    name, start, more = body.output[number + 1].name, body.input[number + 2].name, 0
    while name != start:
        node = makers.get(name)
        if node is None:
            return False
        if node.op_type == "SequenceConstruct":
            return len(node.input) + more == count
        if node.op_type not in _GROWTH or not node.input:
            return False
        more += _GROWTH[node.op_type]
        name = node.input[0]
    return more == 0


_GROWTH = {"Identity": 0, "SequenceInsert": 1, "SequenceErase": -1}
