"""Rules for sequences: what is done to one of known length is done while the model is imported."""

from collections.abc import Sequence

from onnx import GraphProto

from stepwell.dialects.core.sizes import Size
from stepwell.dialects.core.types import type_of
from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.importer.builder import ImportBuilder, NotConstantError, Value, dims_of, normalized_axis
from stepwell.importer.registry import onnx_rule
from stepwell.importer.rules.layout import parts_that_fit
from stepwell.importer.rules.slicing import split_axis, without_axes
from stepwell.importer.sequences import ListValue, SequenceValue, tensors
from stepwell.importer.source import nested_nodes
from stepwell.importer.tensors import our_dtype


@onnx_rule("SequenceConstruct", since=11)
def sequence_construct(b: ImportBuilder, *elements: Value) -> SequenceValue:
    if not elements:
        raise ModelError("it must have an input at least; SequenceEmpty makes a sequence of none")
    return ListValue.of(elements)


@onnx_rule("SequenceEmpty", since=11)
def sequence_empty(b: ImportBuilder, *, dtype: int = 1) -> SequenceValue:
    return ListValue(our_dtype(dtype))


@onnx_rule("SequenceInsert", since=11)
def sequence_insert(b: ImportBuilder, sequence: SequenceValue, x: Value, position: Value | None = None) -> SequenceValue:
    return sequence.inserted(b, x, position)


@onnx_rule("SequenceErase", since=11)
def sequence_erase(b: ImportBuilder, sequence: SequenceValue, position: Value | None = None) -> SequenceValue:
    return sequence.erased(b, position)


@onnx_rule("SequenceAt", since=11)
def sequence_at(b: ImportBuilder, sequence: SequenceValue, position: Value) -> Value:
    return sequence.at(b, position)


@onnx_rule("SequenceLength", since=11)
def sequence_length(b: ImportBuilder, sequence: SequenceValue) -> Value:
    return sequence.length(b)


@onnx_rule("ConcatFromSequence", since=11)
def concat_from_sequence(b: ImportBuilder, sequence: SequenceValue, *, axis: int, new_axis: int = 0) -> Value:
    return sequence.concatenated(b, axis, new_axis=bool(new_axis))


@onnx_rule("SplitToSequence", since=11)
def split_to_sequence(b: ImportBuilder, x: Value, split: Value | None = None, *, axis: int = 0, keepdims: int = 1) -> SequenceValue:
    axis = normalized_axis(axis, type_of(x).rank)
    if split is not None and type_of(split).rank > 0:
        parts = split_axis(b, x, axis, parts_that_fit(b.known_or_symbolic(split, "the sizes of the parts"), x, axis))
    else:
        chunk = 1 if split is None else int(b.known_scalar(split, "the size of the parts"))
        parts = split_axis(b, x, axis, equal_parts(x, axis, chunk))
        if split is None and not keepdims:
            parts = [without_axes(b, part, [axis]) for part in parts]
    return ListValue(type_of(x).dtype, tuple(parts))


def equal_parts(x: Value, axis: int, chunk: int) -> Sequence[int | Size]:
    """The sizes of parts of `chunk` elements along an axis, of which the last may be smaller."""
    size = dims_of(x)[axis]
    if chunk < 1:
        raise ModelError(f"the size of the parts must be from 1, got {chunk}")
    if not isinstance(size, int):
        text = f"axis {axis} of {type_of(x)} in parts of {chunk}, whose number only the run tells, is not supported; supported: an axis of known size"
        raise NotConstantError(text, sizes=[size])
    return [min(chunk, size - start) for start in range(0, size, chunk)]


@onnx_rule("SequenceMap", since=17)
def sequence_map(b: ImportBuilder, sequence: SequenceValue, *others: Value | SequenceValue, body: GraphProto) -> tuple[SequenceValue, ...]:
    taken = [sequence, *others]
    lists = [one for one in taken if isinstance(one, ListValue)]
    count = len(lists[0].elements)
    if any(len(one.elements) != count for one in lists):
        raise ModelError(f"its sequences must have one length, got {', '.join(str(len(one.elements)) for one in lists)}")
    objection = b.unroll(count, sum(1 for _ in nested_nodes(body.node)))
    if objection is not None:
        raise UnsupportedError(objection)
    made = [
        tensors(b.node.import_graph(body, [one.elements[i] if isinstance(one, ListValue) else one for one in taken]), "the outputs of its body")
        for i in range(count)
    ]
    return tuple(
        ListValue.of([values[i] for values in made]) if made else ListValue(our_dtype(output.type.tensor_type.elem_type))
        for i, output in enumerate(body.output)
    )
