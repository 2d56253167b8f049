"""Builds graph.loop: a body is rebuilt until the types of its carried values hold in every iteration."""

from collections.abc import Callable, Collection, Sequence

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Size, maximum
from stepwell.dialects.core.types import TensorType, type_of
from stepwell.dialects.graph.control import LoopOp
from stepwell.dialects.graph.regions import captured_by
from stepwell.dialects.support.errors import UnsupportedError
from stepwell.frontends.blocks.slicing import slice_axis, with_new_axes
from stepwell.frontends.builder import Value
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.rules.counted_loops import counted

ENDLESS = np.iinfo(np.int64).max
"""The trip count of a loop without one."""


class TypeChangesError(UnsupportedError):
    """An iteration of a loop returns a carried value with another element type or rank than it took."""


def empty_stack(b: ImportBuilder, part: TensorType) -> Value:
    """An empty tensor of values of a type along a new first dimension."""
    one = b.convert(b.literal(np.zeros((1,) * (1 + part.rank), np.float32)), part.dtype)
    return slice_axis(b, b.expand(one, shape=(1, *part.shape)), 0, 0, 0)


def loop_of(
    b: ImportBuilder, limit: Value, condition: Value, initial: Sequence[Value], rounds: Callable[..., tuple[Value, ...]],
    growing: Collection[int] = (),
) -> tuple[tuple[Value, ...], ir.Operation]:  # fmt: skip
    """The results of a graph.loop, and the op. `rounds` builds the body: maps iteration number, condition and carried values to the body's results.

    The carried values with indices in `growing` may have another size in dimension 0 in each iteration, as the body is told from the start.
    """
    own = [type_of(v) for v in initial]
    open_ = [kind.with_shape((None, *kind.shape[1:])) if i in growing else kind for i, kind in enumerate(own)]
    types = [b.symbols.completed("carried", kind) for kind in open_]
    holder, made = _body(b, limit, condition, initial, types, rounds)
    names = [*b.node.output_names, *[""] * len(own)]
    # A changing size has another symbol in each iteration; only the run knows its value after the last one. A change may cause further changes, so
    # the body is rebuilt until there are none.
    while (after := _wider(own, types, made)) != types:
        b.erase(holder)
        types = [b.symbols.completed(name or "carried", kind) for name, kind in zip(names, after, strict=False)]
        holder, made = _body(b, limit, condition, initial, types, rounds)
    bounds = counted(b, limit, condition, initial, holder.regions[0].blocks[0], made)
    if bounds is not None:  # all iterations of the loop with this trip count run
        limit, condition = bounds
        body = holder.regions[0].blocks[0]
        made[0] = body.arguments[1]
        list(body.operations)[-1].operation.operands[0] = made[0]
    unchanged = zip(types, own, strict=True)
    results = [kind if kind == before else b.symbols.completed("carried", covering(kind, before)) for kind, before in unchanged]
    parts = [type_of(v) for v in made[len(own) + 1 :]]
    count: int | Size | None = _round_count(b, limit, condition, holder, made[0])
    if count is None and parts:
        names = list(b.node.output_names)
        count = b.symbols.fresh(f"{names[len(own)] if len(names) > len(own) else 'rounds'}_0")
    if parts and is_endless(b, limit) and all(b.symbols.are_of_inputs(kind.shape) for kind in parts):
        b.erase(holder)
        return appended(b, limit, condition, initial, rounds, parts, growing)
    outside = {name for kind in (*own, *map(type_of, captured_by(holder))) for size in kind.shape if isinstance(size, Size) for name in size.symbols}
    inside = [[size for size in kind.shape if isinstance(size, Size) and not outside.issuperset(size.symbols)] for kind in parts]
    changing = next((kind for kind, sizes in zip(parts, inside, strict=True) if not b.symbols.are_of_inputs(sizes)), None)
    if changing is not None:
        raise UnsupportedError(f"a loop that collects values of changing sizes ({changing}) is not supported; supported: one size for all rounds")
    collected = [kind.with_shape((count, *kind.shape)) for kind in parts]
    op = b.create(LoopOp, [limit, condition, list(initial)], {}, [*results, *collected]).operation
    holder.regions[0].blocks[0].append_to(op.regions[0])
    b.erase(holder)
    return tuple(op.results), op


