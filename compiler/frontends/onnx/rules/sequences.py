"""Rules for sequences and optionals. Operations on sequences of known length are done at import, and so are all on optionals."""

from collections.abc import Sequence

import numpy as np
from onnx import GraphProto, TypeProto

from stepwell.dialects.core.types import type_of
from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.frontends.blocks.slicing import size_scalar, slice_axis, split_axis, with_new_axes, without_axes
from stepwell.frontends.builder import Value, dims_of, normalized_axis
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import onnx_rule
from stepwell.frontends.onnx.rules.boxed_sequences import BoxedSequence, boxed_by, in_boxes, kind_of
from stepwell.frontends.onnx.rules.layout import parts_that_fit
from stepwell.frontends.onnx.sequences import AnyValue, ListValue, Nothing, SequenceValue, tensors
from stepwell.frontends.onnx.tensors import our_dtype
from stepwell.frontends.onnx.walking import nested_nodes


@onnx_rule("SequenceConstruct", since=11)
def sequence_construct(b: ImportBuilder, *elements: Value) -> SequenceValue:
    if not elements:
        raise ModelError("it must have an input at least; SequenceEmpty makes a sequence of none")
    return ListValue.from_elements(elements)


@onnx_rule("SequenceEmpty", since=11)
def sequence_empty(b: ImportBuilder, *, dtype: int = 1) -> SequenceValue:
    return ListValue(our_dtype(dtype))


@onnx_rule("SequenceInsert", since=11)
def sequence_insert(b: ImportBuilder, sequence: SequenceValue, x: Value, position: Value | None = None) -> SequenceValue:
    return placed(b, sequence, position).inserted(b, x, position)


@onnx_rule("SequenceErase", since=11)
def sequence_erase(b: ImportBuilder, sequence: SequenceValue, position: Value | None = None) -> SequenceValue:
    return placed(b, sequence, position).erased(b, position)


@onnx_rule("SequenceAt", since=11)
def sequence_at(b: ImportBuilder, sequence: SequenceValue, position: Value) -> Value:
    if isinstance(sequence, ListValue) and sequence.is_uniform:
        return sequence.element_at(b, position)
    return placed(b, sequence, position).element_at(b, position)


def placed(b: ImportBuilder, sequence: SequenceValue, position: Value | None) -> SequenceValue:
    """The sequence in a form that supports that position: of known length only if the position is known, or code is specialised for its value."""
    if isinstance(sequence, ListValue) and position is not None and b.constant_value(position) is None:
        b.require_if_given([position], "the position")
        return in_boxes(b, sequence, kind_of(b, sequence))
    return sequence


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
        if not isinstance(type_of(split).shape[0], int):
            return parts_of_sizes(b, x, axis, split)
        parts = split_axis(b, x, axis, parts_that_fit(b.bound_sizes(split, "the sizes of the parts"), x, axis))
    else:
        chunk = 1 if split is None else int(b.known_scalar(split, "the size of the parts"))
        if chunk < 1:
            raise ModelError(f"the size of the parts must be from 1, got {chunk}")
        squeezed, size = split is None and not keepdims, dims_of(x)[axis]
        if not isinstance(size, int):
            return free_parts(b, x, axis, chunk, squeezed=squeezed)
        parts = split_axis(b, x, axis, [min(chunk, size - start) for start in range(0, size, chunk)])
        if squeezed:
            parts = [without_axes(b, part, [axis]) for part in parts]
    return ListValue(type_of(x).dtype, tuple(parts))


