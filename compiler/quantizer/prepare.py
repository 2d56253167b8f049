"""Prepares a network for quantisation: a late opset, stored constants, a name for every node, batch norms folded."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, inliner, numpy_helper
from onnx.reference import ReferenceEvaluator

from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.dialects.support.files import replacing
from stepwell.frontends.onnx.source import read_source
from stepwell.frontends.onnx.validation import foreign_errors, foreign_text
from stepwell.quantizer.fold import fold_scales
from stepwell.quantizer.graphs import STANDARD, Links, Names, held_by, is_standard, operand, replace, value_types

OPSET = 13
"""The first opset in which QuantizeLinear has scales for each channel."""
IR_VERSION = 8
FOLDED_BYTES = 1 << 30  # computed constants above this size stay computed
FOLDED = (
    "Add", "Cast", "Concat", "Div", "Exp", "Expand", "Flatten", "Gather", "Identity", "Mul", "Neg", "Pow", "Reciprocal", "Reshape", "Slice", "Sqrt",
    "Squeeze", "Sub", "Transpose", "Unsqueeze",
)  # fmt: skip
"""Operators that are computed if all their operands are stored."""

GREATEST_FILE = (1 << 31) - 1
"""The largest protocol buffer, in bytes."""
QUANTIZED = ("QuantizeLinear", "DequantizeLinear", "QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger", "MatMulNBits")

Source = str | os.PathLike[str] | bytes | ModelProto


def loaded(source: Source) -> ModelProto:
    """A separate model with all weights in it, whose initializers are not inputs. Raises ModelError, UnsupportedError or InputError."""
    read = read_source(source)
    model, arrays = read.model, read.initializers
    stored = {tensor.name for tensor in model.graph.initializer}
    with foreign_errors("a weight cannot be stored in an ONNX model"):
        model.graph.initializer.extend(numpy_helper.from_array(load(), name) for name, load in arrays.items() if name not in stored)
    replace(model.graph.input, [value for value in model.graph.input if value.name not in arrays])
    model.ir_version = max(model.ir_version, IR_VERSION)
    return model


def save(model: ModelProto, path: str | os.PathLike[str]) -> None:
    """Write a model to a file atomically. Raises OSError, and ModelError for a model that one file cannot hold."""
    if (size := model.ByteSize()) > GREATEST_FILE:
        raise ModelError(f"{path}: the quantised model takes {size} bytes; one ONNX file holds at most {GREATEST_FILE}")
    with replacing(path) as temporary:
        onnx.save(model, temporary, format="protobuf")


def prepared(source: Source, *, opset: int = OPSET) -> ModelProto:
    """The model in the form that the quantiser needs; equivalent up to rounding.

    Local functions are inlined; the opset is `opset` or later; constants, and values computed only from constants, are initializers; nodes without
    effect in inference are removed, and a Sum of two is an Add; every node has a unique name; batch norms, and factors and terms for each channel,
    are folded into the preceding convolutions and products; types are inferred. Raises ModelError, or UnsupportedError if the opset cannot be changed
    or the model is quantised already.
    """
    model = loaded(source)
    with foreign_errors("the model is not valid ONNX"):
        onnx.checker.check_model(read_source(model).model)  # without large weights, since the time of the check grows with size
    if model.functions:
        model = inliner.inline_local_functions(model)
    model = converted(model, opset)
    quantised = next((node for node in model.graph.node if node.op_type in QUANTIZED), None)
    if quantised is not None:
        raise UnsupportedError(f"node '{quantised.name}' ({quantised.op_type}): the model is quantised already; give the network of floats")
    name_nodes(model)
    _store_constants(model)
    _drop_idle(model.graph)
    fold_scales(model)
    drop_unused(model.graph)
    types = value_types(model)
    known = {value.name for value in (*model.graph.input, *model.graph.output, *model.graph.initializer)}
    replace(model.graph.value_info, [value for name, value in types.items() if name not in known])
    return model


def converted(model: ModelProto, opset: int) -> ModelProto:
    """The model with opset `opset` or later. Raises UnsupportedError if ONNX cannot convert it, ModelError if it does not state its own."""
    before = next((entry.version for entry in model.opset_import if entry.domain in STANDARD), None)
    if before is None:
        raise ModelError("the model does not import ONNX's own operators")
    if before >= opset:
        return model
    try:
        return onnx.version_converter.convert_version(model, opset)
    except Exception as error:  # RuntimeError and others, whatever its adapters raise
        text = foreign_text(error)
        raise UnsupportedError(f"ONNX cannot convert the model from opset {before} to {opset}, which it is quantised in: {text}") from None


def name_nodes(model: ModelProto) -> None:
    """Give each node of the main graph a unique name, in place."""
    names, seen = Names(model), set[str]()
    for node in model.graph.node:
        if not node.name or node.name in seen:
            node.name = names.fresh(node.name or f"{node.op_type.lower()}_{node.output[0] if node.output else ''}")
        seen.add(node.name)


def drop_unused(graph: GraphProto) -> None:
    """Drop nodes and initializers that no output depends on, in place."""
    needed = {value.name for value in graph.output}
    kept = []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            kept.append(node)
            needed.update((*node.input, *held_by(node)))
    replace(graph.node, kept[::-1])
    replace(graph.initializer, [tensor for tensor in graph.initializer if tensor.name in needed])


def _store_constants(model: ModelProto) -> None:
    """Store the values of Constant nodes, and values computed only from stored arrays, as initializers."""
    graph = model.graph
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    outputs = {value.name for value in graph.output}
    kept = []
    for node in graph.node:
        array = None
        if len(node.output) == 1 and node.output[0] not in outputs:
            array = _constant(node) if is_standard(node, "Constant") else _computed(model, node, arrays)
        if array is None:
            kept.append(node)
        else:
            arrays[node.output[0]] = array
            graph.initializer.append(numpy_helper.from_array(array, node.output[0]))
    replace(graph.node, kept)


_CONSTANTS: dict[str, Callable[[Any], np.ndarray]] = {  # of what an attribute of that name holds
    "value": numpy_helper.to_array,
    "value_float": lambda value: np.array(value, np.float32), "value_floats": lambda value: np.array(value, np.float32),
    "value_int": lambda value: np.array(value, np.int64), "value_ints": lambda value: np.array(value, np.int64),
}  # fmt: skip


def _constant(node: NodeProto) -> np.ndarray | None:
    """The array of a Constant node; None for strings and sparse tensors."""
    found = next((a for a in node.attribute if a.name in _CONSTANTS), None)
    return None if found is None else _CONSTANTS[found.name](onnx.helper.get_attribute_value(found))


def _computed(model: ModelProto, node: NodeProto, arrays: dict[str, np.ndarray]) -> np.ndarray | None:
    """The values that a node computes only from stored arrays, by ONNX's reference implementation; None if it reads others, or is left unchanged."""
    if not is_standard(node, *FOLDED) or not all(name in arrays for name in node.input if name):
        return None
    names = sorted({name for name in node.input if name})
    if sum(arrays[name].nbytes for name in names) > FOLDED_BYTES:
        return None
    kinds = {name: onnx.helper.np_dtype_to_tensor_dtype(arrays[name].dtype) for name in names}
    values = [onnx.helper.make_tensor_value_info(name, kinds[name], arrays[name].shape) for name in names]
    result = onnx.helper.make_empty_tensor_value_info(node.output[0])
    alone = onnx.helper.make_model(onnx.helper.make_graph([node], "constant", values, [result]), opset_imports=model.opset_import)
    with foreign_errors(f"node '{node.name}' ({node.op_type}) cannot be computed"):
        [array] = ReferenceEvaluator(alone).run(None, {name: arrays[name] for name in names})
    return np.asarray(array) if np.asarray(array).nbytes <= FOLDED_BYTES else None


def _drop_idle(graph: GraphProto) -> None:
    """Let readers of Identity and Dropout read the operands of these instead; turn a Sum of two into an Add."""
    links = Links(graph)
    instead: dict[str, str] = {}
    kept = []
    for node in graph.node:
        for place, name in enumerate(node.input):
            node.input[place] = instead.get(name, name)
        if is_standard(node, "Sum") and len(node.input) == 2:
            node.op_type = "Add"
        if _is_idle(node, links) and node.output[0] not in links.outputs | links.held:
            instead[node.output[0]] = node.input[0]
        else:
            kept.append(node)
    replace(graph.node, kept)


def _is_idle(node: NodeProto, links: Links) -> bool:
    if is_standard(node, "Identity"):
        return True
    if not is_standard(node, "Dropout") or any(links.readers.get(name) or name in links.outputs for name in node.output[1:] if name):
        return False
    training = links.array(operand(node, 2))
    return not operand(node, 2) or (training is not None and not training.any())
