"""Determines the trip count of loops that compare a counter with an invariant bound, as exporters write `while i < n`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from stepwell.dialects.core.mlir import defining_op, ir
from stepwell.dialects.core.sizes import Size, maximum, minimum
from stepwell.dialects.core.types import type_of
from stepwell.frontends.blocks.slicing import size_scalar
from stepwell.frontends.builder import Value
from stepwell.frontends.onnx.builder import ImportBuilder

UNREACHED = np.iinfo(np.int32).max
"""The smallest trip count that does not bound a loop whose iterations are counted by sizes of inputs: no dimension is that long."""
_SAME = ("graph.reshape", "graph.cast")  # ops that pass an integer on unchanged; `_plain` checks that a cast is between integers
_FLIPPED = {"graph.greater": "graph.less", "graph.greater_equal": "graph.less_equal"}


@dataclass(frozen=True)
class _Counter:
    """A number that is incremented in each iteration: `start + offset` in the first one; a missing `start` means 0."""

    start: Value | None
    offset: int


@dataclass(frozen=True)
class _Bound:
    """The condition `counter < bound + slack` for another iteration."""

    counter: _Counter
    bound: Value
    slack: int


def counted(
    b: ImportBuilder, limit: Value, condition: Value, initial: Sequence[Value], block: ir.Block, made: Sequence[Value]
) -> tuple[Value, Value] | None:
    """Trip count and first condition of the same loop without the condition of its body; None if anything but counters decides it.

    `block` is the body, and `made` its results. The body continues after iteration r as long as `start + offset + r < bound` for each of its
    comparisons: so there are at most `1 + max(0, bound - start - offset)` iterations if there is a first one. If the first condition makes the same
    comparisons of the numbers before the first iteration, there are `max(0, bound - start)`. Numbers that are sizes stay sizes.
    """
    found = _Body(b, block, initial, made)
    bounds = found.bounds(made[0])
    if not bounds:
        return None
    true = b.literal(np.array(True))
    first = b.constant_value(condition)
    same = found.are_first(condition, bounds)
    least = 0 if same else 1
    sizes = [(_size(b, one.bound), 0 if one.counter.start is None else _size(b, one.counter.start)) for one in bounds]
    lost = [1 - one.counter.offset + one.slack for one in bounds]
    most = _size(b, limit)
    begin = true if same or (first is not None and first.all()) else condition
    if all(size is not None and start is not None for size, start in sizes):
        rounds = [size - start + more for (size, start), more in zip(sizes, lost, strict=True) if size is not None and start is not None]
        if b.symbols.are_of_shapes(rounds):
            count = maximum(least, minimum(*rounds)) if len(rounds) > 1 else maximum(least, rounds[0])
            if isinstance(most, int) and (most < UNREACHED or isinstance(count, int)):
                count, most = minimum(most, count), None
            if most is None or isinstance(most, int):
                return size_scalar(b, count, like=limit), begin
            if b.symbols.are_of_shapes([most]):
                return size_scalar(b, minimum(most, count), like=limit), begin
    total = None
    for one, more in zip(bounds, lost, strict=True):
        number = b.add(b.convert(b.with_shape(one.bound, ()), "i64"), b.scalar(more, like=limit))
        if one.counter.start is not None:
            number = b.sub(number, b.convert(b.with_shape(one.counter.start, ()), "i64"))
        total = number if total is None else b.minimum(total, number)
    assert total is not None
    return b.minimum(limit, b.maximum(total, b.scalar(least, like=limit))), begin


def _size(b: ImportBuilder, value: Value) -> "int | Size | None":
    """The integer in a scalar, perhaps in symbols of sizes; None if it is not known."""
    found = b.symbolic_scalar(value, "the bound of a loop")
    return None if found is None or isinstance(found, bool) else found


class _Body:
    """The body of a loop, with queries about its counters."""

    def __init__(self, b: ImportBuilder, block: ir.Block, initial: Sequence[Value], made: Sequence[Value]) -> None:
        self.b, self.block, self.initial, self.made = b, block, initial, made

    def bounds(self, goes: Value) -> list[_Bound] | None:
        """The comparisons of counters that must all hold for another iteration; None if anything else matters, too."""
        return self._all_of(goes, self._bound)

    def _all_of(self, goes: Value, bound: Callable[[ir.Operation], _Bound | None]) -> list[_Bound] | None:
        found: list[_Bound] = []
        waiting = [goes]
        while waiting:
            value = self._plain(waiting.pop())
            op = defining_op(value)
            if value == self.block.arguments[1] or ((known := self.b.constant_value(value)) is not None and known.all()):
                continue
            if op is not None and op.name == "graph.and":
                waiting += op.operands
                continue
            one = None if op is None else bound(op)
            if one is None:
                return None
            found.append(one)
        return found

    def _plain(self, value: Value) -> Value:
        """A scalar behind ops that pass it on unchanged."""
        while (op := defining_op(value)) is not None and op.name in _SAME:
            source = op.operands[0]
            if op.name == "graph.cast" and (type_of(source).dtype, type_of(value).dtype) != ("i32", "i64"):
                break
            value = source
        return value

    def _sides(self, op: ir.Operation) -> tuple[Value, Value, int] | None:
        """The compared values, the smaller side first, and 1 if the sides may be equal."""
        name = _FLIPPED.get(op.name, op.name)
        if name not in ("graph.less", "graph.less_equal") or type_of(op.operands[0]).dtype not in ("i32", "i64"):
            return None
        left, right = op.operands if op.name == name else reversed(list(op.operands))
        return left, right, int(name == "graph.less_equal")

    def _bound(self, op: ir.Operation) -> _Bound | None:
        sides = self._sides(op)
        if sides is None:
            return None
        bound, counter = self._plain(sides[1]), self._counter(sides[0])
        if counter is None or type_of(bound).size != 1 or not self._is_outside(bound):
            return None
        return _Bound(counter, bound, sides[2])

    def _is_outside(self, value: Value) -> bool:
        """Whether a value is defined outside the loop."""
        op = defining_op(value)
        own = value.owner if op is None else op.block
        return own != self.block

    def _counter(self, value: Value) -> _Counter | None:
        """A value of the body as a counter."""
        value, offset = self._offset(value)
        if value == self.block.arguments[0]:
            return _Counter(None, offset)
        for argument, start, after in zip(list(self.block.arguments)[2:], self.initial, self.made[1:], strict=False):
            if value == argument and type_of(value).size == 1 and self._offset(after) == (argument, 1):
                return _Counter(start, offset)
        return None

    def _offset(self, value: Value) -> tuple[Value, int]:
        """A value as another one plus a number."""
        offset = 0
        while True:
            value = self._plain(value)
            op = defining_op(value)
            if op is None or op.name not in ("graph.add", "graph.sub"):
                return value, offset
            sides = list(op.operands)
            known = [self.b.constant_value(side) for side in sides]
            if known[1] is None and op.name == "graph.add":
                sides, known = sides[::-1], known[::-1]
            if known[1] is None or known[1].size != 1 or known[0] is not None:
                return value, offset
            amount = int(known[1].reshape(()))
            value, offset = sides[0], offset + (amount if op.name == "graph.add" else -amount)

    def are_first(self, condition: Value, bounds: Sequence[_Bound]) -> bool:
        """Whether a condition before the loop makes the comparisons of `bounds` on the numbers before the first iteration."""
        if any(one.counter.offset != 1 for one in bounds):
            return False
        asked = self._all_of(condition, lambda op: self._asked(op, bounds))
        if not asked:
            return False
        return all(self._holds_first(one) for one in bounds if not any(self._are_same(one, other) for other in asked))

    def _are_same(self, one: _Bound, other: _Bound) -> bool:
        """Whether two comparisons are certainly the same before the first iteration."""
        starts = self._same(one.counter.start, other.counter.start)
        return starts and one.slack == other.slack and self._same(one.bound, other.bound)

    def _holds_first(self, one: _Bound) -> bool:
        start, bound = (None if v is None else self.b.constant_value(v) for v in (one.counter.start, one.bound))
        before = 0 if one.counter.start is None else None if start is None else int(start.reshape(()))
        return before is not None and bound is not None and before < int(bound.reshape(())) + one.slack

    def _asked(self, op: ir.Operation, bounds: Sequence[_Bound]) -> _Bound | None:
        """The comparison of an iteration that an op makes before the first one."""
        sides = self._sides(op)
        if sides is None:
            return None
        left, right, slack = sides
        return next((one for one in bounds if one.slack == slack and self._same(left, one.counter.start) and self._same(right, one.bound)), None)

    def _same(self, left: Value | None, right: Value | None) -> bool:
        """Whether two scalars are certainly the same number; None means 0."""
        if left is not None and right is not None and self._plain(left) == self._plain(right):
            return True
        one, other = (0 if value is None else _size(self.b, value) for value in (left, right))
        return one is not None and one == other
