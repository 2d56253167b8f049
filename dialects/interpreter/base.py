"""The core of the interpreter: the registry of meanings, and the class that runs blocks of ops."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

from stepwell.dialects.core.dtypes import to_numpy
from stepwell.dialects.core.locations import node_names
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import dtype_of
from stepwell.dialects.flow.boxes import Boxes
from stepwell.dialects.graph.base import GraphOp, map_groups
from stepwell.dialects.graph.evaluate import NoMeaningError, Observer, last_uses
from stepwell.dialects.support.errors import IRError, StepwellError

Values: TypeAlias = dict[ir.Value, Any]
Meaning: TypeAlias = Callable[["Interpreter", Any, list[Any], Values], Sequence[Any]]
"""The results of an op from the interpreter, the op, its operands and the values around it."""
MEANINGS: dict[str, Meaning] = {}
TERMINATORS = ("func.return", "scf.yield", "linalg.yield", "tensor.yield")
INDEX = np.dtype(np.int64)


def meaning(*names: str) -> Callable[[Meaning], Meaning]:
    """Register a function as what the ops of these names mean."""

    def register(function: Meaning) -> Meaning:
        MEANINGS.update(dict.fromkeys(names, function))
        return function

    return register


def scalar_dtype(kind: ir.Type) -> np.dtype:
    """The numpy dtype that holds a scalar: 64 bits with a sign for an index, signed integers for signless ones."""
    return INDEX if isinstance(kind, ir.IndexType) else to_numpy(dtype_of(kind))


class Interpreter:
    """Runs blocks of ops on numpy arrays, a tensor as an array and a scalar as one of rank 0.

    In the body of a structured op a scalar is an array with an element for each point of (a part of) its iteration space.
    """

    def __init__(self, functions: Mapping[str, ir.Operation], observe: Observer | None = None, sizes: dict[str, int] | None = None) -> None:
        self.functions = functions
        self.observe = observe
        self.sizes: dict[str, int] = {} if sizes is None else sizes
        """The symbols that have become known, and what is known of the inputs'."""
        self.arena: Any = None
        """The last argument of `@main`."""
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
        return self.run(self.functions[name], 0, arguments, {})

    def call_region(self, name: str, arguments: Sequence[Any]) -> list[Any]:
        """The results of the function of a region, which takes the arena of weights as `@main` does."""
        return self.call(name, [*arguments, self.arena])

    def run(self, owner: ir.Operation, region: int, arguments: Sequence[Any], values: Values) -> list[Any]:
        """What the terminator of an op's region hands over, for these arguments; `values` are those of the blocks around it."""
        key = (owner, region)
        if key not in self._blocks:
            ops = [op.operation for op in owner.regions[region].blocks[0].operations]
            # A function's values are freed after their last use; a loop's body may run again.
            dead = last_uses(ops) if owner.name == "func.func" else [set()] * len(ops)
            self._blocks[key] = [(op, list(dying)) for op, dying in zip(ops, dead, strict=True)]
        values.update(zip(owner.regions[region].blocks[0].arguments, arguments, strict=True))
        for op, dying in self._blocks[key]:
            operands = [values[v] for v in op.operands]
            if op.name in TERMINATORS:
                return operands
            results = self.results_of(op, operands, values)
            if self.observe is not None:
                self.observe(op, operands, results)
            values.update(zip(op.results, results, strict=True))
            for value in dying:
                values.pop(value, None)
        raise IRError(f"a block of {owner.name} does not end in {', '.join(TERMINATORS)}")

    def results_of(self, op: ir.Operation, operands: list[Any], values: Values) -> Sequence[Any]:
        """The results of one op. Raises StepwellError, naming op and node, where it has none."""
        found = MEANINGS.get(op.name) or (MEANINGS["linalg.generic"] if op.name.startswith("linalg.") and len(op.regions) else None)
        try:
            if found is not None:
                return found(self, op, operands, values)
            view = op.opview
            if isinstance(view, GraphOp) and not len(op.regions):  # in a kernel that is still to be lowered
                return view.evaluate(map_groups(values.__getitem__, view.operand_groups()))
        except ReferenceFault as error:
            raise StepwellError(f"{op.name}{_where(op)}: {error}") from None
        raise NoMeaningError(f"{op.name}{_where(op)} has no meaning that can be run: {', '.join(sorted(MEANINGS))} have one")

    @contextmanager
    def at(self, places: list[np.ndarray]) -> Iterator[None]:
        """Run the body of a structured op at these places."""
        outer, self.places = self.places, places
        try:
            yield
        finally:
            self.places = outer


class ReferenceFault(Exception):
    """An op reads or writes what is not there, or is used in a way that has no meaning; what `results_of` names op and node for."""


def _where(op: ir.Operation) -> str:
    names = node_names(op.location)
    return f" of {' and '.join(names)}" if names else ""


def sizes_of(kind: Any, dynamic: Sequence[Any]) -> list[int]:
    """The sizes of a shaped type, those that it leaves open taken from `dynamic` in order."""
    rest = iter(dynamic)
    return [int(next(rest)) if kind.is_dynamic_dim(i) else kind.get_dim_size(i) for i in range(kind.rank)]


def entries(op: ir.Operation, name: str, dynamic: Sequence[Any]) -> list[int]:
    """A list of numbers that an attribute gives in part, the rest taken from `dynamic` in order."""
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
