"""The core of the interpreters: the registry of meanings, and the class that runs blocks of ops."""

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

from stepwell.dialects.core.attributes import sizes_value
from stepwell.dialects.core.dtypes import to_numpy
from stepwell.dialects.core.locations import nodes_text
from stepwell.dialects.core.mlir import ir, ops_below
from stepwell.dialects.core.segments import bind_all
from stepwell.dialects.core.sizes import Size, evaluated
from stepwell.dialects.core.types import dtype_of, type_of
from stepwell.dialects.flow.boxes import Boxes
from stepwell.dialects.graph.base import GraphOp, map_groups
from stepwell.dialects.support.errors import IndexRangeError, IRError, StepwellError

Values: TypeAlias = MutableMapping[ir.Value, Any]
Observer: TypeAlias = Callable[[ir.Operation, Sequence[Any], Sequence[Any]], None]
"""Called with each op that was run, the arrays of its operands and those of its results."""
Meaning: TypeAlias = Callable[["Interpreter", Any, list[Any], Values], Sequence[Any]]
"""Computes the results of an op from the interpreter, the op, its operands and the values around it."""
MEANINGS: dict[str, Meaning] = {}
TERMINATORS = ("func.return", "graph.yield", "scf.yield", "linalg.yield", "tensor.yield")
ENTERED_AFRESH = ("func.func", "graph.fused", "graph.if", "graph.loop")
"""Ops each of whose regions is run with values of its own."""
INDEX = np.dtype(np.int64)


class NoMeaningError(StepwellError):
    """An op that has no meaning for any data."""


def meaning(*names: str) -> Callable[[Meaning], Meaning]:
    """Register a function as the interpretation of the ops with these names."""

    def register(function: Meaning) -> Meaning:
        MEANINGS.update(dict.fromkeys(names, function))
        return function

    return register


def functions_of(module: ir.Module) -> dict[str, ir.Operation]:
    """The functions of a module by name. Raises IRError if there is no @main among them."""
    functions = {ir.StringAttr(op.attributes["sym_name"]).value: op.operation for op in module.body.operations if op.operation.name == "func.func"}
    if "main" not in functions:
        raise IRError("the module has no function @main")
    return functions


def scalar_dtype(kind: ir.Type) -> np.dtype:
    """The numpy dtype of a scalar: 64 bits with a sign for an index, signed integers for signless ones."""
    return INDEX if isinstance(kind, ir.IndexType) else to_numpy(dtype_of(kind))


