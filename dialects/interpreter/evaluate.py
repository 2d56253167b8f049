"""Graph-level IR by the references of its ops. Slow and simple; everything else is compared with it."""

from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from stepwell.dialects.core.index_checks import widths
from stepwell.dialects.core.locations import nodes_text
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.module_info import ModuleInfo, ValueInfo
from stepwell.dialects.core.sizes import Size
from stepwell.dialects.core.types import TensorType, from_numpy, type_of
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.graph.base import compatible
from stepwell.dialects.interpreter.base import Interpreter, Observer, Values, functions_of, meaning
from stepwell.dialects.support.errors import IndexRangeError, InputError, ModelError


def evaluate(
    module: ir.Module, weights: WeightTable, inputs: Mapping[str, np.ndarray], observe: Observer | None = None,
    evaluator_class: "type[Evaluator] | None" = None,
) -> dict[str, np.ndarray]:  # fmt: skip
    """The outputs of `@main` of a module at level `graph` or `graph-opt` for `inputs`, both by name.

    `observe` is called for each op; `evaluator_class` says how they are run. Raises IRError for a module without @main, InputError for inputs that
    do not fit, ModelError for an entry that the weight table lacks, IndexRangeError for an index out of range, NoMeaningError for an op without
    one, and StepwellError where else an op has no meaning for its data; all name op and node.
    """
    functions = functions_of(module)
    main = functions["main"]
    names = ValueInfo.names(ValueInfo.arguments(main), "input")
    arguments = checked_inputs(names, [type_of(a) for a in main.regions[0].blocks[0].arguments], inputs)
    evaluator = (evaluator_class or Evaluator)(functions, weights, observe)
    for symbols, array in zip(ModuleInfo(module).elements, arguments, strict=False):
        evaluator.sizes.update({str(s): int(n) for s, n in zip(symbols, array.reshape(-1), strict=False) if s is not None})
    results = evaluator.call("main", [evaluator.taken(array) for array in arguments])
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


class Evaluator(Interpreter):
    """Runs ops of the graph levels, calls into the module's functions included.

    A symbol gets its number as soon as there is a value that has it as a size. Kernels have no destinations, which at these levels nothing writes.
    """

    def __init__(self, functions: Mapping[str, ir.Operation], weights: WeightTable, observe: Observer | None = None) -> None:
        super().__init__(functions, observe)
        self.weights = weights

    def results_of(self, op: ir.Operation, operands: list[Any], values: Values) -> Sequence[Any]:
        if op.name == "graph.parameter":
            return [self.parameter(ir.StringAttr(op.attributes["id"]).value)]
        return [None] if op.name == "tensor.empty" else super().results_of(op, operands, values)

    def taken(self, array: np.ndarray) -> np.ndarray:
        """An input, or an entry of the weight table, as ops are given it."""
        return array

    def made(self, values: Iterable[ir.Value], arrays: Sequence[Any]) -> None:
        """Note the sizes that the values' types name: each symbol is a dimension of some value by itself."""
        for value, array in zip(values, arrays, strict=True):
            if isinstance(value.type, ir.RankedTensorType) and value.type.encoding is not None and array is not None:
                for size, number in zip(type_of(value).shape, np.shape(array), strict=True):
                    if isinstance(size, Size) and size.is_symbol:
                        self.sizes[str(size)] = number

    def parameter(self, entry: str) -> np.ndarray:
        """An entry of the weight table."""
        if entry not in self.weights:
            raise ModelError(f"the weight table has no entry '{entry}'")
        return self.taken(self.weights[entry])


@meaning("graph.fused")
def fused(machine: Interpreter, op: ir.Operation, operands: list[Any], _: Values) -> Sequence[Any]:
    """Run the body, which sees only the operands."""
    return machine.run(op, 0, operands, {})


@meaning("graph.if")
def branch(machine: Interpreter, op: ir.Operation, operands: list[Any], values: Values) -> Sequence[Any]:
    """One of two regions."""
    return machine.run(op, 0 if operands[0] else 1, [], ChainMap({}, values))


@meaning("graph.loop")
def loop(machine: Interpreter, op: ir.Operation, operands: list[Any], values: Values) -> Sequence[Any]:
    """The carried values after the last round, and what was collected along the way."""
    trip_count, condition, *carried = operands
    state, parts, _ = machine.rounds(lambda *state: machine.run(op, 0, state, ChainMap({}, values)), trip_count, condition, carried)
    return [*state, *machine.collected(op.results[len(carried) :], parts)]


@meaning("graph.bind_sizes")
def bind_sizes(machine: Interpreter, op: ir.Operation, operands: list[Any], _: Values) -> Sequence[Any]:
    """Symbols get numbers; there are no results."""
    machine.bind_sizes(op, operands[0])
    return []


@meaning("graph.keep")
def keep(_: Interpreter, __: ir.Operation, ___: list[Any], ____: Values) -> Sequence[Any]:
    """Nothing."""
    return []


@meaning("graph.require")
def require(_: Interpreter, op: ir.Operation, operands: list[Any], __: Values) -> Sequence[Any]:
    """Nothing, or an error."""
    required = op.opview.attribute_values()
    if bool(operands[0]) != required["value"]:
        raise IndexRangeError(f"{nodes_text(op.location)}: {required['problem']}")
    return []
