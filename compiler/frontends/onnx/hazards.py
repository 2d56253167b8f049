"""Rejects attribute values on which ONNX's own shape inference crashes, hangs or computes nonsense."""

import re
from collections.abc import Mapping

from onnx import AttributeProto, ModelProto, NodeProto

from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.onnx.walking import every_node

INT32 = 1 << 31
# Attributes that may hold any 64-bit integer: data, seeds, or ends of slices that mean "all".
UNBOUNDED: Mapping[str, tuple[str, ...]] = {
    "Constant": ("value_int", "value_ints"), "Shape": ("start", "end"), "Slice": ("starts", "ends"), "TfIdfVectorizer": ("pool_int64s",),
    "Dropout": ("seed",),
}  # fmt: skip


def refuse_hazards(model: ModelProto) -> None:
    """Raise ModelError, naming the node, for an attribute value that ONNX's inference cannot handle."""
    for node in every_node(model):
        problem = _problem(node)
        if problem is not None:
            raise ModelError(f'{node.op_type} "{node.name}": {problem}')


def _problem(node: NodeProto) -> str | None:
    free = UNBOUNDED.get(node.op_type, ())
    for attribute in node.attribute:
        values = [attribute.i] if attribute.type == AttributeProto.INT else attribute.ints if attribute.type == AttributeProto.INTS else ()
        wild = [v for v in values if not -INT32 <= v < INT32]
        if wild and attribute.name not in free:
            return f"attribute {attribute.name} must fit 32 bits, got {wild[0]}"
    given = {a.name: a.i for a in node.attribute if a.type == AttributeProto.INT}
    if node.op_type == "GatherND" and given.get("batch_dims", 0) < 0:
        return f"attribute batch_dims must be 0 or more, got {given['batch_dims']}"
    if node.op_type == "Split" and "num_outputs" in given and given["num_outputs"] != len(node.output):
        return f"attribute num_outputs is {given['num_outputs']}, but it has {len(node.output)} outputs"
    if node.op_type == "Einsum":
        equation = next((a.s for a in node.attribute if a.name == "equation"), b"")
        if not re.fullmatch(rb"[A-Za-z,.> -]*", equation):
            return f"attribute equation must be letters, commas, ellipses and an arrow, got {equation[:40]!r}"
    return None
