"""The pass that has indices out of range raise: known ones now, others when the model has run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepwell.dialects.errors import ModelError
from stepwell.dialects.graph import GraphBuilder
from stepwell.dialects.graph.numerics import first_out_of_range
from stepwell.dialects.index_checks import IndexCheck, get_checks, out_of_range, set_checks, widths
from stepwell.dialects.locations import nodes_text
from stepwell.dialects.mlir import ir
from stepwell.dialects.types import type_of
from stepwell.passes.graph.matching import is_used, producer, stored
from stepwell.passes.graph.ranges import ANY, Range, ranges
from stepwell.passes.registry import Pass, PassState, register_pass
from stepwell.passes.rewriting import find_function

NAME = "stepwell.name"
BY_AXIS = ("graph.gather", "graph.gather_elements", "graph.scatter_elements")
BY_VECTOR = ("graph.gather_nd", "graph.scatter_nd")
# Their results hold the same elements as their operands, if they hold any.
_SAME_ELEMENTS = ("reshape", "transpose", "expand", "tile")


@register_pass("check-indices", level="graph", techniques={"check-indices": "at-run-time=false"})
@dataclass
class CheckIndices(Pass):
    """Have gathers and scatters whose indices are out of range raise an error.

    Constant indices are looked at here and now, and a ModelError names the nodes, the index and its place. Others are looked at by the
    model itself: @main gets hidden results behind its outputs, one for each tensor of indices, and the module an attribute that says
    what they may be (dialects/index_checks.py). Who runs the model compares them when it has run.

    rewrite: return y  ->  return y, reduce_max(zigzag(indices))       by columns for index vectors

    Indices that are in range whatever the data are left alone (results of argmax, top-k, clip, remainders, narrow types). Where nothing
    is checked, an index beyond an end means the element at that end: no index ever reads or writes other memory.
    """

    at_run_time: bool = True  # whether indices that are not known are checked when the model runs; if not, they are trusted

    def run(self, op: ir.Operation, state: PassState) -> None:
        main = find_function(op, "main")
        block = main.regions[0].blocks[0]
        ops = [o.operation for o in block.operations]
        problems: list[str] = []
        unknown: list[ir.Operation] = []
        for inner in ops:
            if inner.name in (*BY_AXIS, *BY_VECTOR) and is_used(inner.results[0]):
                array = stored(inner.operands[1], state.weights)
                if array is None:
                    unknown.append(inner)
                else:
                    problems += problem_of(inner, array)
        if problems:
            more = "" if len(problems) == 1 else f"{len(problems)} operands have indices out of range: "
            raise ModelError(more + "; ".join(problems), details=problems)
        if self.at_run_time and unknown:
            known = ranges(ops, state.weights)
            doubtful = [o for o in unknown if not _is_proven(o, known)]
            if doubtful:
                _Checks(op, main, GraphBuilder(state.weights)).add(doubtful)
            state.count(f"{self.name}.added", len(doubtful))
            state.count(f"{self.name}.proven", len(unknown) - len(doubtful))


def reach(op: ir.Operation) -> "dict[int, int | None]":
    """The dimensions of the first operand that an op's indices go along, with their sizes: one, or one for each column of index vectors."""
    shape = type_of(op.operands[0]).shape
    if op.name in BY_AXIS:
        axis = ir.IntegerAttr(op.attributes["axis"]).value
        return {axis: shape[axis]}
    first = ir.IntegerAttr(op.attributes["batch_dims"]).value if "batch_dims" in op.attributes else 0
    depth = type_of(op.operands[1]).shape[-1] or 0
    return {dim: shape[dim] for dim in range(first, first + depth)}


def problem_of(op: ir.Operation, indices: np.ndarray) -> list[str]:
    """What is wrong with known indices: one line, or none."""
    for column, (dim, size) in enumerate(reach(op).items()):
        if size is None:
            continue
        place = first_out_of_range(indices if op.name in BY_AXIS else indices[..., column], size)
        if place is not None:
            whole = place if op.name in BY_AXIS else (*place, column)
            return [f"{op.name} of {nodes_text(op.location)}: {out_of_range(int(indices[whole]), size, dim, whole)}"]
    return []


def _is_proven(op: ir.Operation, known: dict[ir.Value, Range]) -> bool:
    """Whether an op's indices cannot be out of range, or nothing can be told at compile time of the dimensions that they go along."""
    sizes = list(reach(op).values())
    indices = type_of(op.operands[1])
    if any(size is None for size in sizes) or (indices.is_static and not indices.elements):
        return True
    columns = _columns(op.operands[1], known) if op.name in BY_VECTOR else [known.get(op.operands[1], ANY)]
    return all(-size <= low and high < size for size, (low, high) in zip(sizes, columns, strict=True) if size is not None)


def _columns(vectors: ir.Value, known: dict[ir.Value, Range]) -> list[Range]:
    """The range of each column of index vectors, which may be put together from columns."""
    last = type_of(vectors).rank - 1
    joined = producer(vectors, "concat")
    parts = list(joined.operation.operands) if joined is not None and joined.attribute_values()["axis"] == last else [vectors]
    return [known.get(part, ANY) for part in parts for _ in range(type_of(part).shape[last] or 0)]


class _Checks:
    """Adds hidden results to @main."""

    def __init__(self, module: ir.Operation, main: Any, b: GraphBuilder) -> None:
        self.module, self.main, self.b = module, main, b
        self.end = list(main.regions[0].blocks[0].operations)[-1].operation
        self.checks = get_checks(module)
        self.made: dict[tuple[ir.Value, bool], int] = {}
        self.count = len(widths(self.checks))

    def add(self, ops: Sequence[ir.Operation]) -> None:
        """Check the indices of each op."""
        hidden: list[ir.Value] = []
        names: list[str] = []
        for op in ops:
            sizes = {dim: size for dim, size in reach(op).items() if size is not None}
            by_column = len(sizes) > 1
            source = op.operands[1] if by_column else same_elements(op.operands[1])
            if (source, by_column) not in self.made:
                self.made[source, by_column] = self.count + len(hidden)
                with ir.InsertionPoint(self.end), op.location:
                    rank = type_of(source).rank
                    axes = list(range(rank - by_column))
                    hidden.append(self.b.reduce_max(self.b.zigzag(source), axes=axes, keepdims=False))
                names.append(f"indices of {nodes_text(op.location)}")
            self.checks.append(IndexCheck(nodes_text(op.location), op.name, self.made[source, by_column], tuple(sizes), tuple(sizes.values())))
        self._give_back(hidden, names)
        set_checks(self.module, self.checks)

    def _give_back(self, hidden: Sequence[ir.Value], names: Sequence[str]) -> None:
        """Have @main return these too, under names of their own."""
        outputs, kind = list(self.end.operands), self.main.type
        with ir.InsertionPoint(self.end), self.end.location:
            ir.Operation.create("func.return", operands=[*outputs, *hidden])
        self.end.erase()
        attributes = self.main.attributes
        had = list(attributes["res_attrs"]) if "res_attrs" in attributes else [ir.DictAttr.get({})] * len(outputs)
        attributes["res_attrs"] = ir.ArrayAttr.get([*had, *(ir.DictAttr.get({NAME: ir.StringAttr.get(name)}) for name in names)])
        attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kind.inputs, [*kind.results, *(v.type for v in hidden)]))


def same_elements(value: ir.Value) -> ir.Value:
    """A value, perhaps smaller, that holds the same elements as `value`, which holds some."""
    while (op := producer(value, *_SAME_ELEMENTS)) is not None:
        value = op.operation.operands[0]
    return value
