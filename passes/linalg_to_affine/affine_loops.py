"""Loops and branches over segments of a dimension, in the affine and scf dialects."""

from collections.abc import Callable, Sequence
from typing import Any

from stepwell.dialects.core.mlir import affine, arith, ir, scf
from stepwell.dialects.core.sizes import Size, static_sizes
from stepwell.dialects.core.symbolic_shapes import SymbolicShapes
from stepwell.passes.linalg_to_affine.position import Position, value_of
from stepwell.passes.schedule.segments import Segment

Body = Callable[[Position, list[ir.Value]], list[ir.Value]]
"""Emits one iteration of a loop at a position: maps the loop-carried values to those for the next iteration."""


def loop(at: Position, dim: int, segment: Segment, carried: list[ir.Value], body: Body, *, written_out: bool = False) -> list[ir.Value]:
    """One loop over `segment`, or only its body if there is a single iteration, under a condition if there may be none.

    With `written_out`, the iterations of a segment with static bounds follow each other without a loop.
    """
    if segment.rounds == 1:
        return body(at.moved(dim, segment.low), carried)
    if segment.optional:
        return _if_any(at, segment, carried, lambda: body(at.moved(dim, segment.low), carried))
    if written_out:
        first, last = static_sizes((segment.low, segment.high))
        for begin in range(first, last, segment.step):
            carried = body(at.moved(dim, begin), carried)
        return carried
    low, high = (bound_of(at.context.root.shapes, bound) for bound in (segment.low, segment.high))
    made = affine.AffineForOp(low[0], high[0], segment.step, iter_args=carried, lower_bound_operands=low[1], upper_bound_operands=high[1])
    with ir.InsertionPoint(made.body):
        affine.AffineYieldOp(body(at.entered(dim, made.induction_variable), list(made.inner_iter_args)))
    return list(made.results)


def _if_any(at: Position, segment: Segment, carried: list[ir.Value], once: Callable[[], list[ir.Value]]) -> list[ir.Value]:
    """The single iteration of a segment, if it has one: a loop would be unrolled for nothing."""
    some = arith.cmpi(arith.CmpIPredicate.slt, at.value(segment.low), at.value(segment.high))
    choice = scf.IfOp(some, [value.type for value in carried], has_else=bool(carried))
    with ir.InsertionPoint(choice.then_block):
        scf.YieldOp(once())
    if carried:
        with ir.InsertionPoint(choice.else_block):
            scf.YieldOp(carried)
    return list(choice.results)


def switch(value: ir.Value, cases: Sequence[int], otherwise: Callable[[], None] = lambda: None) -> list[ir.Block]:
    """An scf.index_switch with these cases. Returns their blocks, each of which still needs an scf.yield; `otherwise` emits the default case."""

    def default(_: ir.Block) -> None:
        otherwise()
        scf.YieldOp([])

    op = scf.IndexSwitchOp([], value, cases, default_body_builder=default)
    return list(op.case_blocks)


def bound_of(shapes: SymbolicShapes, size: int | Size) -> tuple[Any, list[ir.Value]]:
    """A loop's bound as a number, or as a map and its operands."""
    if isinstance(size, int):
        return size, []
    return ir.AffineMap.get(0, 1, [ir.AffineSymbolExpr.get(0)]), [value_of(shapes, size)]


def parallel_loop(cut: Sequence[Segment], shapes: SymbolicShapes | None = None) -> Any:
    """An affine.parallel over the segments, with an empty body block; `shapes` are those of its function if the segments have symbols."""
    index = ir.IndexType.get()
    i32 = ir.IntegerType.get_signless(32)
    operands: list[ir.Value] = []
    maps = []
    for bounds in ([s.low for s in cut], [s.high for s in cut]):
        exprs: list[Any] = []
        count = len(operands)
        for bound in bounds:
            if isinstance(bound, int):
                exprs.append(ir.AffineConstantExpr.get(bound))
            else:
                assert shapes is not None
                exprs.append(ir.AffineSymbolExpr.get(len(operands) - count))
                operands.append(value_of(shapes, bound))
        maps.append(ir.AffineMap.get(0, len(operands) - count, exprs))
    groups = ir.DenseIntElementsAttr.get([ir.IntegerAttr.get(i32, 1)] * len(cut), ir.RankedTensorType.get([len(cut)], i32))
    steps = ir.ArrayAttr.get([ir.IntegerAttr.get(ir.IntegerType.get_signless(64), s.step) for s in cut])
    low, high = (ir.AffineMapAttr.get(m) for m in maps)
    loop = affine.AffineParallelOp([], ir.ArrayAttr.get([]), low, groups, high, groups, steps, operands)
    loop.regions[0].blocks.append(*[index] * len(cut))
    return loop
