"""Local search: changes one knob of a schedule at a time, as long as the cost model predicts a gain."""

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from stepwell.dialects.target.description import Target
from stepwell.dialects.target.dot_products import NONE
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.schedule.arithmetic import arithmetic
from stepwell.passes.schedule.cost_model import CycleModel
from stepwell.passes.schedule.intrinsics import available
from stepwell.passes.schedule.nest import MAX_TILE, Nest
from stepwell.passes.schedule.parallel import threaded

GAIN = 0.9
"""A change must cost less than this fraction of the best cost so far: smaller gains are below the model's accuracy."""
ROUNDS = 4
"""The largest number of passes over all knobs."""
VECTORS = (1, 2, 4)  # candidate numbers of registers in one vector


def improve(op: Structured, target: Target, start: Nest, order: str | None = None) -> Nest:
    """The cheapest nest found by changing single knobs of `start`; `start` itself if the gain is below a tenth.

    With an `order`, only nests of that arithmetic (see `arithmetic`) are candidates.
    """
    if why_fixed(op, start, target) is not None:
        return start
    model = CycleModel(op, target)
    best, cost = start, model.cost(start).cycles
    if cost * GAIN <= model.least:
        return start
    seen = {best}
    for _ in range(ROUNDS):
        before = best
        for candidate in neighbours(model, best, orders=model.compute(best) < cost * GAIN):
            if candidate in seen or (order is not None and arithmetic(candidate, op) != order):
                continue
            seen.add(candidate)
            found = model.cost(candidate, limit=cost * GAIN).cycles
            if found < cost * GAIN:
                best, cost = candidate, found
        if best is before or cost * GAIN <= model.least:
            break
    return best


def why_fixed(op: Structured, start: Nest, target: Target | None) -> NoMatch | None:
    """Why the search leaves `start` unchanged; None if it searches."""
    if start.block:  # the function that chose them accounts for pages and streams, which the model does not
        return NoMatch("its schedule has blocks, which stay as they were cut")
    used = available(op, target).get(start.intrinsic)
    if used is not None and used.intrinsic.tile is not None:
        return NoMatch(f"its tile is as '{start.intrinsic}' wants it")
    if prod(op.sizes) == 0:
        return NoMatch("there is nothing to compute")
    if start.vector < 0:
        return NoMatch("no dimension can be vectorised: " + "; ".join(sorted({why for d in range(len(op.sizes)) if (why := op.why_not_vector(d))})))
    if any(a.is_constant for a in op.inputs):
        return NoMatch("it reads a constant of its kernel, whose numbers are written into the code")
    return None


def neighbours(model: CycleModel, nest: Nest, *, orders: bool) -> Iterator[Nest]:
    """Nests that differ in one knob, and in other knobs only as needed for the tile to fit the registers.

    With `orders`, the order of the loops changes too, which affects only traffic.
    """
    op, sizes = model.op, model.sizes
    free = [d for d in op.parallel_dims if d != nest.vector and sizes[d] > 1]
    for dim in free:
        # A tile over more images than there may be is only partly full: the search keeps such a tile if it starts with one, but creates none.
        most = max(nest.unroll[dim], op.small_extents[dim]) if dim in op.open else sizes[dim]
        for step in steps(sizes[dim], model.target.vector_registers // model.vectors(nest.width, model.bytes)):
            if step <= most and step != nest.unroll[dim]:
                yield from fitting(model, nest, (*nest.unroll[:dim], step, *nest.unroll[dim + 1 :]), nest.width, dim)
    for dim in (nest.vector, *vectorisable(op, nest.vector)):
        unroll = tuple(1 if d == dim else u for d, u in enumerate(nest.unroll))
        for intrinsic, width in widths(model, dim, nest.width):
            if (dim, width, intrinsic) != (nest.vector, nest.width, nest.intrinsic) and width <= sizes[dim]:
                yield from fitting(model, Nest(nest.order, nest.parallel, unroll, dim, width, intrinsic), unroll, width, dim)
    for dim in free if orders else ():  # move the loop to the outermost and the innermost position
        rest = tuple(d for d in nest.order if d != dim)
        yield threaded(op, replace(nest, order=(dim, *rest)), model.target.costs)
        yield threaded(op, replace(nest, order=(*rest, dim)), model.target.costs)
    yield from blocked(model, nest) if orders else ()


def blocked(model: CycleModel, nest: Nest) -> Iterator[Nest]:
    """`nest` with the outermost loops and, inside them, the reduction dimensions in blocks (halves, quarters and so on); or without blocks."""
    op, sizes = model.op, model.sizes
    if nest.block:
        yield threaded(op, replace(nest, block=()), model.target.costs)
    sums = [d for d in op.reduction_dims if op.can_block(d) and nest.vector not in op.reduction_dims]
    largest = max(sums, key=lambda d: sizes[d], default=-1)
    for outer in nest.order[:2]:
        for ours in (0, *cuts(sizes[outer], nest.step(outer))):
            for summed in (0, *(cuts(sizes[largest], model.target.costs.summed_block) if largest >= 0 else ())):
                if ours or summed:
                    block = tuple(ours if d == outer else summed if d == largest else 0 for d in range(len(sizes)))
                    yield threaded(op, replace(nest, block=block), model.target.costs)


def cuts(size: int, step: int) -> list[int]:
    """Blocks that cut `size` in two, four, eight and so on, each a multiple of `step`."""
    parts = (2**i for i in range(1, 6) if size >> i >= step)
    return sorted({-(-size // (part * step)) * step for part in parts})


def vectorisable(op: Structured, vector: int) -> list[int]:
    """Dimensions other than `vector` along which no input has to be gathered element by element."""
    others = [d for d in range(len(op.sizes)) if d != vector and op.sizes[d] > 1 and op.can_vectorise(d)]
    return [d for d in others if all(a.kind(d) != "strided" for a in op.inputs if a.used and a.is_shaped)]


def widths(model: CycleModel, dim: int, now: int) -> Iterator[tuple[str, int]]:
    """The intrinsics (and none) with the vector widths to try along `dim`; for an intrinsic, the current width comes first."""
    in_lanes = dim in model.reductions
    units = {NONE: model.vector_bytes // model.bytes}
    units |= {name: use.intrinsic.lanes * (use.intrinsic.depth if in_lanes else 1) for name, use in model.uses.items() if use.intrinsic.tile is None}
    for name, unit in units.items():
        if name != NONE and now % unit == 0:
            yield name, now
        yield from ((name, count * unit) for count in VECTORS)


def steps(size: int, limit: int) -> list[int]:
    """The smallest step for each possible number of rounds over `size`, up to `limit`."""
    return sorted({-(-size // -(-size // step)) for step in range(1, min(size, limit) + 1)})


def fitting(model: CycleModel, nest: Nest, unroll: tuple[int, ...], width: int, turned: int) -> Iterator[Nest]:
    """`nest` with this tile and newly chosen threads; the steps of dimensions other than `turned` shrink until the tile fits the registers."""
    while True:
        candidate = Nest(nest.order, nest.parallel, unroll, nest.vector, width, nest.intrinsic)  # without blocks, whose sizes may no longer fit
        if prod(unroll) <= MAX_TILE and model.fits(candidate):
            yield threaded(model.op, candidate, model.target.costs)
            return
        largest = max((u for d, u in enumerate(unroll) if d not in (turned, nest.vector)), default=1)
        if largest == 1:
            return
        unroll = tuple(u - 1 if u == largest and d != turned else u for d, u in enumerate(unroll))
