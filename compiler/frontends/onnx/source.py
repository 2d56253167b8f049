"""Reads a model from a path, bytes or ModelProto into a light ModelProto and its weights, which are views rather than copies."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto

from stepwell.dialects.support.errors import InputError, ModelError, UnsupportedError
from stepwell.frontends.contents import content_of, read_file
from stepwell.frontends.onnx.problems import Notices
from stepwell.frontends.onnx.tensors import ExternalData, data_bytes, tensor_array, view_raw
from stepwell.frontends.onnx.text import escape_names, has_odd_names
from stepwell.frontends.onnx.walking import attribute_tensors, nested_nodes, subgraphs
from stepwell.frontends.onnx.wire import cut_tensors

FIRST_WITH_FREE_INITIALIZERS = 4  # the first IR version whose initializers need not be graph inputs
LARGE_BYTES = 4096  # initializers of at least this size are removed from the model before it is checked


@dataclass
class Source:
    """A model without its large initializers (they are graph inputs of `model`), and how to get the array of any initializer that is read.

    Unused initializers are dropped, and their data is never accessed. `initializers` has a function for each of the others, which raises ModelError
    or UnsupportedError if its data is damaged or has a foreign type.
    """

    model: ModelProto
    initializers: dict[str, Callable[[], np.ndarray]] = field(default_factory=dict)
    external: ExternalData = field(default_factory=lambda: ExternalData(None))
    content: memoryview | None = None
    """The immutable content from which the model was read; None for a ModelProto."""
    notices: Notices = field(default_factory=Notices)
    """Deviations of the file from the standard, and their interpretation."""


def read_source(source: object) -> Source:
    """Read a model. Raises ModelError if it is not an ONNX model or its data is missing or damaged, InputError for another kind of source.

    Files, and buffers other than `bytes`, are copied to memory: writing to them later does not change a model that was read.
    """
    if isinstance(source, ModelProto):
        return _split(source, [], ExternalData(None))
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _parse(content_of(source), ExternalData(None), "the model")
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        return _parse(read_file(path), ExternalData(path.absolute().parent), path.name)
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
    read = _split(model, [(header, data[tensor.start : tensor.end]) for header, tensor in zip(headers, cut, strict=True)], external)
    read.content = data
    return read


def _split(model: ModelProto, cut: list[tuple[TensorProto, memoryview]], external: ExternalData) -> Source:
    """Remove the large and the external initializers from the main graph, without changing the caller's `model`."""
    headers = [header for header, _ in cut]
    if has_odd_names((model, *headers)):
        callers, model = model, ModelProto()
        model.CopyFrom(callers)
        escape_names((model, *headers))
    light = copy_without(model, "graph")
    light.graph.CopyFrom(copy_without(model.graph, "initializer", "sparse_initializer"))
    read = _names_read(light)
    _drop_unread(light, {t.name for t in (*(header for header, _ in cut), *model.graph.initializer)} - read, read)
    sparse = ", ".join(f"'{t.values.name}'" for t in model.graph.sparse_initializer if t.values.name in read)
    if sparse:
        raise UnsupportedError(f"sparse initializers are not supported; supported: dense ones. The model has {sparse}")
    source = Source(light, {}, external)
    large = []
    for header, raw in cut:
        if header.name in read and _add(source, header, partial(view_raw, header.name, header.data_type, header.dims, raw)):
            large.append(header)
    for tensor in model.graph.initializer:
        is_external = tensor.data_location == TensorProto.EXTERNAL
        if tensor.name not in read or not _add(source, tensor, partial(external.array if is_external else tensor_array, tensor)):
            continue
        if is_external:
            external.tensors.append(tensor)
        if data_bytes(tensor) >= LARGE_BYTES:
            large.append(tensor)
        else:
            light.graph.initializer.append(_held_inside(tensor, external))
    _declare_as_inputs(source, large)
    for tensor in attribute_tensors(light):
        tensor.CopyFrom(_held_inside(tensor, external))
    return source


def _names_read(model: ModelProto) -> set[str]:
    """The names that any node or graph of the main graph reads, or that are outputs."""
    names = {value.name for value in model.graph.output}
    for node in nested_nodes(model.graph.node):
        names.update(node.input)
        names.update(value.name for graph in subgraphs(node) for value in graph.output)
    return names


def _drop_unread(model: ModelProto, unread: set[str], read: set[str]) -> None:
    """Remove, in place, unused initializers (not in `read`) of graphs inside nodes, and the declarations of the main graph's."""
    for node in nested_nodes(model.graph.node):
        for graph in subgraphs(node):
            declared = {value.name for value in graph.input}
            kept = [t for t in graph.initializer if t.name in read or t.name in declared]
            if len(kept) < len(graph.initializer):
                refill(graph, "initializer", kept)
    if any(value.name in unread for value in model.graph.input):
        refill(model.graph, "input", [value for value in model.graph.input if value.name not in unread])


def _add(source: Source, tensor: TensorProto, load: Callable[[], np.ndarray]) -> bool:
    """Record how to get an initializer; False for one that exists already. Raises ModelError if that one differs."""
    first = source.initializers.setdefault(tensor.name, load)
    if first is load:
        return True
    one, two = first(), load()
    if one.dtype != two.dtype or one.shape != two.shape or one.tobytes() != two.tobytes():
        raise ModelError(f"two initializers have the name '{tensor.name}' and differ")
    source.notices.add("initializer given twice", f"the initializer '{tensor.name}' is given twice, both times with the same data")
    return False


def _held_inside(tensor: TensorProto, external: ExternalData) -> TensorProto:
    """A tensor that holds its own data, read from the external file if necessary."""
    if tensor.data_location != TensorProto.EXTERNAL:
        return tensor
    out = copy_without(tensor, "external_data", "data_location")
    out.raw_data = external.array(tensor).tobytes()
    return out


def _declare_as_inputs(source: Source, large: Iterable[TensorProto]) -> None:
    """Make each large tensor a graph input of the tensor's type for the checker and shape inference.

    In a model of an IR version below 4 every initializer must be one, so the small ones become inputs as well.
    """
    model = source.model
    inputs = {value.name: value for value in model.graph.input}
    is_old = 0 < model.ir_version < FIRST_WITH_FREE_INITIALIZERS
    for tensor in large if not is_old else [*large, *model.graph.initializer]:
        if tensor.name not in inputs:
            if is_old:
                what = f"the initializer '{tensor.name}' is no graph input, which it must be in a model of IR version {model.ir_version}"
                source.notices.add("initializer that is no input", what)
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


def refill(message: Any, field: str, entries: Iterable[Any]) -> None:
    """Replace the entries of a repeated field by copies of these, which may be among them."""
    copies = [copy_without(entry) for entry in entries]
    message.ClearField(field)
    getattr(message, field).extend(copies)
