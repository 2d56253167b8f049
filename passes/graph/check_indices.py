"""The pass that makes out-of-range indices and undeclared sizes errors: constant ones at compile time, others after a run."""

import math
from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from stepwell.dialects.core.index_checks import IndexCheck, out_of_range, widths
from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.locations import nodes_text
from stepwell.dialects.core.mlir import defining_op, ir
from stepwell.dialects.core.module_info import ModuleInfo, ValueInfo
from stepwell.dialects.core.sizes import Dim, Size, always, holds, product, static_sizes
from stepwell.dialects.core.types import dims_of, type_of
from stepwell.dialects.flow.control import CONTROL, called_by
from stepwell.dialects.graph import GraphBuilder
from stepwell.dialects.graph.base import GraphOp, IndexOperand
from stepwell.dialects.graph.control import RequireOp
from stepwell.dialects.graph.numerics import first_out_of_range
from stepwell.dialects.graph.traits import KeepsAll, MovesData
from stepwell.dialects.graph.value_range import ANY, Range
from stepwell.dialects.support.errors import ModelError
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import innermost_first, main_function, program_functions
from stepwell.passes.graph.asked_sizes import asked_sizes, asks, size_vector
from stepwell.passes.graph.bind_sizes import bound_sizes, symbols_of
from stepwell.passes.graph.matching import is_used, producer, states, stored
from stepwell.passes.graph.ranges import ranges
from stepwell.passes.graph.region_results import set_returned, with_more_results


@register_pass("check-indices", level="graph", switches={"check-indices": "at-run-time=false"})
class CheckIndices(Pass):
    """Make ops with indices into an operand, above all gathers and scatters, raise an error if these are out of range.

    Constant indices are checked at compile time; a ModelError names the nodes, the index and its position. The model itself checks the others: @main
    gets hidden results behind its outputs, one for each tensor of indices, and the module an attribute with their legal values
    (dialects/core/index_checks.py). At the end of a run, code compares them (`bufferize`).

    rewrite: return y  ->  return y, reduce_max(zigzag(indices))       by columns for index vectors, unsigned(indices) where none counts from the end

    Reshapes, expansions and slices by operands that are known only at run time take the sizes of their results from the model's declaration. The
    model checks in the same way that the data agree with these sizes.

    rewrite: return y  ->  return y, zigzag(asked - declared)

    Functions of regions return their hidden results to the op that calls them: 0 for a branch that is not taken, the maximum over a loop's
    iterations. If sizes may differ between iterations, the function itself compares.

    rewrite: return y  ->  return y, reduce_max(select(zigzag(indices) < limit, 0, zigzag(indices) + 1))

    A branch that cannot be valid must never be taken: the condition of `graph.require` is checked like indices.

    rewrite: require(c) {value = true}; return y  ->  return y, select(c, 0, 1)

    Indices that are in range for any data are not checked (results of argmax, top-k, clip, remainders, narrow types). Without the check, an index out
    of range means some other element of its dimension: no index ever accesses other memory.
    """

    at_run_time: bool = True  # check indices that are not known at compile time after a run; otherwise they mean some element

    def run(self, op: ir.Operation, state: PassState) -> None:
        main_function(op)
        found = {function.sym_name.value: function for function in program_functions(op)}
        inside: dict[str, _Checks] = {}
        outside = {*ModuleInfo(op).symbols, *(name for size in bound_sizes(found["main"]) for name in symbols_of(size))}
        for name in innermost_first(found):
            before = ModuleInfo(op).checks if name == "main" else ()
            checks = inside[name] = _Checks(found[name], GraphBuilder(state.weights), before, outside, ModuleInfo(op).symbols)
            self._check(checks, found[name].regions[0].blocks[0], state)
            for inner in [o.operation for o in found[name].regions[0].blocks[0].operations if o.operation.name in CONTROL]:
                checks.take_over(inner, found, inside)
        inside["main"].finish(op)

    def _check(self, checks: "_Checks", block: ir.Block, state: PassState) -> None:
        """Look for indices in a function, and add checks for those that may be wrong."""
        if self.at_run_time:
            for inner in [o.operation for o in block.operations]:
                if asks(inner) and is_used(inner.results[0]) and _is_declared(inner):
                    checks.add_sizes(inner)
                    state.count(f"{self.name}.sizes")
        for inner in [o.operation for o in block.operations if isinstance(o, RequireOp)]:
            if self.at_run_time:
                checks.add_required(inner)
                state.count(f"{self.name}.branches")
            inner.erase()
        ops = [o.operation for o in block.operations]  # the ops that compute the requested sizes are checked too
        problems: list[str] = []
        unknown: dict[ir.Operation, IndexOperand] = {}
        for inner in ops:
            asked = index_operand(inner)
            if asked is not None and any(map(is_used, inner.results)):
                array = stored(asked.indices, state.weights)
                if array is None or checks.may_lack(reach(inner, asked).values()):
                    unknown[inner] = asked
                else:
                    problems += problem_of(inner, asked, array)
        if problems:
            more = "" if len(problems) == 1 else f"{len(problems)} operands have indices out of range: "
            raise ModelError(more + "; ".join(problems), details=problems)
        if self.at_run_time and unknown:
            known = ranges(ops, state.weights)
            doubtful = {o for o, asked in unknown.items() if not _is_proven(o, asked, known)}
            for inner, asked in unknown.items():
                if inner in doubtful:
                    state.did(self.name, inner, "its indices are looked at when the model has run")
                    checks.add_indices(inner, asked)
                else:
                    state.decline(self.name, inner, NoMatch("its indices are in range whatever the data are"))
            state.count(f"{self.name}.added", len(doubtful))
            state.count(f"{self.name}.proven", len(unknown) - len(doubtful))


