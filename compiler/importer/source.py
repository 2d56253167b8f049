"""Reads a model from a path, bytes or ModelProto into a light ModelProto and its weights, which are views rather than copies."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

from stepwell.dialects.support.errors import InputError, ModelError, UnsupportedError
from stepwell.importer.tensors import ExternalData, data_bytes, read_file, tensor_array, view_raw
from stepwell.importer.text import check_text
from stepwell.importer.wire import cut_tensors

LARGE_BYTES = 4096  # initializers of this size or more are taken out of the model before it is checked


@dataclass
class Source:
    """A model without its large initializers (they are graph inputs of `model`), and how to get the array of any initializer.

    `initializers` has a function for each, which raises ModelError or UnsupportedError if its data is damaged or of a foreign type.
    """

    model: ModelProto
    initializers: dict[str, Callable[[], np.ndarray]] = field(default_factory=dict)
    external: ExternalData = field(default_factory=lambda: ExternalData(None))
    content: memoryview | None = None
    """Of the file that the model was read from."""


def read_source(source: "str | os.PathLike[str] | bytes | ModelProto") -> Source:
    """Read a model. Raises ModelError if it is not an ONNX model or its data is missing or damaged, InputError for another kind of source."""
    if isinstance(source, ModelProto):
        return _split(source, [], ExternalData(None))
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _parse(memoryview(source).cast("B"), ExternalData(None), "the model")
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        content = read_file(path)
        read = _parse(content, ExternalData(path.absolute().parent), path.name)
        read.content = content
        return read
    raise InputError(f"a model must be a path, bytes or an onnx.ModelProto, got {type(source).__name__}")


def _parse(data: memoryview, external: ExternalData, what: str) -> Source:
    if len(data) == 0:
        raise ModelError(f"{what} is empty")
    light, cut = cut_tensors(data, LARGE_BYTES)
    try:
        model = ModelProto.FromString(light)
        headers = [TensorProto.FromString(tensor.header) for tensor in cut]
    except DecodeError:
        raise ModelError(f"{what} is not an ONNX model: its protocol buffer fields cannot be decoded (damaged, or over 100 levels deep)") from None
    return _split(model, [(header, data[tensor.start : tensor.end]) for header, tensor in zip(headers, cut, strict=True)], external)


def _split(model: ModelProto, cut: list[tuple[TensorProto, memoryview]], external: ExternalData) -> Source:
    """Take the large and the external initializers out of the main graph, without changing the caller's `model`."""
    for message in (model, *(header for header, _ in cut)):
        check_text(message)
    light = copy_without(model, "graph")
    light.graph.CopyFrom(copy_without(model.graph, "initializer", "sparse_initializer"))
    if model.graph.sparse_initializer:
        names = ", ".join(f"'{t.values.name}'" for t in model.graph.sparse_initializer)
        raise UnsupportedError(f"sparse initializers are not supported; supported: dense ones. The model has {names}")
    loaders: dict[str, Callable[[], np.ndarray]] = {}
    large = []
    for header, raw in cut:
        _add(loaders, header, partial(view_raw, header.name, header.data_type, header.dims, raw))
        large.append(header)
    for tensor in model.graph.initializer:
        is_external = tensor.data_location == TensorProto.EXTERNAL
        _add(loaders, tensor, partial(external.array if is_external else tensor_array, tensor))
        if data_bytes(tensor) >= LARGE_BYTES:
            large.append(tensor)
        else:
            light.graph.initializer.append(_held_inside(tensor, external))
    _declare_as_inputs(light, large)
    for tensor in _attribute_tensors(light):
        tensor.CopyFrom(_held_inside(tensor, external))
    return Source(light, loaders, external)


def _add(loaders: dict[str, Callable[[], np.ndarray]], tensor: TensorProto, load: Callable[[], np.ndarray]) -> None:
    if tensor.name in loaders:
        raise ModelError(f"two initializers have the name '{tensor.name}'")
    loaders[tensor.name] = load


def _held_inside(tensor: TensorProto, external: ExternalData) -> TensorProto:
    """A tensor that holds its own data, read from the external file if necessary."""
    if tensor.data_location != TensorProto.EXTERNAL:
        return tensor
    out = copy_without(tensor, "external_data", "data_location")
    out.raw_data = external.array(tensor).tobytes()
    return out


def _declare_as_inputs(model: ModelProto, tensors: Iterable[TensorProto]) -> None:
    """Declare each tensor as a graph input of its type, for the checker and shape inference."""
    inputs = {value.name: value for value in model.graph.input}
    for tensor in tensors:
        if tensor.name not in inputs:
            if model.ir_version < 4:
                raise ModelError(f"the initializer '{tensor.name}' must also be a graph input in a model of IR version {model.ir_version} (below 4)")
            inputs[tensor.name] = model.graph.input.add(name=tensor.name)
        inputs[tensor.name].type.CopyFrom(onnx.helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims)))


def copy_without(message: Any, *skipped: str) -> Any:
    """A copy of a protocol buffer message without some fields, which may be large and are never read."""
    out = type(message)()
    for descriptor, value in message.ListFields():
        if descriptor.name not in skipped:
            if isinstance(value, (bool, int, float, str, bytes)):
                setattr(out, descriptor.name, value)
            elif hasattr(value, "extend"):
                getattr(out, descriptor.name).extend(value)
            else:
                getattr(out, descriptor.name).CopyFrom(value)
    return out


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs in a node's attributes."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            yield from attribute.graphs


def nested_nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Each node, followed by the nodes of the graphs inside it."""
    waiting = [iter(nodes)]
    while waiting:
        node = next(waiting[-1], None)
        if node is None:
            waiting.pop()
            continue
        yield node
        waiting += [iter(graph.node) for graph in reversed(list(subgraphs(node)))]


def _attribute_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Every tensor outside the main graph's initializers: attributes, and initializers of graphs inside nodes."""
    for nodes in [model.graph.node, *(f.node for f in model.functions)]:
        for node in nested_nodes(nodes):
            for attribute in node.attribute:
                if attribute.type == AttributeProto.TENSOR:
                    yield attribute.t
            for graph in subgraphs(node):
                yield from graph.initializer
