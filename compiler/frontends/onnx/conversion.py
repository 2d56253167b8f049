"""Makes the `graph` module of a checked model: its inputs, the ops of its nodes, and its outputs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from onnx import FunctionProto, GraphProto, ModelProto

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Size
from stepwell.dialects.core.types import TensorType, to_numpy, type_of
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.support.errors import ModelError, StepwellError
from stepwell.dialects.support.limits import Budget
from stepwell.frontends.base import NeedsError
from stepwell.frontends.main_function import MainFunction
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.frames import Frame, Unavailable, graph_types
from stepwell.frontends.onnx.node_conversion import NodeConversion
from stepwell.frontends.onnx.rules.boxed_sequences import BoxedSequence
from stepwell.frontends.onnx.rules.sequence_forms import parts_of
from stepwell.frontends.onnx.sequences import AnyValue, Nothing, SequenceValue, described
from stepwell.frontends.onnx.source import Source
from stepwell.frontends.onnx.structure import declared_info, structured
from stepwell.frontends.onnx.tensors import SUPPORTED_DTYPES, dim_names, dtype_name, onnx_tensor_type
from stepwell.frontends.onnx.validation import FunctionKey, opset_versions, unique_name
from stepwell.frontends.symbols import Symbols
from stepwell.signature import LIST, NOTHING, OPTIONAL, SEQUENCE, TENSOR, UNRANKED, OutputGroup, TensorInfo, part_name


@dataclass
class Conversion:
    """One import. `run` returns the module; afterwards `nodes`, `inputs` and `outputs` describe it, and `weights` holds its weights."""

    model: ModelProto
    source: Source
    functions: Mapping[FunctionKey, FunctionProto]
    context: ir.Context
    budget: Budget
    declared: Mapping[str, TensorType]  # the declared types of the values of nodes in the main graph
    builder_class: type[ImportBuilder] = ImportBuilder
    weights: WeightTable = field(default_factory=WeightTable)
    inputs: list[tuple[str, TensorType]] = field(default_factory=list)
    outputs: list[tuple[str, TensorType]] = field(default_factory=list)
    groups: list[OutputGroup] = field(default_factory=list)  # the outputs formed, if some are not tensors
    elements: list[tuple[Size | None, ...]] = field(default_factory=list)  # of each input, the symbols that types and attributes use

    def __post_init__(self) -> None:
        inputs = [value for value in self.model.graph.input if value.name not in self.source.initializers]
        self.builder = self.builder_class(self.weights, self.budget, Symbols(name for value in inputs for name in filter(None, dim_names(value))))
        self.nodes = [node.name for node in self.model.graph.node]
        self._walk = NodeConversion(self.source, self.functions, self.budget, self.declared, self.builder, self.nodes)

    def run(self) -> ir.Module:
        """Build the module.

        Raises ModelError or UnsupportedError listing every node that cannot be imported, LimitError for one that costs too much, NeedsError if the
        nodes could be imported if values or sizes of inputs were known.
        """
        graph = self.model.graph
        frame = Frame(opset_versions(self.model.opset_import), types=graph_types(graph))
        self.inputs = self._input_types(graph, frame)
        main = MainFunction(self.context, self.builder, self.inputs)
        self._walk.needs.names = self.builder.inputs
        frame.values.update(zip((name for name, _ in self.inputs), main.arguments, strict=True))
        with main.building():
            self._walk.import_nodes(graph.node, frame, [output.name for output in graph.output])
            main.finish(self._flat(graph, self._results(graph, frame)), self.nodes)
        self.outputs, self.elements = main.outputs, main.elements
        return main.module

    def _input_types(self, graph: GraphProto, frame: Frame) -> list[tuple[str, TensorType]]:
        """The graph inputs that are not initializers. An input of an unsupported type is reported and becomes unavailable."""
        inputs = []
        for value in graph.input:
            if value.name in self.source.initializers:
                continue
            tensor = onnx_tensor_type(value.type)
            if tensor is not None:
                tensor = self.builder.symbols.of_input(value.name, tensor, dim_names(value))
                with _about(f"input '{value.name}'"):
                    self.builder.check_size(tensor)
                inputs.append((value.name, tensor))
                continue
            kind = value.type.WhichOneof("value") or "no type"
            what = f"element type {dtype_name(value.type.tensor_type.elem_type)}" if kind == "tensor_type" else kind.replace("_", " ")
            problem = f"input '{value.name}': {what} is not supported; supported: tensors of {SUPPORTED_DTYPES}, sequences and optionals of such"
            self._walk.problems.add(f"input {value.name}", problem)
            frame.values[value.name] = Unavailable()
            frame.tainted.add(value.name)
        return inputs

    def _results(self, graph: GraphProto, frame: Frame) -> list[tuple[str, AnyValue]]:
        """The values of the graph outputs, by name. Raises any errors found so far."""
        results = []
        for output in graph.output:
            if output.name in self.source.initializers and output.name not in frame.values:
                with _about(f"output '{output.name}'"):
                    frame.values[output.name] = self._walk.initializer(output.name)
            value = frame.lookup(output.name)
            if isinstance(value, (ir.Value, SequenceValue, Nothing)):
                results.append((output.name, value))
            elif isinstance(value, Unavailable) and value.problem:
                self._walk.problems.add(value.about, value.problem)
        if self._walk.needs and self._walk.problems.are_provisional:
            self._raise_needs(graph, frame)
        self._walk.problems.raise_any()
        if len(results) != len(graph.output):
            raise ModelError("an output of the model has no value")
        return results

    def _flat(self, graph: GraphProto, outputs: Sequence[tuple[str, AnyValue]]) -> list[tuple[str, ir.Value]]:
        """The tensors in the outputs, by name; `groups` then describes how they form the outputs."""
        declared = {output.name: structured(output.name, output.type) for output in graph.output}
        if not any(declared.values()) and all(isinstance(value, ir.Value) for _, value in outputs):
            return [(name, value) for name, value in outputs if isinstance(value, ir.Value)]
        flat: list[tuple[str, ir.Value]] = []
        taken = {name: 0 for name, _ in outputs}
        for name, value in outputs:
            parts = parts_of([value])
            info = declared[name] or _info(name, value)
            held = value.held if isinstance(value, SequenceValue) else NOTHING if isinstance(value, Nothing) else TENSOR
            if held != NOTHING and isinstance(value, SequenceValue) != (SEQUENCE in info.form):
                raise ModelError(f"output '{name}' is {described(value)}, but declared as {info}")
            if isinstance(value, BoxedSequence):
                info = replace(TensorInfo.from_type(name, TensorType(value.dtype, value.kind.shape or ())), form=info.form)
            self.groups.append(OutputGroup(info, held, len(parts)))
            names = [unique_name(part_name(name, i), taken) for i in range(len(parts))] if held == LIST else [name] * len(parts)
            flat += zip(names, parts, strict=True)
        return flat

    def _raise_needs(self, graph: GraphProto, frame: Frame) -> None:
        """Raise NeedsError, unless an output is not even of a known element type."""
        outputs = []
        for output in graph.output:
            value = None if frame.is_tainted(output.name) else frame.values.get(output.name)
            tensor = type_of(value) if isinstance(value, ir.Value) else frame.inferred(output.name)
            info = declared_info(output, tensor)
            if info is None:
                return
            outputs.append(info)
        try:
            self._walk.problems.raise_any()
        except StepwellError as error:
            text, details = str(error.args[0]), error.details
        if self._walk.needs.values:
            text += f"\nThe option 'values' gives the inputs {', '.join(self._walk.needs.values)} what they hold."
        inputs = [TensorInfo.from_type(name, kind) for name, kind in self.inputs]
        raise NeedsError(text, details=details, needs=self._walk.needs, inputs=inputs, outputs=outputs)


def _info(name: str, value: AnyValue) -> TensorInfo:
    """The description of an output that the model does not declare."""
    if isinstance(value, ir.Value):
        return TensorInfo.from_type(name, type_of(value))
    is_sequence = isinstance(value, SequenceValue) or value.of_sequence
    form = (*[OPTIONAL] * isinstance(value, Nothing), *[SEQUENCE] * is_sequence)
    return TensorInfo(name, UNRANKED, to_numpy(value.dtype), form)


@contextmanager
def _about(what: str) -> Iterator[None]:
    """Prefix errors raised inside the block with `what`."""
    try:
        yield
    except StepwellError as error:
        raise type(error)(f"{what}: {error.args[0]}") from None
