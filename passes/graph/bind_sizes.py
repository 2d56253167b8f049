"""The pass that computes data-dependent sizes, and makes them sizes of the program."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from stepwell.dialects import graph
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Size, product
from stepwell.dialects.core.types import compute_dtype, is_float, type_of
from stepwell.dialects.graph import BindSizesOp, GraphBuilder, GraphOp
from stepwell.dialects.support.extensions import extension
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import program_functions, replace_results
from stepwell.passes.graph.asked_sizes import asked_sizes

Rule: TypeAlias = Callable[[Any, GraphBuilder], "Sequence[ir.Value] | None"]
R = TypeVar("R", bound=Rule)
_RULES: dict[str, Rule] = {}
_ALWAYS: set[str] = set()  # ops that only a rule in this file lowers


def sized_by(*classes: type[GraphOp], always: bool = False) -> Callable[[R], R]:
    """Register how the data-dependent sizes of these ops' results become known.

    The function takes the op and a builder in front of it. It binds the sizes in the types of the results (`bind`), and returns the replacement of
    the results, or None if the op can stay unchanged. It is called if a symbol is new; with `always` also if the types have none, for ops without
    another lowering: their actual sizes are then compared with the type at run time.
    """

    def add(function: R) -> R:
        for cls in classes:
            _RULES[cls.OPERATION_NAME] = function
            if always:
                _ALWAYS.add(cls.OPERATION_NAME)
        extension(function)
        return function

    return add


@register_pass("bind-sizes", level="graph")
class BindSizes(Pass):
    """Compute data-dependent sizes in front of the ops whose results have them.

    rewrite: non_zero(x) : tensor<2x?xi64, "n">  ->  places, count = non_zero_places(x); bind_sizes(count) {sizes = ["n"]}; first(places)
    rewrite: range(a, b, c) : tensor<?xi64, "n"> ->  bind_sizes(how many) {sizes = ["n"]}; range(a, b, c)

    After `bind_sizes`, a symbol is as good as one of the inputs' sizes. If the number of results is known only after computing all of them (NonZero,
    Unique, NonMaxSuppression), they are computed into a tensor of the largest size, and the first ones are taken.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        for function in program_functions(op):
            self._run_on_block(function.regions[0].blocks[0], set(), state)

    def _run_on_block(self, block: ir.Block, known_symbols: set[str], state: PassState) -> None:
        """Bind the new symbols in a block; `known_symbols` are those of the blocks around it."""
        known_symbols = known_symbols | {name for argument in block.arguments for size in type_of(argument).shape for name in symbols_of(size)}
        for inner in [o.operation for o in block.operations]:
            view = inner.opview
            if isinstance(view, BindSizesOp):
                known_symbols |= {name for size in view.attribute_values()["sizes"] for name in symbols_of(size)}
            elif isinstance(view, GraphOp) and inner.name in _RULES:
                shown = [size for kind in view.result_types() for size in kind.shape]
                new = {name for size in shown for name in symbols_of(size)} - known_symbols
                if new or (inner.name in _ALWAYS and None not in shown):
                    self._bind(inner, state)
                    known_symbols |= new
            else:
                for region in inner.regions if inner.name != "graph.fused" else ():
                    for own in region.blocks:
                        self._run_on_block(own, known_symbols, state)

    def _bind(self, op: ir.Operation, state: PassState) -> None:
        with ir.InsertionPoint(op), op.location:
            replaced = _RULES[op.name](op.opview, GraphBuilder(state.weights))
        state.count(self.name)
        state.did(self.name, op, "its size is computed in front of it")
        if replaced is not None:
            replace_results(op, replaced, GraphBuilder(state.weights))
            op.erase()


def symbols_of(size: Any) -> tuple[str, ...]:
    """The symbols in a dimension of a type."""
    return size.symbols if isinstance(size, Size) else ()


def bound_sizes(function: ir.OpView) -> list[int | Size]:
    """The sizes that a function binds, without the functions that it calls."""
    ops = [o.operation.opview for o in function.regions[0].blocks[0].operations]
    return [size for op in ops if isinstance(op, BindSizesOp) for size in op.attribute_values()["sizes"]]


def bind(b: GraphBuilder, values: ir.Value, sizes: Sequence[int | Size]) -> None:
    """Bind these sizes to the elements of a vector of i64."""
    b.build(BindSizesOp, values, sizes=tuple(sizes))


def _sizes(op: Any, result: int = 0) -> tuple[int | Size, ...]:
    return tuple(op.result_types()[result].shape)


def first_along(b: GraphBuilder, x: ir.Value, axis: int, size: int | Size) -> ir.Value:
    """The first `size` elements of `x` along an axis."""
    return b.first(x, sizes=tuple(size if i == axis else -1 for i in range(type_of(x).rank)))


@sized_by(graph.NonZeroOp, always=True)
def non_zero(op: graph.NonZeroOp, b: GraphBuilder) -> list[ir.Value]:
    """The indices of all elements, the first of which are valid."""
    places, count = b.non_zero_places(op.x)
    size = _sizes(op)[1]
    bind(b, count, [size])
    return [first_along(b, places, 1, size)]


