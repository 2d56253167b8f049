"""The interpreter of graph-level IR: runs ops by their references. Slow and simple; everything else is compared with it."""

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from stepwell.dialects.core.attributes import sizes_value
from stepwell.dialects.core.index_checks import widths
from stepwell.dialects.core.locations import nodes_text
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.module_info import ModuleInfo, ValueInfo
from stepwell.dialects.core.segments import bind_all
from stepwell.dialects.core.sizes import Size, evaluated
from stepwell.dialects.core.types import TensorType, from_numpy, to_numpy, type_of
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.flow import control as flow
from stepwell.dialects.flow.boxes import Boxes, BoxOp, UnboxOp
from stepwell.dialects.graph.base import GraphOp, compatible, map_groups
from stepwell.dialects.graph.control import FusedOp, IfOp, LoopOp, RequireOp
from stepwell.dialects.graph.data_sizes import BindSizesOp, KeepOp
from stepwell.dialects.support.errors import IndexRangeError, InputError, ModelError, StepwellError

Values = MutableMapping[ir.Value, Any]
Observer = Callable[[ir.Operation, Sequence[Any], Sequence[Any]], None]
"""Called with each op that was run, the arrays of its operands and those of its results."""


class NoMeaningError(StepwellError):
    """An op that has no reference meaning for any data."""


def evaluate(
    module: ir.Module, weights: WeightTable, inputs: Mapping[str, np.ndarray], observe: Observer | None = None,
    evaluator_class: "type[Evaluator] | None" = None,
) -> dict[str, np.ndarray]:  # fmt: skip
    """The outputs of `@main` of a module at level `graph` or `graph-opt` for `inputs`, both by name.

    `observe` is called for each op; `evaluator_class` says how they are run. Raises InputError for inputs that do not fit, ModelError for an entry
    that the weight table lacks,
    IndexRangeError for an index out of range, NoMeaningError for an op without one, and StepwellError where else an op has no meaning for its
    data; all name op and node.
    """
    functions = {ir.StringAttr(op.attributes["sym_name"]).value: op for op in module.body.operations if op.operation.name == "func.func"}
    if "main" not in functions:
        raise StepwellError("the module has no function @main")
    main = functions["main"].operation
    block = main.regions[0].blocks[0]
    names = ValueInfo.names(ValueInfo.arguments(main), "input")
    arguments = checked_inputs(names, [type_of(a) for a in block.arguments], inputs)
    evaluator = (evaluator_class or Evaluator)(functions, weights, observe)
    for symbols, array in zip(ModuleInfo(module).elements, arguments, strict=False):
        evaluator.sizes.update({str(s): int(n) for s, n in zip(symbols, array.reshape(-1), strict=False) if s is not None})
    results = evaluator.run(block, [evaluator.taken(array) for array in arguments], {})
    names = ValueInfo.names(ValueInfo.results(main), "output")
    return dict(zip(names, results[: len(results) - len(widths(ModuleInfo(module).checks))], strict=False))


