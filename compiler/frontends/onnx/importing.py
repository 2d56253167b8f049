"""The import of ONNX models: a path, bytes or ModelProto in, a module of the `graph` dialect and a weight table out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import GraphProto

from stepwell.border.border import Border
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.support.errors import LimitError, ModelError, ModelWarning, StepwellError, UnsupportedError, warn_caller
from stepwell.dialects.support.limits import Budget, Limits
from stepwell.dialects.support.names import printable_keys
from stepwell.frontends.base import ImportedModel, Needs, NeedsError
from stepwell.frontends.onnx import rules as _rules  # noqa: F401  (registers the rules)
from stepwell.frontends.onnx.border import split_border
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.conversion import Conversion
from stepwell.frontends.onnx.hazards import refuse_hazards
from stepwell.frontends.onnx.inference import declared_types, infer
from stepwell.frontends.onnx.repairs import free_names, repair
from stepwell.frontends.onnx.shapes import fix_shapes, fix_values
from stepwell.frontends.onnx.source import Source, read_source
from stepwell.frontends.onnx.stretching import StretchingBuilder
from stepwell.frontends.onnx.structure import declared_info, fix_structure
from stepwell.frontends.onnx.tensors import dim_names, onnx_tensor_type
from stepwell.frontends.onnx.validation import (
    adopt_operators,
    check_known_ops,
    foreign_errors,
    local_functions,
    name_nodes,
    opset_versions,
    spell_out_defaults,
    unify_domains,
)
from stepwell.frontends.symbols import Symbols
from stepwell.signature import UNRANKED, Shape, TensorInfo


@dataclass(kw_only=True)
class OnnxModel(ImportedModel):
    """A model imported from ONNX, with information from its file.

    `nodes` has the nodes of the main graph in order, then those of functions and of graphs inside nodes; `content` is None for a ModelProto; `files`
    are those with external data.
    """

    opsets: dict[str, int]
    """The version of each domain; "" is ONNX's own domain."""
    ir_version: int
    producer: str
    name: str
    """The name of the main graph."""


def import_model(
    source: object,
    context: ir.Context,
    *,
    shapes: Mapping[str, Shape] | None = None,
    constants: Mapping[str, np.ndarray] | None = None,
    limits: Limits | None = None,
    same_names: bool = True,
    same_data_sizes: bool = True,
) -> OnnxModel:
    """Import an ONNX model (a path, bytes or a ModelProto) into `context`.

    `shapes` fixes dynamic dimensions of inputs (the model's, and those of the compiled part that its border produces) by name, and gives the
    structure of sequences and optionals: each then becomes several tensor inputs (see `fix_structure`). `constants` turns inputs into constants (for
    axes, sizes and the like, which must be known). Unless `same_names`, dynamic dimensions with one name may have different sizes; unless
    `same_data_sizes`, each data-dependent size may be 1 if it broadcasts.

    Large weights are views of the file or bytes, not copies. Raises ModelError if the model is malformed, UnsupportedError listing every unsupported
    node, InputError if `shapes` or `constants` do not fit the model, LimitError, naming the node, if the model would cost more than `limits` allow.
    Deviations from the standard whose meaning is clear are accepted with a ModelWarning.
    """
    budget = Budget(limits or Limits())
    with foreign_errors("the model cannot be read"):
        read = read_source(source)
    try:
        given = printable_keys(shapes or {}), printable_keys(constants or {})
        return _import(read, context, *given, budget, same_names=same_names, same_data_sizes=same_data_sizes)
    finally:
        for text in read.notices.texts():
            warn_caller(ModelWarning(text))


def _import(
    read: Source, context: ir.Context, shapes: Mapping[str, Shape], constants: Mapping[str, np.ndarray], budget: Budget, *, same_names: bool,
    same_data_sizes: bool,
) -> OnnxModel:  # fmt: skip
    """Import a model that was read."""
    model, ir_version = read.model, read.model.ir_version
    with foreign_errors("the model cannot be read"):
        unify_domains(model)
        adopt_operators(model)
        name_nodes(model.graph.node, read.notices)
        repair(model, read.notices)
        if not same_names:
            free_names(model, lambda name: True)
        opsets = opset_versions(model.opset_import)
        given = {value.name for value in model.graph.input}
        tensor_shapes, structures = fix_structure(model, {name: shape for name, shape in shapes.items() if name in given})
        fix_shapes(model, tensor_shapes, read.initializers, read.notices)
        fix_values(read, {name: array for name, array in constants.items() if name in given})
        border = split_border(read, opsets)
        functions = local_functions(model, budget.limits)
        check_known_ops(model, functions, opsets)
        fix_shapes(model, {name: shape or () for name, shape in shapes.items() if name not in given}, read.initializers, read.notices)
        fix_values(read, {name: array for name, array in constants.items() if name not in given})
        spell_out_defaults(model)
        refuse_hazards(model)
        declared = declared_types(model.graph)
        inferred = infer(model, read.notices)
        if structures:
            _raise_needs(read, inferred.model.graph, structures, border)
    conversion = Conversion(inferred.model, read, functions, context, budget, declared, ImportBuilder if same_data_sizes else StretchingBuilder)
    try:
        module = conversion.run()
    except NeedsError as error:
        _describe(error, read, border)
        raise
    except StepwellError as error:
        if inferred.objection and not isinstance(error, (UnsupportedError, LimitError)):  # ONNX saw it first
            raise ModelError(f"the types in the model do not fit together: {inferred.objection}") from error
        raise
    if inferred.objection:
        read.notices.add("inference", f"ONNX's inference of types fails, Stepwell's own holds: {inferred.objection}")
    read.initializers.clear()  # unused ones need not stay in memory
    return OnnxModel(
        module=module, weights=conversion.weights, inputs=conversion.inputs, outputs=conversion.outputs, nodes=conversion.nodes,
        content=read.content, files=read.external.files, budget=budget, warnings=tuple(read.notices.texts()), groups=tuple(conversion.groups),
        elements=tuple(conversion.elements), border=border, opsets=opsets, ir_version=ir_version,
        producer=f"{model.producer_name} {model.producer_version}".strip(), name=model.graph.name,
    )  # fmt: skip


def _raise_needs(read: Source, graph: GraphProto, structures: Sequence[TensorInfo], border: Border | None) -> None:
    """Raise NeedsError for inputs that are sequences or optionals, unless part of the model has an unsupported type."""
    values = [value for value in graph.input if value.name not in read.initializers]
    symbols = Symbols(name for value in values for name in filter(None, dim_names(value)))
    inputs = []
    for value in values:
        tensor = onnx_tensor_type(value.type)
        inputs.append(declared_info(value, None if tensor is None else symbols.of_input(value.name, tensor, dim_names(value))))
    outputs = [declared_info(value, onnx_tensor_type(value.type)) for value in graph.output]
    if any(info is None or (not info.form and info.shape == UNRANKED) for info in inputs) or None in outputs:
        return
    shown = ", ".join(f"'{info.name}' {info}" for info in structures)
    text = f"inputs that are sequences or optionals ({shown}) are not supported; supported: such whose elements are known: give their shapes"
    error = NeedsError(text, details=[], needs=Needs(structure=text), inputs=[i for i in inputs if i], outputs=[o for o in outputs if o])
    _describe(error, read, border)
    raise error


def _describe(error: NeedsError, read: Source, border: Border | None) -> None:
    """Add the origin of the model to an error about it."""
    error.content, error.files, error.unread = read.content, read.external.files, read.external.unread()
    error.warnings, error.border = tuple(read.notices.texts()), border
