"""Inputs of a model that are sequences or optionals: for a given number of elements they become tensor inputs."""

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import ModelProto, NodeProto, TypeProto, ValueInfoProto, helper

from stepwell.dialects.core.types import TensorType, to_numpy
from stepwell.dialects.support.errors import InputError, UnsupportedError
from stepwell.frontends.onnx.source import refill
from stepwell.frontends.onnx.tensors import DTYPES
from stepwell.frontends.onnx.validation import unique_name
from stepwell.signature import OPTIONAL, SEQUENCE, UNRANKED, Shape, TensorInfo, part_name


def structured(name: str, kind: TypeProto) -> TensorInfo | None:
    """The description of a sequence or an optional, by the name of the value; None for a tensor, and for unsupported types (strings, maps)."""
    form: list[str] = []
    for word, field in ((OPTIONAL, "optional_type"), (SEQUENCE, "sequence_type")):
        if kind.WhichOneof("value") == field:
            form.append(word)
            kind = getattr(kind, field).elem_type
    tensor = kind.tensor_type
    if not form or kind.WhichOneof("value") != "tensor_type" or tensor.elem_type not in DTYPES:
        return None
    sizes = tuple(d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim)  # elements may differ in sizes that have a name
    return TensorInfo(name, sizes if tensor.HasField("shape") else UNRANKED, to_numpy(DTYPES[tensor.elem_type]), tuple(form))


def declared_info(value: ValueInfoProto, tensor: TensorType | None) -> TensorInfo | None:
    """The description of an input or output, with the type `tensor` if it is known; None if the model does not even declare an element type."""
    info = structured(value.name, value.type)
    if info is not None:
        return info
    if tensor is not None:
        return TensorInfo.from_type(value.name, tensor)
    dtype = DTYPES.get(value.type.tensor_type.elem_type)
    return None if dtype is None else TensorInfo(value.name, UNRANKED, to_numpy(dtype))


def fix_structure(model: ModelProto, shapes: Mapping[str, Shape]) -> tuple[dict[str, Sequence[int | None]], list[TensorInfo]]:
    """Replace inputs that are sequences or optionals by tensors, in place, as many as in `shapes`, and a node that builds the input from them.

    Returns the shapes of inputs that are tensors then, and the inputs without an entry. Raises InputError, naming the input, if a shape is of another
    kind than the input.
    """
    nodes, open_ones = [], []
    inputs: list[ValueInfoProto] = []
    taken = {node.name: 0 for node in model.graph.node}
    values = {value.name for value in [*model.graph.input, *model.graph.initializer]} | {name for node in model.graph.node for name in node.output}
    found: dict[str, Sequence[int | None]] = {}
    for value in model.graph.input:
        info = structured(value.name, value.type)
        if info is None or value.name not in shapes:
            inputs.append(value)
            open_ones += [info] if info is not None else []
            continue
        parts = _parts(info, shapes[value.name])
        names = [part_name(value.name, i) for i in range(len(parts))]
        clash = next((name for name in names if name in values), None)
        if clash is not None:
            raise UnsupportedError(f"input '{value.name}': a model that has a value '{clash}' too is not supported; supported: other names")
        found.update(zip(names, parts, strict=True))
        inputs += [helper.make_value_info(name, _element(value.type)) for name in names]
        nodes += _made_of(value, info, names, is_there=shapes[value.name] is not None, taken=taken)
    for name, shape in shapes.items():
        if name in found or name not in {value.name for value in model.graph.input if structured(value.name, value.type)}:
            found[name] = _plain(name, shape)
    if nodes:
        refill(model.graph, "input", inputs)
        refill(model.graph, "node", [*nodes, *model.graph.node])
    return found, open_ones


def _parts(info: TensorInfo, shape: Shape) -> list[Sequence[int | None]]:
    """The shapes of the tensors in an input."""
    if shape is None and OPTIONAL in info.form:
        return []
    is_list = shape is not None and all(isinstance(entry, (tuple, list)) for entry in shape)
    if SEQUENCE in info.form and not is_list:
        raise InputError(f"input '{info.name}': expected a list of shapes, one for each element of {info}, got {shape}")
    return [_plain(info.name, entry) for entry in shape or ()] if SEQUENCE in info.form else [_plain(info.name, shape)]


def _plain(name: str, shape: Any) -> Sequence[int | None]:
    """The shape of a tensor. Raises InputError for a list, or for None."""
    if shape is None or any(isinstance(size, (tuple, list)) for size in shape):
        raise InputError(f"input '{name}': expected the shape of a tensor, got {shape}")
    return list(shape)


def _element(kind: TypeProto) -> TypeProto:
    """The type of the tensors in an input, each of which has its own sizes."""
    while kind.WhichOneof("value") != "tensor_type":
        kind = (kind.optional_type if kind.WhichOneof("value") == "optional_type" else kind.sequence_type).elem_type
    made = TypeProto()
    made.CopyFrom(kind)
    for dim in made.tensor_type.shape.dim:
        dim.ClearField("dim_param")
    return made


def _made_of(value: ValueInfoProto, info: TensorInfo, names: list[str], *, is_there: bool, taken: dict[str, int]) -> list[NodeProto]:
    """The nodes that build an input from its tensors."""

    def node(operator: str, inputs: list[str], output: str, **attributes: Any) -> NodeProto:
        return helper.make_node(operator, inputs, [output], name=unique_name(f"{value.name}/{operator}", taken), **attributes)

    held = part_name(value.name, -1) if OPTIONAL in info.form else value.name
    made = []
    if not is_there:
        return [node("Optional", [], value.name, type=value.type.optional_type.elem_type)]
    if SEQUENCE in info.form:
        dtype = helper.np_dtype_to_tensor_dtype(info.dtype)
        made.append(node("SequenceConstruct", names, held) if names else node("SequenceEmpty", [], held, dtype=dtype))
    if OPTIONAL in info.form:
        made.append(node("Optional", [held if SEQUENCE in info.form else names[0]], value.name))
    return made
