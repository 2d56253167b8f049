"""The pass that keeps LLVM from unrolling large nests, because schedules decide that."""

from math import inf

from stepwell.dialects.core.mlir import defining_op, ir, ops_below
from stepwell.passes.affine_to_llvm.trip_counts import trip_count
from stepwell.passes.framework.registry import Pass, PassState, register_pass

ANNOTATION = "loop_annotation"  # the llvm dialect's name; the conversions carry it from the loop to its last branch
ROLLED = "#llvm.loop_annotation<unroll = <disable = true>>"


@register_pass("limit-unrolling", level="affine", optional=True)
class LimitUnrolling(Pass):
    """Keep LLVM from unrolling whole nests; it may unroll innermost loops, and nests with few iterations.

    rewrite: scf.for around more than `iterations` iterations of loops, or around loops with a dynamic trip count, or with such a trip count itself
    ->  the same with `loop_annotation` = unrolling disabled

    LLVM would turn nests like 15 × 15 into straight-line code. Its passes that compare every access with every other then take seconds. The schedule
    has already unrolled, in a register tile, everything that is worth unrolling.
    """

    iterations: int = 64

    def run(self, op: ir.Operation, state: PassState) -> None:
        inside: dict[ir.Operation, float] = {}  # iterations of the nest inside one iteration of a loop; infinite if unknown
        loops = ops_below(op, "scf.for")
        for loop in reversed(loops):  # innermost first
            parent = _enclosing(loop)
            if parent is not None and not _is_chunk(loop):
                inside[parent] = max(inside.get(parent, 1), _trips(loop) * inside.get(loop, 1))
        for loop in loops:
            count = _trips(loop) * inside.get(loop, 1)
            if loop in inside and count > self.iterations and not _is_chunk(loop):
                many = f"{count:.0f}" if count < inf else "an unknown number of"
                state.did(self.name, loop, f"LLVM is kept from unrolling it: there are {many} iterations in it")
                loop.attributes[ANNOTATION] = ir.Attribute.parse(ROLLED)
                state.count(self.name)


def _is_chunk(loop: ir.Operation) -> bool:
    """Whether a loop walks one thread's share, with an arbitrary start: it is outermost, and LLVM leaves it alone."""
    first = defining_op(loop.operands[0])
    return first is None or first.name != "arith.constant"


def _trips(loop: ir.Operation) -> float:
    trips = trip_count(list(loop.operands)[:3])
    return inf if trips is None else max(trips, 1)


def _enclosing(loop: ir.Operation) -> ir.Operation | None:
    """The loop around a loop."""
    parent = loop.parent
    while parent is not None and parent.operation.name != "scf.for":
        parent = parent.parent
    return None if parent is None else parent.operation