def _is_declared(op: ir.Operation) -> bool:
    """Whether the sizes that an op requests depend on operands but are known, as numbers or expressions of the sizes of inputs."""
    x, result = type_of(op.operands[0]), type_of(op.results[0])
    return None not in (*x.shape, *result.shape) and result.rank > 0


def index_operand(op: ir.Operation) -> IndexOperand | None:
    """The operand of an op that holds indices, if it has one."""
    view = op.opview
    return view.index_operand() if isinstance(view, GraphOp) else None


def reach(op: ir.Operation, asked: IndexOperand) -> "dict[int, Dim]":
    """The dimensions of the first operand that an op's indices address, with their sizes: one, or one for each column of index vectors."""
    shape = type_of(op.operands[0]).shape
    return {dim: shape[dim] for dim in asked.dims}


def problem_of(op: ir.Operation, asked: IndexOperand, indices: np.ndarray) -> list[str]:
    """The problem with known indices: one line, or none."""
    for column, (dim, size) in enumerate(reach(op, asked).items()):
        own = indices[..., column] if asked.vectors else indices
        if isinstance(size, Size) and own.size:
            least = 0 if asked.from_start else -size
            if not (holds(int(own.max()), "<", size) and holds(int(own.min()), ">=", least)):
                return [f"{op.name} of {nodes_text(op.location)}: its indices {own.min()} to {own.max()} do not fit dimension {dim} of size {size}"]
        if not isinstance(size, int):
            continue
        place = first_out_of_range(own, size, from_start=asked.from_start)
        if place is not None:
            whole = (*place, column) if asked.vectors else place
            return [f"{op.name} of {nodes_text(op.location)}: {out_of_range(int(indices[whole]), size, dim, whole, from_start=asked.from_start)}"]
    return []


def _is_proven(op: ir.Operation, asked: IndexOperand, known: dict[ir.Value, Range]) -> bool:
    """Whether an op's indices are always in range, or their dimensions are unknown at compile time."""
    sizes = list(reach(op, asked).values())
    indices = type_of(asked.indices)
    if None in sizes or (indices.is_static and not indices.elements):
        return True
    columns = _columns(asked.indices, known) if asked.vectors else [known.get(asked.indices, ANY)]
    ranges = [(size, *column) for size, column in zip(sizes, columns, strict=True) if size is not None]
    return all(_is_inside(size, low, high, 0 if asked.from_start else -size) for size, low, high in ranges)


