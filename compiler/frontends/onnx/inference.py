"""The types of a model's values by ONNX's inference, as far as it gets; wrong declarations are left out, and named in a warning."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass

import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, shape_inference

from stepwell.dialects.core.mlir import defining_op, ir
from stepwell.dialects.core.types import TensorType, type_of
from stepwell.dialects.graph.base import GraphOp, compatible
from stepwell.dialects.graph.callbacks import contradiction_of
from stepwell.dialects.support.errors import ModelError, StepwellError
from stepwell.frontends.onnx.frames import Binding, Frame
from stepwell.frontends.onnx.functions import operator_key
from stepwell.frontends.onnx.problems import Notices
from stepwell.frontends.onnx.tensors import onnx_tensor_type
from stepwell.frontends.onnx.validation import foreign_errors, foreign_text
from stepwell.frontends.onnx.walking import inner_graphs

LONG_VECTOR = 4096
ABOUT_ELEMENT_TYPES = ("TypeInferenceError", "inconsistent type", "unsupported type")  # ONNX's inference reports these
_CONSEQUENCE = re.compile(r"\[TypeInferenceError\] Input \d+ expected to have type but instead is null")  # of a node behind one that failed


@dataclass(frozen=True)
class Inferred:
    """A model whose values have types, as far as ONNX infers them. `objection` is ONNX's error about the model, if it could not finish."""

    model: ModelProto
    objection: str = ""


def infer(model: ModelProto, notices: Notices) -> Inferred:
    """The model with the types of its values inferred.

    Declarations of values inside the graph and of outputs that contradict ONNX's inference are left out. If ONNX's inference itself fails, there are
    no types: the import's own inference decides. Raises ModelError if ONNX's checker finds a fault, or an element type that an operator does not
    accept.
    """
    for value in model.graph.output:
        if not value.HasField("type"):
            notices.add("output without a type", f"output '{value.name}' is declared without a type")
    with foreign_errors("the model is not valid ONNX"), _typed_outputs(model):
        onnx.checker.check_model(model)
    try:
        return Inferred(_strictly(model))
    except shape_inference.InferenceError as error:
        first = foreign_text(error)
    bare = deepcopy(model)
    _strip(bare)
    with foreign_errors("the types in the model do not fit together"):
        try:
            found = _strictly(bare)
        except shape_inference.InferenceError as error:
            if any(words in _CONSEQUENCE.sub("", str(error)) for words in ABOUT_ELEMENT_TYPES) and not _about_a_body(str(error)):
                raise
            return Inferred(bare, foreign_text(error))
        return Inferred(_with_fitting(model, bare, found, first, notices))


def _about_a_body(text: str) -> bool:
    """Whether ONNX rejects its own definition of an operator: that of MeanVarianceNormalization adds an f32 to operands of any type."""
    operators = re.findall(r"\(op_type:(\w+)", text)
    return len(operators) > 1 and operators[0] in {schema.name for schema in onnx.defs.get_function_ops()}


@contextmanager
def _typed_outputs(model: ModelProto) -> Iterator[None]:
    """Inside the block, every output has some type and shape: ONNX's checker insists on it, although nothing needs it."""
    before = [deepcopy(value) for value in model.graph.output]
    for value in model.graph.output:
        if value.type.WhichOneof("value") in (None, "tensor_type") and not value.type.tensor_type.HasField("shape"):
            tensor = value.type.tensor_type
            tensor.elem_type = tensor.elem_type or TensorProto.FLOAT
            tensor.shape.SetInParent()
    try:
        yield
    finally:
        for value, was in zip(model.graph.output, before, strict=True):
            value.CopyFrom(was)


def _strictly(model: ModelProto) -> ModelProto:
    """The model with types. Raises ONNX's InferenceError if these do not fit together.

    Data propagation (through arithmetic on shapes) is a second pass, run if the first leaves something open. It takes every vector for a shape,
    element by element, so it is skipped if there are long ones: we propagate constants ourselves anyway.
    """
    inferred = shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    types = {v.name: onnx_tensor_type(v.type) for v in _declared(inferred.graph)} | {v.name: onnx_tensor_type(v.type) for v in inferred.graph.input}
    known = [types.get(name) for node in inferred.graph.node for name in node.output if name]
    if all(t is not None and t.is_static for t in known) or any(
        t is not None and t.rank == 1 and (t.shape[0] or 0) > LONG_VECTOR for t in types.values()
    ):
        return inferred
    return shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)


