"""Which loops of a nest run on threads."""

from dataclasses import replace
from math import prod

from stepwell.dialects.core.sizes import Size, product
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.schedule.nest import Nest

THREADED_WORK = 1 << 15  # iterations below which starting threads costs more than it saves (measured by `scripts/bench.py --fork-join`)
QUICK = 4  # how many times as many iterations a contraction does in the same time: its operands come from caches and registers
THREADED_ROUNDS = 16  # of the threaded loops: enough to balance the threads


def work_of(op: Structured) -> int | Size:
    """How many iterations an op does, in terms of `THREADED_WORK`; an expression of symbols where that is known only at run time."""
    count = product(op.bounds)
    assert count is not None  # or it would have no bounds
    return count * op.inner_rounds // (QUICK if op.kind == "contraction" else 1)


def threaded(op: Structured, nest: Nest) -> Nest:
    """`nest` with as many leading loops on threads as balance them, none if there is little work or the loops around are on threads."""
    if not op.may_thread:
        return replace(nest, parallel=0)
    rounds = [-(-size // nest.blocks.get(d, nest.step(d))) for d, size in enumerate(op.sizes)]
    return replace(nest, parallel=threaded_loops(nest.order, rounds, prod(op.sizes) * op.inner_rounds // (QUICK if op.kind == "contraction" else 1)))


def threaded_loops(order: tuple[int, ...], rounds: list[int], work: int) -> int:
    """How many leading loops to thread: none if there is little work, else as many as balance the threads."""
    if work < THREADED_WORK:
        return 0
    count, total = 0, 1
    for dim in order:
        if total >= THREADED_ROUNDS:
            break
        total *= rounds[dim]
        count += 1
    return count