def _is_inside(size: int | Size, low: float, high: float, least: int | Size) -> bool:
    """Whether all numbers of a range are indices along a dimension of that size; `least` is the first legal one."""
    if isinstance(size, int) and isinstance(least, int):
        return least <= low and high < size
    return math.isfinite(low) and math.isfinite(high) and always(int(low), ">=", least) and always(int(high), "<", size)


def _columns(vectors: ir.Value, known: dict[ir.Value, Range]) -> list[Range]:
    """The range of each column of index vectors, which may be assembled from columns."""
    last = type_of(vectors).rank - 1
    joined = producer(vectors, "concat")
    parts = list(joined.operation.operands) if joined is not None and joined.attribute_values()["axis"] == last else [vectors]
    return [known.get(part, ANY) for part in parts for _ in range(static_sizes([type_of(part).shape[last]])[0])]


class _Checks:
    """Hidden results of a function, and their legal values."""

    def __init__(
        self, function: ir.OpView, b: GraphBuilder, checks: Sequence[IndexCheck], outside: Container[str], given: Container[str]
    ) -> None:
        """`checks` already exist; `outside` are the symbols with one value per run, `given` those of them that inputs determine."""
        self.function, self.b, self.outside, self.given = function, b, outside, given
        self.end = list(function.regions[0].blocks[0].operations)[-1].operation
        self.checks = list(checks)
        self.made: dict[tuple[ir.Value, bool, bool, tuple[Dim, ...]], int] = {}
        self.count = len(widths(self.checks))
        self.hidden: list[tuple[ir.Value, str]] = []

    def add_indices(self, op: ir.Operation, asked: IndexOperand) -> None:
        """Check the indices of an op."""
        sizes = {dim: size for dim, size in reach(op, asked).items() if size is not None}
        by_column, empty = len(sizes) > 1, asked.reads != 0 and not all(always(size, ">", 0) for size in sizes.values())
        compared = self._are_inside([*sizes.values(), *([asked.reads] if empty else [])]) or self.may_lack(sizes.values())
        source = asked.indices if by_column else same_elements(asked.indices)
        key = (source, by_column, asked.from_start, tuple(sizes.values()) if compared else ())
        if key not in self.made:
            with ir.InsertionPoint(self.end), op.location:
                axes = list(range(type_of(source).rank - by_column))
                codes = unsigned(self.b, source) if asked.from_start else zigzag(self.b, source)
                if compared:
                    limits = [size if asked.from_start else 2 * size for size in sizes.values()]
                    reported = zigzag(self.b, source) if asked.from_start else codes
                    codes = compared_with(self.b, codes, limits if by_column else limits[:1], reported)
                hidden = self.b.reduce_max(codes, axes=axes, keepdims=False)
            self.made[key] = self._hide(hidden, f"indices of {nodes_text(op.location)}")
        of = (nodes_text(op.location), op.name, self.made[key], tuple(sizes), tuple(sizes.values()))
        count = 1 if compared or not empty or asked.reads is None else asked.reads
        self.checks.append(IndexCheck(*of, from_start=asked.from_start, compared=compared, count=count))

    def _are_inside(self, sizes: Iterable[Dim]) -> bool:
        """Whether some sizes may differ between calls of the function."""
        return any(name not in self.outside for size in sizes for name in symbols_of(size))

    def may_lack(self, sizes: Iterable[Dim]) -> bool:
        """Whether this is a branch or a loop body that may exist for the case of nonzero sizes: nothing is assumed about them."""
        doubtful = [size for size in sizes if isinstance(size, Size) and not always(size, ">", 0)]
        return bool(KernelInfo(self.function).is_region) and any(name not in self.given for size in doubtful for name in size.symbols)

    def add_sizes(self, op: ir.Operation) -> None:
        """Check that the operands of an op request the sizes that its result has."""
        sizes = dims_of(op.results[0])
        with ir.InsertionPoint(self.end), op.location:
            codes, compared = zigzag(self.b, self.b.sub(asked_sizes(op, self.b), size_vector(self.b, sizes))), self._are_inside(sizes)
            if compared:
                codes = compared_with(self.b, codes, [1] * len(sizes), codes)
            place = self._hide(codes, f"sizes of {nodes_text(op.location)}")
        self.checks.append(IndexCheck(nodes_text(op.location), op.name, place, tuple(range(len(sizes))), sizes, exact=True, compared=compared))

    def add_required(self, op: ir.Operation) -> None:
        """Check that a condition has the value that a `graph.require` demands."""
        required, nodes = op.opview.attribute_values(), nodes_text(op.location)
        with ir.InsertionPoint(op), op.location:
            right, wrong = (self.b.literal(np.array(code, np.uint64)) for code in (0, 1))
            code = self.b.select(op.operands[0], *((right, wrong) if required["value"] else (wrong, right)))
        self.checks.append(IndexCheck(nodes, op.name, self._hide(code, f"branch of {nodes}"), (0,), (1,), compared=True, reason=required["problem"]))

    def _hide(self, value: ir.Value, name: str) -> int:
        """Add a hidden result; returns its index."""
        self.hidden.append((value, name))
        return self.count + len(self.hidden) - 1

    def take_over(self, op: ir.Operation, functions: dict[str, Any], inside: "dict[str, _Checks]") -> None:
        """Make the hidden results of the functions that a conditional or a loop calls results of the op, and hide these here."""
        called = {name: inside[name] for name in called_by(op)}
        if not any(checks.hidden for checks in called.values()):
            return
        values = with_more_results(op, functions, {name: [v for v, _ in checks.hidden] for name, checks in called.items()}, self.b)
        for checks in called.values():
            first = self.count + len(self.hidden)
            for _, name in checks.hidden:
                self._hide(values.pop(0), name)
            self.checks += [replace(check, result=first + check.result) for check in checks.checks]

    def finish(self, module: ir.Operation) -> None:
        """Make @main return the hidden results, and describe them on the module."""
        if self.hidden:
            self._give_back([value for value, _ in self.hidden], [name for _, name in self.hidden])
            ModuleInfo(module).checks = self.checks

    def _give_back(self, hidden: Sequence[ir.Value], names: Sequence[str]) -> None:
        """Make @main return these too, under names of their own."""
        results = ValueInfo.results(self.function)
        set_returned(self.function, [*self.end.operands, *hidden])
        ValueInfo.set_results(self.function, [*results, *(ValueInfo(name=name) for name in names)])


