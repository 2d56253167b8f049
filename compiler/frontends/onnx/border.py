"""Separates the nodes with strings and maps at the border of a model, which run in Python, from the rest, which is compiled."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from stepwell.border.border import Border
from stepwell.border.lookup import find_operator
from stepwell.border.nodes import BorderNode
from stepwell.border.registry import NUMBER, Kind, Operator
from stepwell.dialects.core.dtypes import to_numpy
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.support.errors import ModelError, StepwellError, UnsupportedError
from stepwell.frontends.onnx.attributes import attribute_value
from stepwell.frontends.onnx.border_spelling import spell_strings_as_numbers
from stepwell.frontends.onnx.functions import operator_key
from stepwell.frontends.onnx.problems import Problems, node_problem
from stepwell.frontends.onnx.source import Source, refill
from stepwell.frontends.onnx.structure import structured
from stepwell.frontends.onnx.tensors import DTYPES, SUPPORTED_DTYPES, dim_names, dtype_name, string_array
from stepwell.frontends.onnx.validation import FunctionKey, function_key
from stepwell.frontends.onnx.walking import nested_nodes
from stepwell.frontends.symbols import Symbols
from stepwell.signature import MAP, SEQUENCE, STRING, UNRANKED, TensorInfo, is_string

WHERE = "strings and maps are supported at the border of a model, before and behind all that is compiled (docs/strings.md)"


def split_border(source: Source, opsets: Mapping[str, int]) -> Border | None:
    """Remove the nodes at the border from a model whose nodes are sorted, in place, and unused nodes with strings.

    None if it has no border. The model's inputs are then those of its remaining nodes, including results of border nodes for these; its outputs are
    results that are the model's outputs or that border nodes take. Raises UnsupportedError or ModelError, naming the nodes, for strings and maps
    elsewhere.
    """
    model = source.model
    functions = {function_key(function) for function in model.functions}
    if not _has_any(model, opsets, functions):
        return None
    versions = spell_strings_as_numbers(model, opsets, functions)
    parting = _Parting(source, versions, functions)
    parting.walk(_used(model, versions, functions))
    parting.problems.raise_any()
    border = parting.part()
    return border if border.before or border.behind or parting.has_foreign else None


def operator_of(node: NodeProto, opsets: Mapping[str, int], functions: Iterable[FunctionKey]) -> Operator | None:
    """The Python implementation of a node; None if it cannot run there."""
    return None if function_key(node) in functions else find_operator(*operator_key(node, opsets))


def border_attributes(node: NodeProto) -> dict[str, Any]:
    """The attributes of a node, including tensors of strings. Raises ModelError or UnsupportedError."""
    return {a.name: _value(a) for a in node.attribute}


def _value(attribute: AttributeProto) -> Any:
    return string_array(attribute.t) if _is_text(attribute) else attribute_value(attribute)


def _is_text(attribute: AttributeProto) -> bool:
    return attribute.type == AttributeProto.TENSOR and attribute.t.data_type == TensorProto.STRING


def _of_strings(node: NodeProto, operator: Operator | None) -> bool:
    """Whether a node handles strings or maps, whatever its inputs are."""
    decides = operator is not None and operator.of_strings
    if not callable(decides):
        return decides
    try:
        # Tensors of numbers, which may be large and do not make a node one of strings, are not read for that.
        return decides({a.name: _value(a) for a in node.attribute if a.type != AttributeProto.TENSOR or _is_text(a)})
    except StepwellError:  # a node that its rule will report
        return False


def _has_any(model: ModelProto, opsets: Mapping[str, int], functions: set[FunctionKey]) -> bool:
    """Whether there may be strings or maps outside graphs inside nodes."""
    foreign = any(input_kind(value) is not None for value in model.graph.input)
    foreign = foreign or any(tensor.data_type == TensorProto.STRING for tensor in model.graph.initializer)
    texts = ("classlabels_strings", "cats_strings", "pool_strings")
    return foreign or any(
        any(a.name in texts for a in node.attribute) or _of_strings(node, operator_of(node, opsets, functions)) for node in model.graph.node
    )


def input_kind(value: ValueInfoProto) -> Kind | None:
    """The kind of an input of strings or maps, without its shape; None for any other."""
    kind, form = value.type, []
    if kind.WhichOneof("value") == "sequence_type" and kind.sequence_type.elem_type.WhichOneof("value") == "map_type":
        kind, form = kind.sequence_type.elem_type, [SEQUENCE]
    if kind.WhichOneof("value") == "map_type":
        held = kind.map_type.value_type.tensor_type.elem_type
        if held != TensorProto.STRING and held not in DTYPES:
            return None
        keys = STRING if kind.map_type.key_type == TensorProto.STRING else np.dtype(np.int64)
        return Kind(STRING if held == TensorProto.STRING else to_numpy(DTYPES[held]), (), (*form, MAP), keys)
    if kind.WhichOneof("value") == "tensor_type" and kind.tensor_type.elem_type == TensorProto.STRING:
        return Kind(STRING, UNRANKED)
    return None


def _info(value: ValueInfoProto, symbols: Symbols) -> TensorInfo:
    """The description of an input. Raises UnsupportedError for an unsupported type."""
    kind = input_kind(value)
    if kind is not None and is_string(kind.dtype) and not kind.form:
        return TensorInfo(value.name, _named_shape(value, symbols), STRING)
    if kind is not None:
        return kind.info(value.name)
    whole = structured(value.name, value.type)
    if whole is not None:
        return whole
    elem_type = value.type.tensor_type.elem_type
    if value.type.WhichOneof("value") != "tensor_type" or elem_type not in DTYPES:
        what = f"element type {dtype_name(elem_type)}" if value.type.WhichOneof("value") == "tensor_type" else str(value.type.WhichOneof("value"))
        raise UnsupportedError(f"input '{value.name}': {what} is not supported; supported: tensors of {SUPPORTED_DTYPES} or strings, maps of such")
    return TensorInfo(value.name, _named_shape(value, symbols), to_numpy(DTYPES[elem_type]))


def _named_shape(value: ValueInfoProto, symbols: Symbols) -> tuple[int | str | None, ...]:
    """The shape of an input with a name for each dynamic size, as in the compiled part."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return UNRANKED
    sizes = tuple(d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else None for d in tensor.shape.dim)
    named = symbols.of_input(value.name, TensorType("i1", sizes), dim_names(value))  # the element type does not matter
    return tuple(size if isinstance(size, int) or size is None else str(size) for size in named.shape)


