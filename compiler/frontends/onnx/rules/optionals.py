"""Rules for optionals. Whether one has a value is known at import, so nothing is left of it."""

import numpy as np
from onnx import TypeProto

from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.builder import Value
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import onnx_rule
from stepwell.frontends.onnx.sequences import AnyValue, Nothing, SequenceValue
from stepwell.frontends.onnx.tensors import our_dtype


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