def zigzag(b: GraphBuilder, numbers: ir.Value) -> ir.Value:
    """The codes of integers, as ui64 (see index_checks): twice the number, with all bits inverted if it is negative."""
    numbers = numbers if type_of(numbers).dtype == "i64" else b.cast(numbers, to="i64", saturate=False)
    zero, ones = b.literal(np.array(0)), b.literal(np.array(-1))
    code: ir.Value = b.bitwise_xor(b.add(numbers, numbers), b.select(b.less(numbers, zero), ones, zero))
    return b.cast(code, to="ui64", saturate=False)


def compared_with(b: GraphBuilder, codes: ir.Value, limits: Sequence[int | Size], reported: ir.Value) -> ir.Value:
    """0 for codes below the limits (one for each column, or one for all); for the others, 1 plus `reported`, their zigzag codes."""
    least = b.cast(size_vector(b, limits), to="ui64", saturate=False)
    zero, one, most = (b.literal(np.array(number, np.uint64)) for number in (0, 1, (1 << 64) - 2))
    if type_of(codes).rank == 0:
        least = b.reshape(least, shape=())
    return b.select(b.less(codes, least), zero, b.add(b.minimum(reported, most), one))


def unsigned(b: GraphBuilder, numbers: ir.Value) -> ir.Value:
    """The codes of integers that count from the start, as ui64 (see index_checks): a negative one is larger than any legal one."""
    return b.cast(b.cast(numbers, to="i64", saturate=False), to="ui64", saturate=False)


def same_elements(value: ir.Value) -> ir.Value:
    """A value, perhaps smaller, with the same elements as `value`, which is not empty if its size is a number."""
    while (op := defining_op(value)) is not None and states(op, MovesData, KeepsAll):
        source = op.operands[0]
        if not type_of(value).is_static and product(type_of(value).shape) != product(type_of(source).shape):
            break  # it may be empty although its operand is not
        value = source
    return value
