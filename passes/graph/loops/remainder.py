"""Replaces a loop by its remainder, once some results are computed without it."""

from collections.abc import Mapping

import numpy as np

from stepwell.dialects.core.mlir import ir, ops_below, users
from stepwell.dialects.core.sizes import Size
from stepwell.dialects.core.types import to_numpy, type_of
from stepwell.dialects.graph import GraphBuilder, LoopOp
from stepwell.passes.graph.loops.rounds import Rounds
from stepwell.passes.graph.matching import is_used


def with_stacked(rounds: Rounds, value: ir.Value) -> None:
    """Let the body of a loop read a value as a row of a tensor that is computed in front of it for all iterations; replaced values stay."""
    rows = rounds.stacked(value)
    users_ = [(use.owner.operation, use.operand_number) for use in value.uses]
    first = next(iter(rounds.body.operations)).operation
    with ir.InsertionPoint(first), first.location:
        row = rounds.b.at_round(rows, rounds.body.arguments[0], axis=0, backwards=False)
    for user, place in users_:
        user.operands[place] = row
    rounds.set_stacked(row, rows)


def finish(rounds: Rounds, given: Mapping[int, ir.Value]) -> None:
    """Replace the results of a loop that are known without it, `given` by their indices, and the loop by one that carries the rest.

    Counters are computed from the trip count, and collected rows are a tensor in front of the loop. The loop is removed if nothing is left of it.
    """
    op, b = rounds.op.operation, rounds.b
    carried = len(rounds.arguments)
    known = dict(given)
    with ir.InsertionPoint(op), op.location:
        for number, result in enumerate(op.results):
            if number in known or not is_used(result):
                continue
            value = _known_result(rounds, number)
            if value is not None:
                known[number] = value
        for number, value in known.items():
            if value.type != op.results[number].type:
                value = b.reshape(value, shape=type_of(op.results[number]).shape)
            keeps = [user for user in users(op.results[number]) if user.name == "graph.keep"]
            op.results[number].replace_all_uses_with(value)
            for keep in keeps:
                keep.erase()
    kept = _kept(rounds)
    collected = [carried + i for i in range(len(op.results) - carried) if is_used(op.results[carried + i])]
    if not any(map(is_used, op.results)):
        op.erase()
    elif len(kept) + len(collected) == len(op.results):
        _erase_dead(rounds.body)
    else:
        _rebuilt(rounds, kept, collected)


def _known_result(rounds: Rounds, number: int) -> ir.Value | None:
    carried = len(rounds.arguments)
    if number >= carried:
        value = rounds.collected()[number - carried]
        return rounds.stacked(value) if rounds.can_stack(value) else None
    argument = rounds.arguments[number]
    if rounds.yielded(number) == argument:
        return rounds.initial[number]
    last = rounds.last(number)
    return None if last is None else number_of(rounds.b, last, argument)


def number_of(b: GraphBuilder, size: int | Size, like: ir.Value) -> ir.Value:
    """An integer as a tensor of the type of `like`, which has one element."""
    kind = type_of(like)
    if isinstance(size, int):
        return b.literal(np.full(kind.static_shape, size, to_numpy(kind.dtype)))
    made = b.reshape(b.sizes(values=(size,)), shape=kind.shape)
    return made if kind.dtype == "i64" else b.cast(made, to=kind.dtype, saturate=True)


def _kept(rounds: Rounds) -> list[int]:
    """The indices of the carried values that a used result, or the condition, depends on."""
    op, carried = rounds.op.operation, len(rounds.arguments)
    end = list(rounds.end.operands)
    needed = {number for number in range(carried) if is_used(op.results[number])}
    values = [end[0], *(end[1 + number] for number in needed), *(end[1 + i] for i in range(carried, len(op.results)) if is_used(op.results[i]))]
    seen: set[ir.Value] = set()
    for inner in rounds.body.operations:
        if not inner.operation.results and inner.operation.name != "graph.yield":  # it is there for an effect
            values += inner.operands
    while values:
        value = values.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value.owner, ir.Block):
            if value in rounds.arguments and (number := rounds.arguments.index(value)) not in needed:
                needed.add(number)
                values.append(end[1 + number])
            elif value in rounds.arguments:
                values.append(end[1 + rounds.arguments.index(value)])
        elif not rounds.is_outside(value):
            maker = value.owner.operation
            values += [operand for inner in (maker, *ops_below(maker)) for operand in inner.operands]
    return sorted(needed)


def _erase_dead(block: ir.Block) -> None:
    for inner in reversed([o.operation for o in block.operations]):
        if inner.results and not any(map(is_used, inner.results)):
            inner.erase()


def _rebuilt(rounds: Rounds, kept: list[int], collected: list[int]) -> None:
    """The loop with only some of its carried and collected values."""
    op, end, body = rounds.op.operation, rounds.end, rounds.body
    results = [*kept, *collected]
    with ir.InsertionPoint(end), end.location:
        ir.Operation.create("graph.yield", operands=[end.operands[0], *(end.operands[1 + number] for number in results)])
    end.erase()
    _erase_dead(body)
    for number in reversed([i for i in range(len(rounds.arguments)) if i not in kept]):
        body.erase_argument(2 + number)
    with ir.InsertionPoint(op), op.location:
        operands = [rounds.op.trip_count, rounds.op.condition, [rounds.initial[i] for i in kept]]
        made = rounds.b.create(LoopOp, operands, {}, [type_of(op.results[i]) for i in results]).operation
    for name in op.attributes:
        if name not in made.attributes:
            made.attributes[name] = op.attributes[name]
    body.append_to(made.regions[0])
    for number, result in zip(results, made.results, strict=True):
        op.results[number].replace_all_uses_with(result)
    op.erase()