@sized_by(graph.NonMaxSuppressionOp, always=True)
def non_max_suppression(op: graph.NonMaxSuppressionOp, b: GraphBuilder) -> list[ir.Value]:
    """As many rows as there are scores, the first of which are valid."""
    rows, count = b.kept_boxes(*op.operation.operands, **op.attribute_values())
    size = _sizes(op)[0]
    bind(b, count, [size])
    return [first_along(b, rows, 0, size)]


@sized_by(graph.RangeOp)
def range_(op: graph.RangeOp, b: GraphBuilder) -> None:
    """The number of steps; the op itself stays."""
    bind(b, steps_between(b, *op.operation.operands), _sizes(op))


def steps_between(b: GraphBuilder, start: ir.Value, limit: ir.Value, step: ir.Value) -> ir.Value:
    """The number of steps from `start` to below `limit`, as a vector of one i64; none for a step of 0."""
    dtype = type_of(start).dtype
    zero = b.cast(b.literal(np.array(0)), to=dtype, saturate=True)
    if is_float(dtype):
        wide = [b.cast(v, to=compute_dtype(dtype), saturate=True) for v in (start, limit, step)]
        steps = b.ceil(b.div(b.sub(wide[1], wide[0]), wide[2]))
        count = b.cast(b.maximum(steps, b.sub(wide[0], wide[0])), to="i64", saturate=True)
    else:
        # In i64, where no difference of narrower integers overflows; a difference of i64 that does is larger than any memory.
        first, last, by = (v if dtype == "i64" else b.cast(v, to="i64", saturate=True) for v in (start, limit, step))
        none, one = b.literal(np.array(0)), b.literal(np.array(1))
        down = b.less(by, none)
        span = b.select(down, b.sub(first, last), b.sub(last, first))
        length = b.maximum(b.abs(by), one)
        ahead = b.select(down, b.less(last, first), b.less(first, last))
        count = b.select(ahead, b.add(b.div(b.sub(span, one), length), one), none)
    moves = b.not_(b.equal(step, zero))
    return b.reshape(b.select(moves, count, b.literal(np.array(0))), shape=(1,))


@sized_by(graph.DynamicReshapeOp, graph.DynamicExpandOp, graph.DynamicSliceOp)
def as_asked(op: Any, b: GraphBuilder) -> list[ir.Value] | None:
    """The requested sizes; a reshape then knows its shape, the other ops stay."""
    sizes = _sizes(op)
    bind(b, asked_sizes(op.operation, b), sizes)
    if isinstance(op, graph.DynamicReshapeOp):
        return [b.reshape(op.x, shape=sizes)]
    return None


@sized_by(graph.UniqueOp, always=True)
def unique(op: graph.UniqueOp, b: GraphBuilder) -> list[ir.Value]:
    """Computed by sorting all slices: those that differ from their predecessor are the distinct ones, numbered in that order.

    Unsorted results are numbered in the order of `x`, by first occurrence.
    """
    attributes, x = op.attribute_values(), op.operation.operands[0]
    axis, shape = attributes["axis"], type_of(x).shape
    length = shape[axis]
    sizes = [_sizes(op)[axis], _sizes(op, 1)[0], _sizes(op, 3)[0]]  # of values, indices and counts
    others = tuple(i for i in range(len(shape)) if i != axis)
    along = b.transpose(x, perm=(axis, *others)) if axis else x
    order, starts = b.order_rows(b.reshape(along, shape=(length, product(shape[i] for i in others))))
    places, count = b.non_zero_places(starts)
    bind(b, b.concat([count] * 3, axis=0), sizes)
    firsts = [b.gather(order, _vector(b, places, size), axis=0) for size in sizes]
    group = _running(b, starts)
    if not attributes["sorted"]:
        shown = _placed(b, order, starts)
        group = b.gather(_running(b, shown), b.gather(firsts[0], group, axis=0), axis=0)
        firsts = [_vector(b, b.non_zero_places(shown)[0], size) for size in sizes]
    inverse = _placed(b, order, group)
    zeros = b.expand(b.literal(np.array(0)), shape=sizes[2:])
    ones = b.expand(b.literal(np.array(1)), shape=(length,))
    counts = b.scatter_elements(zeros, inverse, ones, axis=0, reduction="add", from_start=True)
    return [b.gather(x, firsts[0], axis=axis), firsts[1], inverse, counts]


def _vector(b: GraphBuilder, places: ir.Value, size: int | Size) -> ir.Value:
    """The first columns of a matrix of one row, as a vector."""
    return b.reshape(first_along(b, places, 1, size), shape=(size,))


def _running(b: GraphBuilder, flags: ir.Value) -> ir.Value:
    """For each flag, the number of set flags before it."""
    return b.sub(b.cumsum(b.cast(flags, to="i64", saturate=True), axis=0, exclusive=False, reverse=False), b.literal(np.array(1)))


def _placed(b: GraphBuilder, order: ir.Value, values: ir.Value) -> ir.Value:
    """`values`, which are in that order, each at its index."""
    return b.scatter_elements(values, order, values, axis=0, reduction="none", from_start=True)
