"""Decides which loops are worth starting threads for, by the costs of the target."""

from dataclasses import replace
from math import prod

from stepwell.dialects.core.sizes import Size, product
from stepwell.dialects.target.costs import Costs
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.schedule.nest import Nest

THREADED_ROUNDS = 16
"""Iterations of threaded loops that suffice to balance threads: each of a few cores gets several."""


def work_of(op: Structured, costs: Costs) -> int | Size:
    """The work of an op in iterations of an element-wise loop (see `Costs.threaded_work`); an expression of symbols if sizes are dynamic."""
    count = product(op.bounds)
    assert count is not None  # otherwise it would have no bounds
    return count * op.inner_rounds // _rate(op, costs)


def likely_work_of(op: Structured, costs: Costs) -> int:
    """Like `work_of`, for likely sizes."""
    return prod(op.extents) * op.inner_rounds // _rate(op, costs)


def threaded(op: Structured, nest: Nest, costs: Costs) -> Nest:
    """`nest` with enough leading loops on threads to balance them; none if there is little work or an outer loop is already threaded."""
    if not op.may_thread:
        return replace(nest, parallel=0)
    rounds = [-(-size // nest.blocks.get(d, nest.step(d))) for d, size in enumerate(op.sizes)]
    work = prod(op.sizes) * op.inner_rounds // _rate(op, costs)
    return replace(nest, parallel=0 if work < costs.threaded_work else balancing_loops(nest.order, rounds))


def balancing_loops(order: tuple[int, ...], rounds: list[int]) -> int:
    """The number of leading loops that balance the threads."""
    count, total = 0, 1
    for dim in order:
        if total >= THREADED_ROUNDS:
            break
        total *= rounds[dim]
        count += 1
    return count


def _rate(op: Structured, costs: Costs) -> int:
    return costs.contraction_rate if op.kind == "contraction" else 1