def _reads(node: NodeProto) -> list[str]:
    """The names that a node, and nodes of graphs inside it, read."""
    return [name for user in nested_nodes([node]) for name in user.input if name]


def _used(model: ModelProto, opsets: Mapping[str, int], functions: set[FunctionKey]) -> list[NodeProto]:
    """The nodes of a model without unused ones that could run in Python."""
    wanted, kept = {value.name for value in model.graph.output}, []
    for node in reversed(model.graph.node):
        if operator_of(node, opsets, functions) is None or any(name in wanted for name in node.output):
            kept.append(node)
            wanted.update(_reads(node))
    return kept[::-1]


@dataclass
class _Parting:
    """Sorts the nodes of a model into those before, those that are compiled, and those after."""

    source: Source
    opsets: Mapping[str, int]
    functions: set[FunctionKey]
    before: list[BorderNode] = field(default_factory=list)
    compiled: list[NodeProto] = field(default_factory=list)
    behind: list[BorderNode] = field(default_factory=list)
    problems: Problems = field(default_factory=Problems)
    constants: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        graph, weights = self.source.model.graph, self.source.initializers
        self._texts = {tensor.name: tensor for tensor in graph.initializer if tensor.data_type == TensorProto.STRING}
        self._inputs = [value for value in graph.input if value.name not in weights]
        symbols = Symbols(name for value in self._inputs for name in filter(None, dim_names(value)))
        self.infos = [_info(value, symbols) for value in self._inputs]
        self._kinds: dict[str, Kind] = {info.name: Kind.from_info(info) for info in self.infos}
        self._early = {*self._kinds, *weights, ""}
        """The values that are known, or could be, before compiled code runs."""
        self._late: set[str] = set()
        """The values that are computed after compiled code."""
        self._foreign = {name for name, kind in self._kinds.items() if kind.is_foreign} | self._texts.keys()
        self._spare: dict[str, NodeProto] = {}
        """Compiled nodes that could run before as well, by the values that they make."""
        self._lost: set[str] = set()

    @property
    def has_foreign(self) -> bool:
        """Whether an input or an output has strings or maps."""
        return bool(self._foreign)

    def walk(self, nodes: Sequence[NodeProto]) -> None:
        """Sort the nodes. Problems are recorded."""
        for node in nodes:
            reads = _reads(node)
            if not self._lost.isdisjoint(reads):
                self._lost.update(node.output)
                continue
            operator = operator_of(node, self.opsets, self.functions)
            foreign = not self._foreign.isdisjoint(reads) or _of_strings(node, operator)
            early = operator is not None and self._early.issuperset(reads)
            if not foreign and self._late.isdisjoint(reads):
                self.compiled.append(node)
                if early:
                    self._early.update(node.output)
                    self._spare.update((name, node) for name in node.output if name)
                continue
            try:
                if operator is None:
                    which = next(name for name in reads if name in self._foreign or name in self._late)
                    made = "of strings or maps" if which in self._foreign else "made by nodes that run in Python, behind what is compiled"
                    raise UnsupportedError(f"its input '{which}' is {made}, which is not supported here; {WHERE}")
                self._place(node, early=early)
            except (ModelError, UnsupportedError) as error:
                self._note(node, error)

    def _note(self, node: NodeProto, error: StepwellError) -> None:
        text = node_problem(node, self.opsets, str(error.args[0]))
        self.problems.add(node.name, text, malformed=isinstance(error, ModelError))
        self._lost.update(node.output)

    def _place(self, node: NodeProto, *, early: bool) -> None:
        """Let a node run in Python, before or after. Raises ModelError or UnsupportedError."""
        (domain, name, opset), names = operator_key(node, self.opsets), tuple(node.input)
        made = BorderNode(name, domain, opset, node.name, names, tuple(node.output), border_attributes(node))
        for value in filter(None, names):
            self._know(value)
        kinds = made.infer(self._kinds)
        self._kinds.update(kinds)
        self._foreign.update(name for name, kind in kinds.items() if kind.is_foreign)
        (self.before if early else self.behind).append(made)
        (self._early if early else self._late).update(name for name in node.output if name)

    def _know(self, name: str) -> None:
        """Make a value that a border node reads known: as a constant, by nodes before, or as a future result of compiled code."""
        if name in self._kinds:
            return
        if name in self._texts or name in self.source.initializers:
            array = string_array(self._texts[name]) if name in self._texts else self.source.initializers[name]()
            self.constants[name] = array
            self._kinds[name] = Kind.constant(array)
        elif name in self._spare:
            self._place(self._spare[name], early=True)
        else:
            self._kinds[name] = Kind(NUMBER, UNRANKED)

    def part(self) -> Border:
        """Remove the nodes that run in Python from the model."""
        graph, weights = self.source.model.graph, self.source.initializers
        outputs = [value.name for value in graph.output]
        for name in outputs:
            if name in self._texts:
                self._know(name)
        border = Border(tuple(self.infos), tuple(outputs), tuple(self.before), tuple(self.behind), self.constants)
        made = {name for node in self.compiled for name in node.output if name}
        own = {name for node in (*self.before, *self.behind) for name in node.outputs}
        returned = [value for value in graph.output if value.name in made or (value.name not in own and value.name not in self._foreign)]
        taken = dict.fromkeys(name for node in self.behind for name in node.inputs if name in made)
        known = {value.name: value for value in graph.value_info}
        returned += [known.get(name, _untyped(name)) for name in taken if name not in {value.name for value in returned}]
        reads = {name for node in self.compiled for name in _reads(node)} | {value.name for value in returned}
        in_python = border.reads
        inputs = [v for v in self._inputs if v.name not in self._foreign and (v.name in reads or (returned and v.name not in in_python))]
        before = dict.fromkeys(name for node in self.before for name in node.outputs if name in reads and name not in made)
        inputs += [_value_info(name, self._kinds[name]) for name in before]
        declared = [v for v in graph.input if v.name in weights and v.name in reads]
        for name in [name for name in weights if name not in reads]:
            del weights[name]
        tensors = [tensor for tensor in graph.initializer if tensor.name in weights and tensor.name not in self._texts]
        infos = [value for value in graph.value_info if value.name in made]
        refill(graph, "node", self.compiled)
        refill(graph, "input", [*inputs, *declared])
        refill(graph, "output", returned)
        refill(graph, "initializer", tensors)
        refill(graph, "value_info", infos)
        return border


def _untyped(name: str) -> ValueInfoProto:
    """An output of some type."""
    value = ValueInfoProto(name=name)
    value.type.tensor_type.SetInParent()
    return value


def _value_info(name: str, kind: Kind) -> ValueInfoProto:
    """An input of the compiled part that a node before it produces."""
    shape = None if kind.shape == UNRANKED else list(kind.shape)
    assert not is_string(kind.dtype)
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(kind.dtype), shape)