def appended(
    b: ImportBuilder, limit: Value, condition: Value, initial: Sequence[Value], rounds: Callable[..., tuple[Value, ...]],
    parts: Sequence[TensorType], growing: Collection[int],
) -> tuple[tuple[Value, ...], ir.Operation]:  # fmt: skip
    """Like `loop_of`, for a loop that collects `parts`: it carries the collected values, since their total size is unknown."""

    def longer(number: Value, going_on: Value, *state: Value) -> tuple[Value, ...]:
        goes, *results = rounds(number, going_on, *state[: len(initial)])
        new = [with_new_axes(b, part, [0]) for part in results[len(initial) :]]
        return goes, *results[: len(initial)], *(b.concat([old, part], axis=0) for old, part in zip(state[len(initial) :], new, strict=True))

    return loop_of(b, limit, condition, [*initial, *(empty_stack(b, kind) for kind in parts)], longer, growing)


def is_endless(b: ImportBuilder, limit: Value) -> bool:
    """Whether a loop has no trip count."""
    count = b.constant_value(limit)
    return count is not None and int(count) == ENDLESS


def _body(
    b: ImportBuilder, limit: Value, condition: Value, initial: Sequence[Value], types: Sequence[TensorType], rounds: Callable[..., tuple[Value, ...]]
) -> tuple[ir.Operation, list[Value]]:
    """An op with the body of a loop that carries these types, and the body's results.

    The op has no results yet, since the body determines their types. It is in the module, as in the rule for If.
    """
    holder = ir.Operation.create("graph.loop", operands=[limit, condition, *initial], results=[], regions=1)
    arguments = [TensorType("i64", ()), TensorType("i1", ()), *types]
    block = holder.regions[0].blocks.append(*(t.to_mlir() for t in arguments), arg_locs=[holder.location] * len(arguments))
    try:
        with ir.InsertionPoint(block):
            made = list(rounds(*block.arguments))
            b.yield_(made, result_types=[])
    except BaseException:
        b.erase(holder)
        raise
    return holder, made


def _round_count(b: ImportBuilder, limit: Value, condition: Value, holder: ir.Operation, going_on: Value) -> int | Size | None:
    """The trip count, if it is known: a number, or a size that follows from shapes of inputs."""
    first = b.constant_value(condition)
    goes = np.array(True) if going_on == holder.regions[0].blocks[0].arguments[1] else b.constant_value(going_on)
    if first is None or goes is None or not goes.all() or is_endless(b, limit):
        return None
    if not first.all():
        return 0
    count = b.symbolic_scalar(limit, "the trip count")
    return None if count is None or not b.symbols.are_of_shapes([count]) else maximum(count, 0)


def _wider(own: Sequence[TensorType], types: Sequence[TensorType], made: Sequence[Value]) -> list[TensorType]:
    """`types` of carried values with initial types `own`, without the sizes that an iteration changes.

    A size that differs between `types` and `own` is a symbol that covers any size. Raises TypeChangesError if more than sizes change.
    """
    after = [type_of(v) for v in made[1 : len(types) + 1]]
    if any((kind.dtype, kind.rank) != (new.dtype, new.rank) for kind, new in zip(types, after, strict=True)):
        shown = [", ".join(map(str, kinds)) for kinds in (types, after)]
        raise TypeChangesError(f"carried values that change their type ({shown[0]} to {shown[1]}) are not supported; supported: one type each")
    return [
        kind.with_shape([a if a != first or a == new else None for first, a, new in zip(start.shape, kind.shape, end.shape, strict=True)])
        for start, kind, end in zip(own, types, after, strict=True)
    ]


def covering(one: TensorType, other: TensorType) -> TensorType:
    """The type that covers two of one element type and rank: sizes that differ are unknown."""
    return one.with_shape([size if size == second else None for size, second in zip(one.shape, other.shape, strict=True)])
