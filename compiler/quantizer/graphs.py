"""ONNX graphs for the quantiser: types of values, stored arrays, producers and readers of a value; and changes in place."""

from collections.abc import Iterator, MutableSequence, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, numpy_helper

from stepwell.dialects.core.dtypes import to_numpy
from stepwell.dialects.support.errors import UnsupportedError
from stepwell.frontends.onnx.source import copy_without, read_source
from stepwell.frontends.onnx.tensors import onnx_tensor_type
from stepwell.frontends.onnx.walking import nested_nodes, subgraphs
from stepwell.quantizer.stated import stated
from stepwell.signature import TensorInfo

STANDARD = ("", "ai.onnx")
"""The names of ONNX's own domain."""


def value_types(model: ModelProto) -> dict[str, ValueInfoProto]:
    """The types of the main graph's values by name, as far as they are declared or inferred; weights are not copied.

    ONNX infers the types for its own operators, and `stated` for those of plugins.
    """
    light = read_source(model).model
    while True:
        try:
            inferred = onnx.shape_inference.infer_shapes(light, data_prop=True)
        except onnx.shape_inference.InferenceError:
            inferred = light
        graph = inferred.graph
        types = {value.name: value for value in (*graph.value_info, *graph.output, *graph.input) if value.HasField("type")}
        missing = [node for node in light.graph.node if node.domain not in STANDARD and not all(name in types for name in node.output if name)]
        found = [value for node in missing if (one := stated(model, node, types)) is not None for value in one.values(node)]
        if not found:
            return types
        light.graph.value_info.extend(found)


def rank_of(value: ValueInfoProto) -> int | None:
    """The number of dimensions of a value; None if it is not known."""
    tensor = value.type.tensor_type
    return len(tensor.shape.dim) if tensor.HasField("shape") else None


def is_standard(node: NodeProto, *kinds: str) -> bool:
    """Whether a node is one of ONNX's own operators of these kinds."""
    return node.domain in STANDARD and node.op_type in kinds


def attribute(node: NodeProto, name: str, default: object = None) -> Any:
    """The value of an attribute, whose type the operator's schema says, or `default` where the node has none of that name."""
    found = next((a for a in node.attribute if a.name == name), None)
    return default if found is None else onnx.helper.get_attribute_value(found)


def operand(node: NodeProto, place: int) -> str:
    """The name of a node's operand; "" if the node does not have it."""
    return node.input[place] if len(node.input) > place else ""


def input_infos(model: ModelProto) -> list[TensorInfo]:
    """The inputs of a run, in order. Raises UnsupportedError for an input that is not a tensor of known rank."""
    stored = {tensor.name for tensor in model.graph.initializer}  # which may be declared as inputs, too
    found = []
    for value in model.graph.input:
        if value.name not in stored:
            tensor = onnx_tensor_type(value.type)
            if tensor is None:
                raise UnsupportedError(f"input '{value.name}': the quantiser takes models whose inputs are tensors of a known number of dimensions")
            shape = tuple(d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in value.type.tensor_type.shape.dim)
            found.append(TensorInfo(value.name, shape, to_numpy(tensor.dtype)))
    return found


@dataclass
class Links:
    """The producers and readers of the values of a main graph, at the time of creation."""

    graph: GraphProto
    makers: dict[str, NodeProto] = field(init=False)
    readers: dict[str, list[tuple[NodeProto, int]]] = field(init=False)
    """For each value, the nodes of the main graph that read it, with the operand index."""
    outputs: frozenset[str] = field(init=False)
    held: frozenset[str] = field(init=False)
    """The values that graphs inside nodes read."""
    initializers: dict[str, TensorProto] = field(init=False)

    def __post_init__(self) -> None:
        self.makers = {name: node for node in self.graph.node for name in node.output if name}
        self.readers = {}
        for node in self.graph.node:
            for place, name in enumerate(node.input):
                if name:
                    self.readers.setdefault(name, []).append((node, place))
        self.outputs = frozenset(value.name for value in self.graph.output)
        self.held = frozenset(name for node in self.graph.node for name in held_by(node))
        self.initializers = {tensor.name: tensor for tensor in self.graph.initializer}

    def array(self, name: str) -> np.ndarray | None:
        """The stored array of a value; None for one that is computed at run time."""
        tensor = self.initializers.get(name)
        return None if tensor is None else numpy_helper.to_array(tensor)

    def only_reader(self, name: str) -> NodeProto | None:
        """The only node that reads a value, once; None if there are several, or the value is an output or read inside another node."""
        readers = self.readers.get(name, [])
        if len(readers) != 1 or name in self.outputs or name in self.held:
            return None
        return readers[0][0]


def held_by(node: NodeProto) -> Iterator[str]:
    """The values that graphs inside a node read, at any depth."""
    for graph in subgraphs(node):
        for inner in nested_nodes(graph.node):
            yield from inner.input
            yield from (value.name for nested in subgraphs(inner) for value in nested.output)
        yield from (value.name for value in graph.output)


class Names:
    """Creates names that a model does not have yet."""

    def __init__(self, model: ModelProto) -> None:
        graph = model.graph
        self.taken = {value.name for value in (*graph.input, *graph.output, *graph.initializer)}
        for node in graph.node:
            self.taken.update((node.name, *node.input, *node.output, *held_by(node)))

    def fresh(self, wanted: str) -> str:
        """`wanted`, with a number appended if it is taken."""
        name, number = wanted, 1
        while name in self.taken:
            name, number = f"{wanted}_{number}", number + 1
        self.taken.add(name)
        return name


class GraphEditor:
    """Changes the main graph of a model in place."""

    def __init__(self, model: ModelProto) -> None:
        self.graph = model.graph
        self.links, self.names = Links(model.graph), Names(model)
        self.nodes = {node.name: node for node in model.graph.node}

    def store(self, name: str, array: np.ndarray) -> str:
        """Add an initializer; returns its name: `name`, with a number appended if it is taken."""
        fresh = self.names.fresh(name)
        self.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), fresh))
        self.links.initializers[fresh] = self.graph.initializer[-1]
        return fresh


def replace(field: MutableSequence[Any], values: Sequence[Any]) -> None:
    """Have a repeated field of a protocol buffer hold `values`, some of which may be its own."""
    kept = [copy_without(value) for value in values]
    del field[:]
    field.extend(kept)