def _declared(graph: GraphProto) -> Iterator[ValueInfoProto]:
    """The declarations of a graph for the values that its nodes produce."""
    yield from graph.value_info
    yield from graph.output


def declared_types(graph: GraphProto) -> dict[str, TensorType]:
    """The types that a graph declares for the values that its nodes produce, as far as we support them."""
    types = {value.name: onnx_tensor_type(value.type) for value in _declared(graph)}
    return {name: tensor for name, tensor in types.items() if tensor is not None}


def _strip(model: ModelProto) -> None:
    """Remove a model's declarations of values, in place, except for its inputs and the element types of outputs."""
    inner = inner_graphs(model)
    for function in model.functions:
        del function.value_info[:]
    for graph in (model.graph, *inner):
        del graph.value_info[:]
        for value in graph.output:
            _forget_shape(value)
    for graph in inner:
        for value in graph.input:
            _forget_shape(value)


def _forget_shape(value: ValueInfoProto) -> None:
    if value.type.WhichOneof("value") == "tensor_type":
        value.type.tensor_type.ClearField("shape")


def _with_fitting(model: ModelProto, bare: ModelProto, found: ModelProto, objection: str, notices: Notices) -> ModelProto:
    """The types inferred for `bare`, which declares nothing, plus those declarations of `model` that `found` does not contradict."""
    types = declared_types(found.graph)
    again = deepcopy(bare)
    kept = {}
    contradictions = 0
    for value in _declared(model.graph):
        said, is_ = onnx_tensor_type(value.type), types.get(value.name)
        if said is not None and is_ is not None and not compatible(said, is_):
            notices.add("declared type", contradiction(value.name, said, is_))
            contradictions += 1
        else:
            kept[value.name] = value
    if not contradictions:
        notices.add("declared type", f"graphs inside nodes declare types that ONNX's inference contradicts; the inferred ones hold: {objection}")
    outputs = {value.name for value in model.graph.output}
    again.graph.value_info.extend(value for name, value in kept.items() if name not in outputs)
    for value in again.graph.output:
        if value.name in kept:
            value.CopyFrom(kept[value.name])
    try:
        return _strictly(again)
    except shape_inference.InferenceError:
        return found


def contradiction(name: str, said: TensorType, is_: TensorType) -> str:
    """The difference of a value from the model's declaration, as text."""
    return f"'{name}' is {is_}, but declared as {said}, which is left out of account"


def check_types(node: NodeProto, values: Iterable[Binding], frame: Frame, declared: Mapping[str, TensorType], notices: Notices) -> None:
    """Raise ModelError if a value of a node is not of the type that ONNX infers, if that is known. `declared` are the types in the main graph.

    Before opset 22 ONNX infers one window too many for poolings with ceil_mode whose last one would begin in the padding at the end. It counts the
    classes of a LinearClassifier by its intercepts, which may be omitted. It sees the body of a loop only in its first iteration, and trusts the
    types declared in it.
    """
    given = {a.name: a.i for a in node.attribute}
    has_ceil = node.op_type in ("MaxPool", "AveragePool", "LpPool") and operator_key(node, frame.opsets)[2] < 22 and given.get("ceil_mode", 0) != 0
    counts_wrongly = has_ceil or (node.op_type == "LinearClassifier" and "intercepts" not in given)
    for name, value in zip(node.output, values, strict=False):
        inferred = frame.inferred(name)
        if inferred is None or not isinstance(value, ir.Value) or compatible(made := type_of(value), inferred):
            continue
        if counts_wrongly and (made.dtype, made.rank) == (inferred.dtype, inferred.rank):
            frame.doubtful.add(name)
            continue
        said = declared.get(name) if frame.is_main else None
        if frame.parent is not None and made.dtype == inferred.dtype:
            said = inferred
        if said is None or compatible(said, made):
            check_infer([value])
            raise ModelError(f"its output '{name}' is {made} here, but {inferred} by the model's declaration or ONNX's inference")
        notices.add("declared type", contradiction(name, said, made))
        frame.doubtful.add(name)


def check_infer(values: Iterable[Binding]) -> None:
    """Raise StepwellError if a value comes from an op of a plugin whose `infer` is wrong: neither its users nor the model are to blame."""
    for value in values:
        made = defining_op(value) if isinstance(value, ir.Value) else None
        view = None if made is None else made.opview
        if not isinstance(view, GraphOp) or type(view).__module__.startswith("stepwell."):
            continue
        if (problem := contradiction_of(view)) is not None:
            raise StepwellError(problem)
