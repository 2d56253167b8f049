"""ONNX's own definitions of operators as functions of simpler ones."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from onnx import FunctionProto, NodeProto, TypeProto, defs, helper

from stepwell.dialects.core.types import TensorType
from stepwell.frontends.onnx.tensors import DTYPES

_ELEM_TYPES = {dtype: elem_type for elem_type, dtype in DTYPES.items()}


def schema_function(node: NodeProto, domain: str, opset: int, inputs: Sequence[TensorType | None]) -> FunctionProto | None:
    """The function body by which ONNX defines a node's operator, or None; some bodies depend on the node and its input types.

    Bodies have opsets of their own: takes the newest up to `opset`, else the oldest.
    """
    schema = schema_of(domain, node.op_type, opset)
    if schema is None:
        return None
    if schema.has_function:
        data = schema.get_function_with_opset_version(_version(schema.function_opset_versions, opset))
    elif schema.has_context_dependent_function:
        types = [_type_proto(t).SerializeToString() for t in inputs]
        data = schema.get_context_dependent_function_with_opset_version(
            _version(schema.context_dependent_function_opset_versions, opset), node.SerializeToString(), types
        )
    else:
        return None
    if not data:
        return None
    function = FunctionProto.FromString(data)
    given = {a.name for a in node.attribute}
    node_attributes = set(function.attribute) | {a.name for a in function.attribute_proto}
    for name in sorted(node_attributes - given):
        default = schema.attributes[name].default_value if name in schema.attributes else None
        if default is not None and default.name and not any(a.name == name for a in function.attribute_proto):
            function.attribute_proto.append(default)
    return function


def has_schema_function(domain: str, op: str, opset: int) -> bool:
    """Whether ONNX defines the operator as a function (a context-dependent function may still decline a node)."""
    schema = schema_of(domain, op, opset)
    return schema is not None and bool(schema.has_function or schema.has_context_dependent_function)


def _version(versions: Sequence[int], opset: int) -> int:
    return max((v for v in versions if v <= opset), default=min(versions))


def _type_proto(tensor: TensorType | None) -> TypeProto:
    if tensor is None:
        return TypeProto()
    return helper.make_tensor_type_proto(_ELEM_TYPES[tensor.dtype], [d if isinstance(d, int) or d is None else str(d) for d in tensor.shape])


@cache
def schema_of(domain: str, name: str, opset: int) -> Any:
    """ONNX's OpSchema for an operator at an opset version, or None. (The stubs of onnx describe the class only in part.)"""
    try:
        return defs.get_schema(name, opset, domain)
    except defs.SchemaError:
        return None


def domain_of(domain: str) -> str:
    """The domain as rules and schemas spell it: ONNX's own has two spellings."""
    return "" if domain == "ai.onnx" else domain


def operator_key(node: NodeProto, opsets: Mapping[str, int]) -> tuple[str, str, int]:
    """The operator of a node: its domain, its name, and the opset version of the domain, 0 if the model imports none."""
    domain = domain_of(node.domain)
    return domain, node.op_type, opsets.get(domain, 0)
