"""Builds the ops of a model's nodes one by one, through rules, functions and graphs inside nodes, and notes what cannot be imported."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Any

from onnx import FunctionProto, GraphProto, NodeProto

from stepwell.dialects.core.locations import node_location
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import UndecidedError, assume, assumptions
from stepwell.dialects.core.types import TensorType, type_of
from stepwell.dialects.graph.origins import Origins
from stepwell.dialects.support.errors import ElementTypeError, InferenceError, LimitError, ModelError, StepwellError, UnsupportedError
from stepwell.dialects.support.limits import Budget, over
from stepwell.dialects.support.origins import line_of, plugin_line
from stepwell.frontends.blocks.rounding import narrow_type, widened
from stepwell.frontends.builder import NotConstantError
from stepwell.frontends.onnx.attributes import attribute_value, resolved
from stepwell.frontends.onnx.branches import BranchesDifferError, guarded, with_following_nodes, with_own_sizes
from stepwell.frontends.onnx.builder import ImportBuilder, NodeContext, NotResolvedError
from stepwell.frontends.onnx.frames import Binding, Frame, Unavailable, graph_types
from stepwell.frontends.onnx.functions import domain_of, operator_key, schema_function
from stepwell.frontends.onnx.inference import check_infer, check_types
from stepwell.frontends.onnx.problems import CollectedNeeds, Problems, node_problem
from stepwell.frontends.onnx.registry import find_rule, missing_rule
from stepwell.frontends.onnx.rounding import narrowed
from stepwell.frontends.onnx.sequences import AnyValue
from stepwell.frontends.onnx.source import Source
from stepwell.frontends.onnx.tensors import tensor_array
from stepwell.frontends.onnx.validation import FunctionKey, function_key, unique_name
from stepwell.frontends.onnx.walking import nested_nodes

MAX_DEPTH = 120
_DECIDED_BY = {"If": 1, "Loop": 2}  # operators that are simple if this many of their first inputs are known


class _ReportedError(StepwellError):
    """A node cannot be imported because of other nodes, which were already reported."""


@dataclass(frozen=True)
class _Start:
    """A state of an import to return to: recorded problems, number of nodes, names, and the block with its operations so far."""

    noted: tuple[Problems, CollectedNeeds]
    nodes: int
    names: dict[str, int]
    block: ir.Block
    operations: int


@dataclass
class NodeConversion:
    """The nodes of one import. `import_nodes` builds those of a graph; `problems` and `needs` say what stops it, `nodes` how they are named."""

    source: Source
    functions: Mapping[FunctionKey, FunctionProto]
    budget: Budget
    declared: Mapping[str, TensorType]  # the declared types of the values of nodes in the main graph
    builder: ImportBuilder
    nodes: list[str]
    problems: Problems = field(default_factory=Problems)
    needs: CollectedNeeds = field(default_factory=CollectedNeeds)

    def __post_init__(self) -> None:
        self._names = dict.fromkeys(self.nodes, 0)
        self._around: list[tuple[NodeProto, Frame]] = []
        """The nodes that are being imported, each in a graph or a function of the one before."""
        self._imported = 0
        self._depth = 0

    def _load_initializers(self, node: NodeProto, frame: Frame) -> None:
        """Create the parameters that this node of the main graph, or a graph inside it, is the first to use."""
        for user in nested_nodes([node]):
            for name in user.input:
                if name in self.source.initializers and name not in frame.values:
                    try:
                        frame.values[name] = self.initializer(name)
                    except LimitError as error:
                        raise LimitError(node_problem(node, frame.opsets, str(error.args[0])), details=[node.name]) from None
                    except StepwellError as error:
                        self._report(node, frame, error)
                        frame.values[name] = Unavailable()
                        frame.tainted.add(name)

    def initializer(self, name: str) -> ir.Value:
        """Create a parameter for an initializer of the main graph."""
        array = self.source.initializers[name]()
        self.budget.given_bytes += array.nbytes
        return self.builder.weight(name, array)

    def _placeholder(self, name: str, tensor: TensorType | None) -> Binding:
        """A dummy value of that type, in a module that will be discarded."""
        if tensor is None:
            return Unavailable()
        mlir_type = self.builder.symbols.completed(name, tensor).to_mlir()
        return ir.Operation.create("builtin.unrealized_conversion_cast", results=[mlir_type]).results[0]

    def import_nodes(self, nodes: Sequence[NodeProto], frame: Frame, wanted: Sequence[str]) -> None:
        """Import the nodes of a graph or of a function body whose results are the values with the names `wanted`."""
        waiting = deque(enumerate(nodes))
        while waiting:
            i, original = waiting.popleft()
            node, index = self._named(original, i, frame)
            with node_location(node.name, index):
                if frame.is_main:
                    self._load_initializers(node, frame)
                try:
                    self._import_node(node, frame, index)
                except BranchesDifferError:
                    moved = with_following_nodes(original, [later for _, later in waiting], wanted)
                    if moved is None:
                        self._import_node(node, frame, index, is_last_try=True)
                        continue
                    places = {id(later): place for place, later in waiting}
                    waiting = deque([*((places[id(later)], later) for later in moved[0]), (i, moved[1])])

    def _named(self, original: NodeProto, number: int, frame: Frame) -> tuple[NodeProto, int]:
        """A node under the name by which it is known, and the index of this name; unchanged in the main graph."""
        if frame.is_main:
            return original, number
        node = NodeProto()
        node.CopyFrom(original)
        if frame.owner is None:
            node.name = unique_name(f"{frame.prefix}{node.name or f'{node.op_type}_{number}'}", self._names)
            self.nodes.append(node.name)
            return node, len(self.nodes) - 1
        node.name, index = frame.owner
        return node, index

    def _import_node(self, node: NodeProto, frame: Frame, index: int, *, is_last_try: bool = False) -> None:
        """Import one node under the current location and bind its outputs.

        A failure is reported, and placeholders of the types that ONNX infers let the walk go on; inside ONNX's definition of an operator it is
        raised, to be reported for the node with that operator. Raises BranchesDifferError if that is the problem, unless sizes decide which branch it
        is, or it is the last try.
        """
        self._imported += 1
        if self._imported > self.budget.limits.operations:
            what = f"importing {node.op_type} '{node.name}': the model's nodes, with functions and loops expanded,"
            raise over(what, "operations", self._imported, self.budget.limits)
        self.budget.check_time(f"importing {node.op_type} '{node.name}'")
        tainted = frame.depends_on_problems(node)
        if frame.depends_on_doubts(node):
            frame.doubtful.update(name for name in node.output if name)
        values: tuple[Binding, ...] | None = None
        try:
            self._around.append((node, frame))
            try:
                values = self._values(resolved(node, frame.attributes), frame, index)
            finally:
                self._around.pop()
            check_types(node, values, frame, self.declared, self.source.notices)
        except BranchesDifferError as error:
            origins = self._solution(error, node, frame)
            only_sizes = origins is not None and not origins.arguments  # code specialised for them has one branch
            if frame.owner is not None or not (is_last_try or only_sizes):
                raise
            self._report(node, frame, error)
        except (InferenceError, ModelError, UnsupportedError) as error:
            if frame.owner is not None:
                text = f"ONNX defines it by {node.op_type} (opset {frame.opsets.get('', 0)}): {error.args[0]}"
                origins = self._solution(error, node, frame)
                raise (type(error)(text) if origins is None else NotConstantError(text, origins=origins)) from None
            if not (tainted and isinstance(error, NotConstantError)):  # it might be constant if earlier nodes had been imported
                self._report(node, frame, error)
            values = None
        except _ReportedError:
            if frame.owner is not None:
                raise
        except LimitError as error:
            if error.details:  # raised for a node inside this one, which the message names
                raise
            raise LimitError(node_problem(node, frame.opsets, str(error.args[0])), details=[node.name]) from None
        except StepwellError as error:
            line = plugin_line(error) if type(error) is StepwellError else ""  # of no particular kind, such as an op that the builder does not know
            if not line or line in str(error):
                raise
            raise StepwellError(f"{node_problem(node, frame.opsets, str(error.args[0]))}{line}") from error
        except Exception as error:  # a bug in a rule may raise anything
            said = f"{type(error).__name__}: {error}{plugin_line(error)}"
            raise StepwellError(f"internal error while importing {node_problem(node, frame.opsets, said)}") from error
        self._bind_outputs(node, frame, values, is_tainted=tainted)

    def _bind_outputs(self, node: NodeProto, frame: Frame, values: tuple[Binding, ...] | None, *, is_tainted: bool) -> None:
        """Bind the outputs that are named: to placeholders without `values`; what a rule does not give is unavailable."""
        for i, name in enumerate(node.output):
            if not name:
                continue
            if values is None:
                frame.values[name] = self._placeholder(name, frame.inferred(name))
            elif i < len(values) and (value := values[i]) is not None:
                if isinstance(value, Unavailable) and value.problem and not value.about:  # a rule's, which does not know its node
                    value = Unavailable(node.name, node_problem(node, frame.opsets, value.problem))
                frame.values[name] = value
            else:
                given = next((n for n, value in enumerate(values) if value is None), len(values))
                rule = find_rule(*operator_key(node, frame.opsets)) if given == 0 else None
                if rule is not None and (line := line_of(rule.function)):
                    raise StepwellError(node_problem(node, frame.opsets, f"its importer rule must give a value for each output, it gave none{line}"))
                reason = f"output number {i} is used, which is not supported; supported: the first {given}"
                frame.values[name] = Unavailable(node.name, node_problem(node, frame.opsets, reason))
            if is_tainted or values is None:
                frame.tainted.add(name)

    def _values(self, node: NodeProto, frame: Frame, index: int) -> tuple[Binding, ...]:
        """Build a node's outputs from a function of the model, a rule, or ONNX's definition of the operator."""
        inputs = [frame.lookup(name) if name else None for name in node.input]
        for value in inputs:
            if isinstance(value, Unavailable) and value.problem:
                self.problems.add(value.about, value.problem)
        local = self.functions.get(function_key(node))
        if local is not None:
            return self._call(local, node, inputs, frame, None)
        domain, name, opset = operator_key(node, frame.opsets)
        if domain not in frame.opsets:
            raise ModelError(f"the model imports no opset of the domain '{node.domain}'")
        rule = find_rule(domain, name, opset)
        available = [v for v in inputs if not isinstance(v, Unavailable)]
        if rule is None:
            if len(available) != len(inputs):
                raise UnsupportedError(missing_rule(domain, name))
            narrow = narrow_type(available)
            given = available if narrow is None else widened(self.builder, available)
            types = [type_of(v) if isinstance(v, ir.Value) else None for v in given]
            definition = schema_function(node, domain, opset, types)
            if definition is None:
                raise UnsupportedError(missing_rule(domain, name))
            made = self._call(definition, node, given, frame, (node.name, index))
            return made if narrow is None else narrowed(self.builder, made, narrow, [frame.inferred(name) for name in node.output])
        if len(available) != len(inputs):
            raise _ReportedError("an input is unavailable")
        context = NodeContext(
            opset,
            tuple(node.output),
            tuple(frame.inferred(name) for name in node.output),
            lambda graph, arguments: self._import_graph(graph, arguments, node, frame),
            self._attempt,
            lambda branches: self._import_branches(branches, node, frame),
        )
        with self.builder.at_node(context):
            return rule.apply(self.builder, available, {a.name: attribute_value(a) for a in node.attribute})

    def _call(
        self, function: FunctionProto, node: NodeProto, inputs: Sequence[Binding], frame: Frame, owner: tuple[str, int] | None
    ) -> tuple[Binding, ...]:
        """Inline a function at a call."""
        if len(inputs) > len(function.input) or len(node.output) > len(function.output):
            raise ModelError(f"the function takes {len(function.input)} inputs and returns {len(function.output)} outputs")
        taken = [*function.attribute, *(a.name for a in function.attribute_proto)]
        unknown = [a.name for a in node.attribute if a.name not in taken]
        if unknown:
            raise ModelError(f"the function takes no attribute '{unknown[0]}'; it takes {', '.join(taken) or 'none'}")
        body = Frame(
            {**frame.opsets, **{domain_of(entry.domain): entry.version for entry in function.opset_import}},
            values={name: inputs[i] if i < len(inputs) else None for i, name in enumerate(function.input)},
            prefix=f"{node.name}/",
            owner=frame.owner or owner,
            attributes={a.name: a for a in [*function.attribute_proto, *node.attribute]},
        )
        body.tainted.update(name for name, given in zip(function.input, node.input, strict=False) if frame.is_tainted(given))
        with self._inside(1):
            self.import_nodes(function.node, body, function.output)
        return tuple(body.lookup(name) if wanted else None for name, wanted in zip(function.output, node.output, strict=False))

    def _import_graph(self, graph: GraphProto, arguments: Sequence[AnyValue], node: NodeProto, frame: Frame) -> tuple[AnyValue, ...]:
        """Import a graph inside a node at the current insertion point; values around the node are visible in it."""
        if len(arguments) != len(graph.input):
            raise ModelError(f"its graph '{graph.name}' takes {len(graph.input)} inputs, expected {len(arguments)}")
        inner = Frame(frame.opsets, frame, types=graph_types(graph), prefix=f"{node.name}/", owner=frame.owner, attributes=frame.attributes)
        for tensor in graph.initializer:
            inner.values[tensor.name] = self.builder.weight(tensor.name, tensor_array(tensor))
        inner.values.update(zip((value.name for value in graph.input), arguments, strict=True))
        with self._inside(2):  # a graph takes about twice as many Python frames as a function
            self.import_nodes(graph.node, inner, [output.name for output in graph.output])
        results = [inner.lookup(output.name) for output in graph.output]
        values = tuple(value for value in results if value is not None and not isinstance(value, Unavailable))
        if len(values) != len(results):
            raise _ReportedError("a result of a graph inside the node is unavailable")
        return values

    def _import_branches(self, branches: Sequence[tuple[ir.Block, GraphProto]], node: NodeProto, frame: Frame) -> list[Any]:
        """The values of each branch of a conditional, built at the end of its block; or a text for one that cannot be valid.

        Errors in that branch are then no problem of the model, in which the other one may be the only one that is ever taken.
        """
        made: list[Any] = []
        wrong: list[list[str] | None] = []
        states = []
        for block, graph in branches:
            states.append(self._noted())
            try:
                with ir.InsertionPoint(block):
                    made.append(self._import_branch(graph, node, frame))
            except (InferenceError, ModelError, UnsupportedError, _ReportedError) as error:
                made.append(error)
            wrong.append(self.problems.since(states[-1][0], made[-1]))
        for i, texts in enumerate(wrong):
            if texts and wrong[1 - i] == []:
                self.problems, self.needs = states[i]
                made[i] = "; ".join(texts)
                what = f"'{branches[i][1].name}', a branch of {node.op_type} '{node.name}', cannot be valid here, and is an error where it is taken"
                self.source.notices.add("branch", f"{what}: {made[i]}")
                return made
        for values in made:
            if isinstance(values, Exception):
                raise values
        return made

    def _import_branch(self, graph: GraphProto, node: NodeProto, frame: Frame) -> tuple[AnyValue, ...]:
        """The values of a branch. It is built a second time if it assumes anything about data-dependent sizes, with separate names for these."""
        known, start = self.builder.symbols.names, self._start()
        with assumptions() as assumed:
            values = self._import_graph(graph, (), node, frame)
        names = guarded(assumed, known, self.builder.symbols)
        if names:
            self._back_to(start)
            return self._import_graph(graph, (), node, with_own_sizes(self.builder, graph, frame, names))
        for assumption in assumed:
            assume(assumption)
        return values

    def _noted(self) -> tuple[Problems, CollectedNeeds]:
        """The problems and needs recorded so far, to return to."""
        return deepcopy(self.problems), replace(self.needs, values=dict(self.needs.values))

    def _attempt(self, build: Callable[[], Any]) -> Any:
        """The result of `build`; None, with nothing left of it, if it raises an error about the model or reports a problem of a node inside."""
        start = self._start()
        with suppress(InferenceError, LimitError, ModelError, UnsupportedError, _ReportedError):
            made = build()
            if (self.problems, self.needs) == start.noted:
                return made
        self._back_to(start)
        return None

    def _start(self) -> "_Start":
        """The current state, to return to."""
        block = ir.InsertionPoint.current.block
        return _Start(self._noted(), len(self.nodes), dict(self._names), block, len(block.operations))

    def _back_to(self, start: "_Start") -> None:
        """Remove everything that was built and recorded since then."""
        (self.problems, self.needs), self._names = start.noted, start.names
        del self.nodes[start.nodes :]
        for op in reversed(list(start.block.operations)[start.operations :]):
            self.builder.erase(op.operation)

    @contextmanager
    def _inside(self, depth: int) -> Iterator[None]:
        """Nest one level deeper inside the block. Raises UnsupportedError before Python's stack overflows."""
        if self._depth + depth > MAX_DEPTH:
            raise UnsupportedError(f"graphs and functions nested more than {MAX_DEPTH} deep (a graph counts twice) are not supported")
        self._depth += depth
        try:
            yield
        finally:
            self._depth -= depth

    def _report(self, node: NodeProto, frame: Frame, error: StepwellError) -> None:
        reason = str(error.args[0])
        # If an op's inference rejects its operands, the model is malformed, except for element types: we support fewer than ONNX.
        malformed = isinstance(error, (ModelError, InferenceError)) and not isinstance(error, ElementTypeError)
        if malformed:
            check_infer(frame.lookup(name) for user in nested_nodes([node]) for name in user.input if name and frame.has(name))
        origins = self._solution(error, node, frame)
        if origins is not None:
            refusal = self.needs.add(origins, node_problem(node, frame.opsets, reason))
            reason, origins = (reason, origins) if refusal is None else (f"{reason}; {refusal}", None)
        provisional = origins is not None or frame.depends_on_problems(node)
        self.problems.add(node.name, node_problem(node, frame.opsets, reason), malformed=malformed, provisional=provisional)

    def _solution(self, error: StepwellError, node: NodeProto, frame: Frame) -> Origins | None:
        """The inputs that must be known for the node to be imported; None if that does not solve its problem."""
        find = self.builder.origins
        origins: Origins | None = None
        if isinstance(error, NotConstantError):
            origins = error.origins or (find.of_sizes(error.sizes) if error.operand is None else find.origins_of(error.operand))
        elif isinstance(error, UndecidedError):
            origins = self.builder.symbols.all_origins()
        elif isinstance(error, NotResolvedError):
            origins = next(filter(None, (self._deciding(*around) for around in reversed(self._around))), None)
        elif isinstance(error, UnsupportedError):
            origins = self._deciding(node, frame)
        return origins or None

    def _deciding(self, node: NodeProto, frame: Frame) -> Origins | None:
        """The inputs that decide about the branches or iterations of a node; None if something else does, or it has none."""
        if node.op_type not in _DECIDED_BY or domain_of(node.domain) != "":
            return None
        given = [frame.lookup(name) for name in node.input[: _DECIDED_BY[node.op_type]] if name]
        parts = [self.builder.origins.origins_of(value) if isinstance(value, ir.Value) else None for value in given]
        return None if None in parts else reduce(or_, (part for part in parts if part is not None), Origins())
