"""Node attributes as Python values."""

from collections.abc import Mapping
from typing import Any

from onnx import AttributeProto, NodeProto

from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.frontends.onnx.source import copy_without
from stepwell.frontends.onnx.tensors import tensor_array

_FIELDS = {AttributeProto.FLOAT: "f", AttributeProto.INT: "i", AttributeProto.GRAPH: "g", AttributeProto.TYPE_PROTO: "tp"}
_LISTS = {AttributeProto.FLOATS: "floats", AttributeProto.INTS: "ints"}


def attribute_value(attribute: AttributeProto) -> Any:
    """The value of an attribute: int, float, str, numpy array, GraphProto, TypeProto, or a tuple of these.

    Raises UnsupportedError for other kinds.
    """
    kind = attribute.type
    if kind in _FIELDS:
        return getattr(attribute, _FIELDS[kind])
    if kind in _LISTS:
        return tuple(getattr(attribute, _LISTS[kind]))
    if kind == AttributeProto.STRING:
        return _text(attribute.name, attribute.s)
    if kind == AttributeProto.STRINGS:
        return tuple(_text(attribute.name, s) for s in attribute.strings)
    if kind == AttributeProto.TENSOR:
        return tensor_array(attribute.t)
    raise UnsupportedError(f"attribute {attribute.name} of kind {AttributeProto.AttributeType.Name(kind)} is not supported")


def _text(name: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ModelError(f"attribute {name} is not UTF-8 text: {data[:40]!r}") from None


def resolved(node: NodeProto, given: Mapping[str, AttributeProto] | None) -> NodeProto:
    """A node whose references to attributes of the enclosing function are replaced by the values `given` in the call (None outside functions).

    A reference to an attribute that the call does not supply is dropped.
    """
    if given is None or not any(a.ref_attr_name for a in node.attribute):
        return node
    out: NodeProto = copy_without(node, "attribute")
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            out.attribute.append(attribute)
        elif attribute.ref_attr_name in given:
            value = out.attribute.add()
            value.CopyFrom(given[attribute.ref_attr_name])
            value.name = attribute.name
    return out
