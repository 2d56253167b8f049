"""The description of an ONNX model in ONNX's terms, whether or not it can be imported."""

import collections

import onnx
from onnx import helper

from stepwell.frontends.base import Summary
from stepwell.frontends.onnx.border import input_kind
from stepwell.frontends.onnx.source import read_source
from stepwell.frontends.onnx.structure import structured
from stepwell.frontends.onnx.walking import every_node


def summary(source: object) -> Summary:
    """Title, declared signature, and the operators, including those inside nodes and in the model's own functions. Raises ModelError."""
    read = read_source(source)
    model = read.model
    opsets = ", ".join(f"{entry.domain or 'ai.onnx'} {entry.version}" for entry in model.opset_import)
    producer = f"{model.producer_name} {model.producer_version}".strip() or "unknown"
    return Summary(
        f"graph '{model.graph.name}', opset {opsets}, IR version {model.ir_version}, made by {producer}",
        [(value.name, _declared(value)) for value in model.graph.input if value.name not in read.initializers],
        [(value.name, _declared(value)) for value in model.graph.output],
        ("operator", "domain", "opset", "nodes"),
        _operators(model),
    )


def _declared(value: onnx.ValueInfoProto) -> str:
    """The type of an input or output as the file declares it."""
    whole = structured(value.name, value.type)
    if whole is not None:
        return str(whole)
    kind = input_kind(value)
    if kind is not None and kind.form:
        return str(kind.info(value.name))
    if value.type.WhichOneof("value") != "tensor_type":
        return str(value.type.WhichOneof("value"))
    tensor = value.type.tensor_type
    sizes = "x".join(str(d.dim_value) if d.HasField("dim_value") and d.dim_value >= 0 else d.dim_param or "?" for d in tensor.shape.dim)
    return f"{helper.tensor_dtype_to_string(tensor.elem_type).removeprefix('TensorProto.').lower()}[{sizes}]"


def _operators(model: onnx.ModelProto) -> list[list[str]]:
    versions = {entry.domain: entry.version for entry in model.opset_import}
    counts = collections.Counter((node.domain, node.op_type) for node in every_node(model))
    return [
        [name, domain or "ai.onnx", str(versions.get(domain, "")), str(count)]
        for (domain, name), count in sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    ]