def free_parts(b: ImportBuilder, x: Value, axis: int, chunk: int, *, squeezed: bool) -> SequenceValue:
    """Parts of `chunk` elements along a dynamic axis; the last one may be smaller."""
    size = dims_of(x)[axis]

    def part(number: Value) -> list[Value]:
        if chunk == 1:
            one = b.at_round(x, number, axis=axis, backwards=False)
            return [one if squeezed else with_new_axes(b, one, [axis])]
        first = b.mul(number, b.scalar(chunk, like=number))
        most = b.scalar(chunk, like=number)
        rest = b.minimum(most, b.sub(size_scalar(b, size, number), first))
        start, own = b.symbols.fresh("start"), b.symbols.fresh("part")
        b.bind_sizes(b.concat([b.with_shape(first, (1,)), b.with_shape(rest, (1,))], axis=0), sizes=(start, own))
        return [slice_axis(b, x, axis, start, own)]

    count = b.with_shape(b.sizes(values=((size + chunk - 1) // chunk,)), ())
    return boxed_by(b, count, part)[0]


def parts_of_sizes(b: ImportBuilder, x: Value, axis: int, split: Value) -> SequenceValue:
    """Parts of `x` with the sizes in a vector of dynamic length; they must sum to the size of the axis, or the run ends with an error."""
    size, (count,) = dims_of(x)[axis], dims_of(split)
    sizes = b.convert(split, "i64")
    b.bind_sizes(b.reduce_sum(sizes, axes=(0,), keepdims=True), sizes=(size,))
    if b.uniform_value(split) == 1:
        return free_parts(b, x, axis, 1, squeezed=False)
    starts = b.cumsum(sizes, axis=0, exclusive=True, reverse=False)

    def part(number: Value) -> list[Value]:
        start, own = b.symbols.fresh("start"), b.symbols.fresh("part")
        both = [b.with_shape(b.at_round(vector, number, axis=0, backwards=False), (1,)) for vector in (starts, sizes)]
        b.bind_sizes(b.concat(both, axis=0), sizes=(start, own))
        return [slice_axis(b, x, axis, start, own)]

    return boxed_by(b, size_scalar(b, count, like=sizes), part)[0]


@onnx_rule("SequenceMap", since=17)
def sequence_map(b: ImportBuilder, sequence: SequenceValue, *others: Value | SequenceValue, body: GraphProto) -> tuple[SequenceValue, ...]:
    taken = [sequence, *others]
    if any(isinstance(one, BoxedSequence) for one in taken):
        return mapped_in_boxes(b, taken, body)
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
        ListValue.from_elements([values[i] for values in made]) if made else ListValue(our_dtype(output.type.tensor_type.elem_type))
        for i, output in enumerate(body.output)
    )


def mapped_in_boxes(b: ImportBuilder, taken: Sequence[Value | SequenceValue], body: GraphProto) -> tuple[SequenceValue, ...]:
    """A body applied to the elements of sequences of dynamic length: all must have that of the first."""
    sequences = [in_boxes(b, one, kind_of(b, one)) if isinstance(one, SequenceValue) else one for one in taken]
    lengths = [b.with_shape(one.length(b), (1,)) for one in sequences if isinstance(one, BoxedSequence)]
    if len(lengths) > 1:
        b.bind_sizes(b.concat(lengths, axis=0), sizes=(b.symbols.fresh("length"),) * len(lengths))

    def element(number: Value) -> list[Value]:
        given = [one.element(b, number) if isinstance(one, BoxedSequence) else one for one in sequences]
        return tensors(b.node.import_graph(body, given), "the outputs of its body")

    return tuple(boxed_by(b, b.with_shape(lengths[0], ()), element, len(body.output)))


@onnx_rule("Optional", since=15)
def optional(b: ImportBuilder, x: Value | SequenceValue | None = None, *, type: TypeProto | None = None) -> AnyValue:
    if x is not None:
        return x
    if type is None:
        raise ModelError("without an element it must have the attribute type")
    return nothing_of(type)


def nothing_of(kind: TypeProto) -> Nothing:
    """The empty optional of this type. Raises ModelError for one that is neither a tensor nor a sequence of tensors."""
    is_sequence = kind.WhichOneof("value") == "sequence_type"
    tensor = kind.sequence_type.elem_type if is_sequence else kind
    if tensor.WhichOneof("value") != "tensor_type":
        raise ModelError("what an optional may hold must be a tensor or a sequence of tensors")
    return Nothing(our_dtype(tensor.tensor_type.elem_type), is_sequence)


@onnx_rule("OptionalGetElement", since=15)
def optional_get_element(b: ImportBuilder, x: AnyValue) -> AnyValue:
    if isinstance(x, Nothing):
        raise ModelError("its optional holds nothing")
    return x


@onnx_rule("OptionalHasElement", since=15)
def optional_has_element(b: ImportBuilder, x: AnyValue | None = None) -> Value:
    return b.literal(np.array(x is not None and not isinstance(x, Nothing)))