class Interpreter:
    """Runs blocks of ops on numpy arrays, a tensor as an array and a scalar as one of rank 0.

    In the body of a structured op a scalar is an array with an element for each point of (a part of) its iteration space.
    """

    def __init__(self, functions: Mapping[str, ir.Operation], observe: Observer | None = None, sizes: dict[str, int] | None = None) -> None:
        self.functions = functions
        self.observe = observe
        self.sizes: dict[str, int] = {} if sizes is None else sizes
        """The numbers of symbols: of the inputs', and of those that have become known."""
        self.arena: Any = None
        """The last argument of `@main` where that is a buffer, in which weights lie."""
        self.bound_by: dict[str, Any] = {}
        """The op that gives a symbol its number, perhaps another one in each round of a loop."""
        self.boxes = Boxes()
        self.places: list[np.ndarray] = []
        """The index of each loop of the structured op whose body is being run, each along a dimension of its own."""
        self._blocks: dict[tuple[ir.Operation, int], list[tuple[Any, list[ir.Value]]]] = {}

    def call(self, name: str, arguments: Sequence[Any]) -> list[Any]:
        """The results of one of the functions."""
        if name not in self.functions:
            raise IRError(f"the module has no function @{name}")
        if name == "main" and len(arguments) and isinstance(self.functions[name].regions[0].blocks[0].arguments[-1].type, ir.MemRefType):
            self.arena = arguments[-1]
        return self.run(self.functions[name], 0, arguments, {})

    def call_region(self, name: str, arguments: Sequence[Any]) -> list[Any]:
        """The results of the function of a region, which takes the arena of weights as `@main` does."""
        return self.call(name, [*arguments, *([] if self.arena is None else [self.arena])])

    def run(self, owner: ir.Operation, region: int, arguments: Sequence[Any], values: Values) -> list[Any]:
        """The operands of the terminator of an op's region, for these arguments; `values` are those of the blocks around it."""
        key, block = (owner, region), owner.regions[region].blocks[0]
        if key not in self._blocks:
            ops = [op.operation for op in block.operations]
            # Values are freed after their last use; the body of a loop that keeps them may read those around it again.
            dead = last_uses(ops) if owner.name in ENTERED_AFRESH else [set()] * len(ops)
            self._blocks[key] = [(op, list(dying)) for op, dying in zip(ops, dead, strict=True)]
        values.update(zip(block.arguments, arguments, strict=True))
        self.made(block.arguments, arguments)
        for op, dying in self._blocks[key]:
            operands = [values[v] for v in op.operands]
            if op.name in TERMINATORS:
                return operands
            results = self.results_of(op, operands, values)
            if self.observe is not None:
                self.observe(op, operands, results)
            values.update(zip(op.results, results, strict=True))
            self.made(op.results, results)
            for value in dying:
                values.pop(value, None)
        raise IRError(f"a block of {owner.name} does not end in {', '.join(TERMINATORS)}")

    def made(self, values: Iterable[ir.Value], arrays: Sequence[Any]) -> None:
        """Called with the arrays of a block's arguments, and with those of each op's results."""

    def results_of(self, op: ir.Operation, operands: list[Any], values: Values) -> Sequence[Any]:
        """The results of one op. Raises StepwellError, naming op and node, if it has none."""
        found = MEANINGS.get(op.name) or (MEANINGS["linalg.generic"] if op.name.startswith("linalg.") and len(op.regions) else None)
        try:
            if found is not None:
                return found(self, op, operands, values)
            view = op.opview
            if isinstance(view, GraphOp) and not len(op.regions):
                return self.meaning(view, map_groups(values.__getitem__, view.operand_groups()))
        except ReferenceFault as error:
            raise StepwellError(f"{_named(op)}: {error}") from None
        except StepwellError as error:
            if found is not None or _named(op) in str(error.args[0]):
                raise
            raise type(error)(f"{_named(op)}: {error.args[0]}") from error
        raise NoMeaningError(f"{_named(op)} has no meaning that can be run: only ops of the graph levels and those registered by `meaning` have one")

    def meaning(self, op: GraphOp, groups: Sequence[Any]) -> Sequence[np.ndarray]:
        """The results of a graph op without regions, from its operands by field."""
        return op.evaluate(groups, self.sizes)

    def bind_sizes(self, op: ir.Operation, numbers: np.ndarray) -> None:
        """Give symbols the numbers that a vector holds. Raises IndexRangeError if one is not what is known of it."""
        sizes = sizes_value(op.attributes["sizes"])
        new = [str(size) for size in sizes if isinstance(size, Size) and size.is_symbol and self.bound_by.setdefault(str(size), op) == op]
        try:
            bind_all(sizes, numbers.tolist(), self.sizes, new)
        except IndexRangeError as error:
            raise IndexRangeError(f"{nodes_text(op.location)}: {error.args[0]}") from None

    def rounds(
        self, body: Callable[..., list[Any]], trip_count: Any, condition: Any, carried: Sequence[Any]
    ) -> tuple[list[Any], list[list[Any]], int]:
        """The carried values after the last round, what each round hands over beside them, and the number of rounds."""
        state, parts, count = list(carried), [], 0
        while count < trip_count and condition:
            condition, *results = body(np.array(count, np.int64), condition, *state)
            state = results[: len(carried)]
            parts.append(results[len(carried) :])
            count += 1
        return state, parts, count

    def collected(self, results: Sequence[ir.Value], parts: Sequence[Sequence[Any]], destinations: Sequence[Any] = ()) -> list[np.ndarray]:
        """For each of these results the parts of all rounds along a new first dimension, in a copy of its destination if there is one."""
        found = []
        for i, result in enumerate(results):
            mine = [part[i] for part in parts]
            if i < len(destinations) and destinations[i] is not None:
                whole = np.array(destinations[i])
                for place, part in enumerate(mine):
                    whole[place] = part
                found.append(whole)
            elif mine:
                found.append(np.stack(mine))
            else:
                kind = type_of(result)
                inner = [evaluated(n, self.sizes) if isinstance(n, Size) else n or 0 for n in kind.shape[1:]]
                found.append(np.empty([0, *inner], to_numpy(kind.dtype)))
        return found

    @contextmanager
    def with_places(self, places: list[np.ndarray]) -> Iterator[None]:
        """Run the body of a structured op at these indices."""
        outer, self.places = self.places, places
        try:
            yield
        finally:
            self.places = outer


class ReferenceFault(Exception):
    """An op accesses a missing element, or is used in an undefined way; `results_of` adds op and node."""


def _named(op: ir.Operation) -> str:
    return f"{op.name} of {nodes_text(op.location)}"


def last_uses(ops: Sequence[ir.Operation]) -> list[set[ir.Value]]:
    """For each op of a block the values that no later op uses, so that their arrays can be freed."""
    seen: set[ir.Value] = set()
    dead: list[set[ir.Value]] = []
    for op in reversed(ops):
        used = {value for inner in (op, *ops_below(op)) for value in inner.operands}
        dead.append(used - seen)
        seen |= used
    return dead[::-1]


def sizes_of(kind: ir.Type, dynamic: Sequence[Any]) -> list[int]:
    """The sizes of a shaped type, with dynamic ones taken from `dynamic` in order."""
    rest = iter(dynamic)
    return [int(next(rest)) if kind.is_dynamic_dim(i) else kind.get_dim_size(i) for i in range(kind.rank)]


def entries(op: ir.Operation, name: str, dynamic: Sequence[Any]) -> list[int]:
    """A list of numbers, partly in an attribute, the rest taken from `dynamic` in order."""
    rest = iter(dynamic)
    open_ = ir.ShapedType.get_dynamic_size()
    return [int(next(rest)) if number == open_ else number for number in ir.DenseI64ArrayAttr(op.attributes[name])]


def segments(op: ir.Operation, operands: Sequence[Any]) -> list[list[Any]]:
    """The operands of an op by field."""
    groups, start = [], 0
    for size in ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]):
        groups.append(list(operands[start : start + size]))
        start += size
    return groups