def checked_inputs(names: Sequence[str], types: Sequence[TensorType], inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The input arrays in order. Raises InputError if one is missing, unknown, or of another type."""
    unknown, missing = [n for n in inputs if n not in names], [n for n in names if n not in inputs]
    if unknown or missing:
        problem = f"input '{(missing or unknown)[0]}' is {'missing' if missing else 'unknown'}"
        raise InputError(f"{problem}; the inputs are {', '.join(names) or 'none'}")
    arrays = [np.asarray(inputs[name]) for name in names]
    for name, expected, array in zip(names, types, arrays, strict=True):
        got = TensorType(from_numpy(array.dtype), array.shape)
        if not compatible(got, expected):
            raise InputError(f"input '{name}' must be {expected}, got {got}")
    return arrays


class Evaluator:
    """Runs blocks of graph ops, calls into the module's functions included."""

    def __init__(self, functions: Mapping[str, Any], weights: WeightTable, observe: Observer | None = None) -> None:
        self.functions = functions
        self.weights = weights
        self.observe = observe
        self.sizes: dict[str, int] = {}
        """The numbers that symbols stand for, as far as values of types with them are known."""
        self.bound_by: dict[str, Any] = {}
        """The op that gives a symbol its number, perhaps another one in each round of a loop."""
        self.boxes = Boxes()

    def run(self, block: ir.Block, arguments: Sequence[Any], captured: Values) -> list[Any]:
        """What the block's terminator yields for these arguments; `captured` holds the values of enclosing blocks."""
        own: dict[ir.Value, Any] = dict(zip(block.arguments, arguments, strict=True))
        self.bind(block.arguments, arguments)
        values = ChainMap(own, captured)
        ops = list(block.operations)
        dead = last_uses(ops)
        for op, dying in zip(ops, dead, strict=True):
            if op.operation.name in ("graph.yield", "func.return"):
                return [values[v] for v in op.operands]
            results = self.results_of(op, values)
            if self.observe is not None:
                self.observe(op.operation, [values[v] for v in op.operation.operands], results)
            own.update(zip(op.operation.results, results, strict=True))
            self.bind(op.operation.results, results)
            for value in dying:
                own.pop(value, None)
        raise StepwellError("a block to evaluate does not end in graph.yield or func.return")

    def results_of(self, op: Any, values: Values) -> Sequence[Any]:
        """The results of one operation."""
        name = op.operation.name
        if name == "graph.parameter":
            return [self.parameter(ir.StringAttr(op.attributes["id"]).value)]
        if name == "func.call":
            return self.call(ir.FlatSymbolRefAttr(op.attributes["callee"]).value, [values[v] for v in op.operands])
        if name == "tensor.cast":
            return [values[op.operands[0]]]
        if name == "flow.bind_sizes":
            self.bind_sizes(op, values[op.operands[0]])
            return [None] * len(op.operation.results)  # sizes of kernels' destinations
        if name == "tensor.empty" or [type(result.type) for result in op.operation.results] == [ir.IndexType]:
            return [None]  # a kernel's destination, which at this level nothing writes, or a size for it
        if not isinstance(op, GraphOp):
            raise NoMeaningError(f"{name} has no reference meaning: only the levels graph and graph-opt can be evaluated")
        groups = map_groups(values.__getitem__, op.operand_groups())
        if isinstance(op, FusedOp):
            return self.run(op.regions[0].blocks[0], groups[0], {})
        if isinstance(op, IfOp):
            return self.run(op.regions[0 if bool(groups[0]) else 1].blocks[0], [], values)
        if isinstance(op, BindSizesOp):
            return self.bind_sizes(op, groups[0])
        if isinstance(op, KeepOp):
            return []
        if isinstance(op, RequireOp):
            required = op.attribute_values()
            if bool(groups[0]) != required["value"]:
                raise IndexRangeError(f"{nodes_text(op.location)}: {required['problem']}")
            return []
        if isinstance(op, BoxOp):
            return [self.boxes.box(groups[0])]
        if isinstance(op, UnboxOp):
            return [self.boxes.unbox(groups[0])]
        if isinstance(op, LoopOp):
            trip_count, condition, carried = groups
            body = op.regions[0].blocks[0]
            return self.loop(lambda *state: self.run(body, state, values), int(trip_count), condition, carried, op.result_types())[:-1]
        if isinstance(op, flow.IfOp):
            function, otherwise = flow.called_by(op.operation)
            return self.call(function if bool(groups[0]) else otherwise, [values[v] for v in flow.passed_on(op)])
        if isinstance(op, flow.LoopOp):
            (name,), carried = flow.called_by(op.operation), op.attribute_values()["carried"]
            inputs = [values[v] for v in flow.passed_on(op)]
            rest = inputs[carried:]
            return self.loop(lambda *state: self.call(name, [*state, *rest]), int(groups[0]), groups[1], inputs[:carried], op.result_types()[:-1])
        try:
            return self.meaning(op, groups)
        except StepwellError as error:
            named = f"{name} of {nodes_text(op.location)}"
            if named in str(error.args[0]):
                raise
            raise type(error)(f"{named}: {error.args[0]}") from error

    def taken(self, array: np.ndarray) -> np.ndarray:
        """An input, or an entry of the weight table, as ops are given it."""
        return array

    def meaning(self, op: GraphOp, groups: Sequence[Any]) -> Sequence[np.ndarray]:
        """The results of a graph op without regions, from its operands by field."""
        return op.evaluate(groups, self.sizes)

    def bind_sizes(self, op: Any, numbers: np.ndarray) -> list[Any]:
        """Give symbols the numbers that a vector holds."""
        try:
            sizes = sizes_value(op.attributes["sizes"])
            new = [str(size) for size in sizes if isinstance(size, Size) and size.is_symbol and self.bound_by.setdefault(str(size), op) == op]
            bind_all(sizes, numbers.tolist(), self.sizes, new)
        except IndexRangeError as error:
            raise IndexRangeError(f"{nodes_text(op.location)}: {error.args[0]}") from None
        return []

    def bind(self, values: Iterable[ir.Value], arrays: Sequence[Any]) -> None:
        """Note what symbols stand for: each is a dimension of some value by itself."""
        for value, array in zip(values, arrays, strict=True):
            if isinstance(value.type, ir.RankedTensorType) and value.type.encoding is not None and array is not None:
                for size, number in zip(type_of(value).shape, np.shape(array), strict=True):
                    if isinstance(size, Size) and size.is_symbol:
                        self.sizes[str(size)] = number

    def call(self, name: str, arguments: Sequence[Any]) -> list[Any]:
        """The results of one of the functions."""
        return self.run(self.functions[name].regions[0].blocks[0], arguments, {})

    def loop(
        self, body: Callable[..., list[Any]], rounds: int, condition: Any, carried: list[np.ndarray], types: Sequence[TensorType]
    ) -> list[np.ndarray]:
        """The carried values after the last round, what was collected along the way, of these types, and the number of rounds as a vector."""
        count = len(carried)
        parts: list[list[np.ndarray]] = [[] for _ in types[count:]]
        done = 0
        while done < rounds and condition:
            condition, *results = body(np.array(done, dtype=np.int64), condition, *carried)
            carried = results[:count]
            for found, part in zip(parts, results[count:], strict=True):
                found.append(part)
            done += 1
        collected = [
            np.stack(found) if found else np.empty([0, *(evaluated(n, self.sizes) if isinstance(n, Size) else n or 0 for n in kind.shape[1:])],
                                                   to_numpy(kind.dtype))
            for found, kind in zip(parts, types[count:], strict=True)
        ]  # fmt: skip
        return [*carried, *collected, np.array([done])]

    def parameter(self, entry: str) -> np.ndarray:
        """An entry of the weight table."""
        if entry not in self.weights:
            raise ModelError(f"the weight table has no entry '{entry}'")
        return self.taken(self.weights[entry])


def last_uses(ops: Sequence[Any]) -> list[set[ir.Value]]:
    """For each op of a block the values that no later op uses, so that their arrays can be freed."""
    seen: set[ir.Value] = set()
    dead: list[set[ir.Value]] = []
    for op in reversed(ops):
        used = values_used(op)
        dead.append(used - seen)
        seen |= used
    return dead[::-1]


def values_used(op: Any) -> set[ir.Value]:
    """The operands of an op and of all ops inside it."""
    used: set[ir.Value] = set()
    waiting = [op.operation]
    while waiting:
        current = waiting.pop()
        used.update(current.operands)
        waiting += [inner.operation for region in current.regions for block in region.blocks for inner in block.operations]
    return used
