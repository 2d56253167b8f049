"""The effect of a schedule's knobs on the code: values that other knobs clamp or make irrelevant, and the values worth offering."""

from dataclasses import replace
from math import prod
from typing import Any

from stepwell.dialects.sched.nest import NestKnobs
from stepwell.dialects.target.description import Target
from stepwell.dialects.target.dot_products import NONE
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.schedule.intrinsics import available
from stepwell.passes.schedule.nest import MAX_TILE, Nest
from stepwell.passes.schedule.space import Choice, Knob, Permutation, Range, block_knob, knobs, tile_knob


def effective(nest: NestKnobs, op: Structured) -> Nest:
    """A simpler schedule with the same code as `nest`: knobs without effect get their default, and clamped values are clamped.

    The step along `vector` is `width`, which is at most the largest power of two that the dimension holds; vectors of one element are none; threads
    need a loop; and a prefetch needs a vector that moves along its loop. Two different results may still have the same code.
    """
    found = Nest(**vars(nest))
    if not found.prefetch or not _prefetches(found, op):
        found = replace(found, prefetch=0, along=-1)
    if found.vector >= 0:
        found = replace(found, unroll=tuple(1 if d == found.vector else n for d, n in enumerate(found.unroll)))
        if found.vector not in op.open and found.intrinsic == NONE and not found.prefetch and not found.block:
            found = replace(found, width=min(found.width, 1 << max(0, op.sizes[found.vector].bit_length() - 1)))
        if found.width == 1 and found.vector not in op.open:
            found = replace(found, vector=-1)
    if found.vector < 0:
        found = replace(found, width=1)
    while found.parallel and not found.block and not _is_walked(found, op, found.order[found.parallel - 1]):
        found = replace(found, parallel=found.parallel - 1)
    return found


def code_key(nest: NestKnobs, op: Structured) -> tuple[Nest, tuple[int, ...], tuple[int, ...]]:
    """A key of a schedule's code: schedules with the same key have the same code, since they differ in the places of loops of one iteration only."""
    found = effective(nest, op)
    walked = tuple(d for d in found.order if _is_walked(found, op, d))
    return replace(found, order=()), walked, tuple(d for d in found.order if d in _tiled(found))


def walked_or_tiled(nest: Nest, op: Structured) -> frozenset[int]:
    """The dimensions whose place in the order makes a difference: those with several steps, and those in which the points of a tile differ."""
    return frozenset(d for d in nest.order if _is_walked(nest, op, d)) | _tiled(nest)


def clamped(nest: Nest, op: Structured) -> dict[str, tuple[object, object]]:
    """Maps the name of each knob of `nest` whose value is replaced to the pair (given value, effective value)."""
    taken = effective(nest, op).values(op)
    return {name: (given, taken[name]) for name, given in nest.values(op).items() if taken[name] != given}


def offered(op: Structured, target: Target | None, nest: NestKnobs) -> tuple[Knob, ...]:
    """Like `knobs`, without the values that the other knobs of `nest` make illegal, clamp, or render irrelevant.

    Found by rules (`effective`), without lowering anything: a few of the remaining values may still give the same code.
    """
    return tuple(Knob(knob.name, _narrowed(knob, op, target, Nest(**vars(nest))), knob.reasons) for knob in knobs(op, target))


def _narrowed(knob: Knob, op: Structured, target: Target | None, nest: Nest) -> Choice | Range | Permutation:
    if isinstance(knob.legal, Permutation):
        return Permutation(knob.legal.items, frozenset(d for d in nest.order if _is_walked(nest, op, d)), _tiled(nest))
    if knob.name == "parallel":
        return _choice(nest, knob, op) if op.may_thread else Choice((0,))
    for dim in range(len(op.sizes)):
        if knob.name == tile_knob(dim):
            return _tiles(dim, nest, knob.legal)
        if knob.name == block_knob(dim):
            return _blocks(dim, nest, op)
    if knob.name == "prefetch":
        return knob.legal if _prefetches(replace(nest, prefetch=1), op) else Range(0, 0)
    uses = available(op, target)

    def fits(value: Any) -> bool:
        candidate = replace(nest, **{knob.name: value})
        if candidate.intrinsic == NONE:
            return True
        intrinsic = uses[candidate.intrinsic].intrinsic
        unit = intrinsic.lanes * (intrinsic.depth if candidate.vector in op.reduction_dims else 1)
        return candidate.vector >= 0 and candidate.width % unit == 0 and not any(a.is_constant for a in op.inputs)

    def divides(value: Any) -> bool:
        candidate = replace(nest, **{knob.name: value})
        sums = candidate.vector in op.reduction_dims
        return all(size % candidate.step(d) == 0 and not (sums and d in op.reduction_dims) for d, size in candidate.blocks.items())

    return _choice(nest, knob, op, [value for value in knob.legal if fits(value) and divides(value)])


def _choice(nest: Nest, knob: Knob, op: Structured, values: list[Any] | None = None) -> Choice:
    """The first of each set of a knob's values that give the same code."""
    first: dict[Nest, Any] = {}
    value: Any
    for value in knob.legal if values is None else values:
        first.setdefault(effective(replace(nest, **{knob.name: value}), op), value)
    return Choice(tuple(first.values()))


def _tiles(dim: int, nest: Nest, legal: Choice | Range | Permutation) -> Choice | Range:
    assert isinstance(legal, Range)
    if dim == nest.vector:
        return Range(1, 1)
    high = min(legal.high, max(1, MAX_TILE // prod(n for d, n in enumerate(nest.unroll) if d != dim)))
    block = nest.blocks.get(dim, 0)
    return Choice(tuple(n for n in range(1, min(high, block) + 1) if block % n == 0)) if block else Range(1, high)


def _blocks(dim: int, nest: Nest, op: Structured) -> Range:
    if not op.can_block(dim) or (dim in op.reduction_dims and nest.vector in op.reduction_dims):
        return Range(0, 0)
    step = nest.step(dim)
    return Range(0, op.sizes[dim] // step * step, step)


def _tiled(nest: Nest) -> frozenset[int]:
    """The dimensions in which the points of a register tile differ."""
    return frozenset(d for d, n in enumerate(nest.unroll) if n > 1 and d != nest.vector)


def _is_walked(nest: Nest, op: Structured, dim: int) -> bool:
    """Whether a dimension is walked in several steps."""
    return dim in op.open or nest.blocks.get(dim, nest.step(dim)) < op.sizes[dim]


def _prefetches(nest: Nest, op: Structured) -> bool:
    """Whether a nest with a prefetch has vectors to prefetch: some input is read in vectors and moves along the prefetch's loop."""
    if nest.vector < 0 or nest.width == 1 or not op.reduction_dims:
        return False
    along = nest.along if nest.along >= 0 else op.reduction_dims[-1]
    shaped = [a for a in op.inputs if a.used and a.is_shaped]
    if nest.intrinsic != NONE or (nest.along < 0 and len(op.reduction_dims) > 1):
        return bool(shaped)  # the operands of an intrinsic, and the lines of the other operand of vectors, are prefetched too
    return any(a.kind(nest.vector) == "vector" and a.kind(along) != "scalar" for a in shaped)
