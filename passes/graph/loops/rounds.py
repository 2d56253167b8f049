"""Classifies values of a loop's body over all iterations: invariant, a counter, or a row of a tensor that can be computed in front of the loop.

Such loops are `for` loops: all iterations run, and their number is known or a size of the program, so nothing is computed for iterations that never
run.
"""

from collections.abc import Callable, Sequence
from typing import Any

from stepwell.dialects.core.mlir import defining_op, ir
from stepwell.dialects.core.sizes import Size, always, product as sizes_product
from stepwell.dialects.core.types import INTEGERS, type_of
from stepwell.dialects.graph import ExpandOp, GraphBuilder, GraphOp, LoopOp
from stepwell.dialects.graph.base import map_groups
from stepwell.dialects.graph.known import KnownValues
from stepwell.dialects.graph.regions import captured_by
from stepwell.dialects.graph.symbolic import SymbolicValues
from stepwell.dialects.graph.traits import JoinsData, Speculatable, SumsProducts
from stepwell.passes.graph.bind_sizes import symbols_of
from stepwell.passes.graph.matching import is_elementwise, moves_by_place, states
from stepwell.passes.graph.outline_regions import is_outside


class Rounds:
    """The values of a loop's body with a trip count of `count`; None if it is known only at run time."""

    def __init__(self, op: LoopOp, count: int | Size | None, b: GraphBuilder) -> None:
        self.op, self.count, self.b = op, count, b
        self.body = op.operation.regions[0].blocks[0]
        self.arguments = list(self.body.arguments)[2:]
        self.initial = list(op.carried)
        self.end = list(self.body.operations)[-1].operation
        around = [type_of(v) for v in (*self.initial, *captured_by(op.operation))]
        self._symbols = {name for kind in around for size in kind.shape for name in symbols_of(size)}
        self._known = KnownValues(b.weights)
        self._sizes = SymbolicValues(self._known)
        self._stacked: dict[ir.Value, ir.Value | None] = {}
        self._lifted: dict[ir.Value, ir.Value] = {}
        self._rules: dict[ir.Value, Callable[[], ir.Value]] = {}

    def yielded(self, number: int) -> ir.Value:
        """The next value of carried value `number` that an iteration yields."""
        return self.end.operands[1 + number]

    def collected(self) -> Sequence[ir.Value]:
        """The values that the iterations collect."""
        return list(self.end.operands)[1 + len(self.arguments) :]

    def number(self, value: ir.Value) -> int | Size | None:
        """The integer in a scalar, perhaps an expression of sizes; None if it is not known."""
        found = self._sizes.value(value)
        return None if found is None or found.size != 1 else found.item()

    def is_outside(self, value: ir.Value) -> bool:
        """Whether a value used in the body is defined outside the loop."""
        return is_outside(value, self.body)

    # Loop invariants.

    def is_invariant(self, value: ir.Value) -> bool:
        """Whether a value is the same in each iteration, and could be computed in front of the loop."""
        waiting, seen = [value], set[ir.Value]()
        while waiting:
            current = waiting.pop()
            if current in seen or self.is_outside(current):
                continue
            seen.add(current)
            op = defining_op(current)
            if op is None:
                if current in self.arguments and self.yielded(self.arguments.index(current)) == current:
                    continue
                return False
            if not is_movable(op) or not self._has_sizes(op):
                return False
            waiting += op.operands
        return True

    def _has_sizes(self, op: ir.Operation) -> bool:
        """Whether the sizes that an op of the body names are those of values outside the loop, not found by an iteration."""
        kinds = [size for v in op.results for size in type_of(v).shape]
        named = [size for value in op.opview.attribute_values().values() if isinstance(value, (list, tuple)) for size in value]
        return self._symbols.issuperset(name for size in (*kinds, *named) if isinstance(size, Size) for name in size.symbols)

    def lifted(self, value: ir.Value) -> ir.Value:
        """An invariant value in front of the loop, at the builder's insertion point."""
        if self.is_outside(value):
            return value
        if value not in self._lifted:
            op = defining_op(value)
            if op is None:
                self._lifted[value] = self.initial[self.arguments.index(value)]
            else:
                operands = [self.lifted(operand) for operand in op.operands]
                made = op.clone(ir.InsertionPoint.current)
                for number, operand in enumerate(operands):
                    made.operands[number] = operand
                self._lifted.update(zip(op.results, made.results, strict=True))
        return self._lifted[value]

    # Counters.

    def counter(self, value: ir.Value) -> tuple[int | Size, int] | None:
        """`start` and `step` of an integer that is `start + step * round`; None for other values."""
        sign = 1
        offset: int | Size = 0  # the result is `sign * value + offset`
        while (op := defining_op(value)) is not None and not self.is_outside(value):
            if op.name in ("graph.reshape", "graph.cast") and {type_of(v).dtype for v in (value, op.operands[0])} <= {"i32", "i64"}:
                value = op.operands[0]
                continue
            if op.name not in ("graph.add", "graph.sub"):
                return None
            left, right = op.operands
            of_right = 1 if op.name == "graph.add" else -1
            if (amount := self.number(right)) is not None:
                value, offset = left, offset + sign * of_right * amount
            elif (amount := self.number(left)) is not None:
                value, offset, sign = right, offset + sign * amount, sign * of_right
            else:
                return None
        if type_of(value).size != 1 or type_of(value).dtype not in ("i32", "i64"):
            return None
        if value == self.body.arguments[0]:
            return offset, sign
        if value not in self.arguments:
            return None
        place = self.arguments.index(value)
        start, step = self.number(self.initial[place]), self._step(value, self.yielded(place))
        return None if start is None or step is None else (sign * start + offset, sign * step)

    def _step(self, argument: ir.Value, after: ir.Value) -> int | None:
        """The increment of a carried number in an iteration."""
        op = defining_op(after)
        if op is None or op.name not in ("graph.add", "graph.sub") or argument not in list(op.operands):
            return 0 if after == argument and type_of(argument).dtype in INTEGERS else None
        left, right = op.operands
        other = self.number(right if left == argument else left)
        if not isinstance(other, int) or (op.name == "graph.sub" and right == argument):
            return None
        return other if op.name == "graph.add" else -other

    def last(self, number: int) -> int | Size | None:
        """The final value of carried number `number`, if it is a counter."""
        found = self.counter(self.arguments[number])
        return None if found is None or self.count is None else found[0] + self.count * found[1]

    # Rows.

    def set_stacked(self, value: ir.Value, rows: ir.Value) -> None:
        """Declare that a value of the body is, in iteration r, row r of a tensor in front of the loop."""
        self._stacked = {known: made for known, made in self._stacked.items() if made is not None}  # values that depend on it may be queried again
        self._stacked[value] = rows

    def can_stack(self, value: ir.Value) -> bool:
        """Whether a value that depends on the iteration, but on no carried value, can be computed for all iterations in front of the loop."""
        waiting = [value]
        while waiting:
            current = waiting[-1]
            if current in self._stacked or current in self._rules:
                waiting.pop()
                continue
            op = defining_op(current)
            if op is None or self.is_outside(current):
                self._stacked[current] = None
                waiting.pop()
                continue
            parts = [v for v in op.operands if not self.is_invariant(v)]
            missing = [v for v in parts if v not in self._stacked and v not in self._rules] if _row_rule(op) else []
            if missing and op.name not in ("graph.gather", "graph.at_round"):
                waiting += missing
                continue
            waiting.pop()
            rule = self._rule(op.opview, parts)
            if rule is None:
                self._stacked[current] = None
            else:
                self._rules[current] = rule
        return value in self._rules or self._stacked[value] is not None

    def stacked(self, value: ir.Value) -> ir.Value:
        """The tensor (rounds, *shape) of a value in all iterations, at the builder's insertion point; `can_stack` holds."""
        found = self._stacked.get(value)
        if found is None:
            found = self._stacked[value] = self._rules[value]()
        return found

    def _rule(self, op: Any, parts: Sequence[ir.Value]) -> Callable[[], ir.Value] | None:
        """How to compute the result of an op for all iterations; `parts` are its operands that depend on the iteration."""
        name, attributes = op.operation.name, op.attribute_values() if isinstance(op, GraphOp) else {}
        if name in ("graph.gather", "graph.at_round"):
            return self._of_rows(op, attributes)
        if not parts or not all(v in self._rules or self._stacked.get(v) is not None for v in parts):
            return None
        kind, b = type_of(op.operation.results[0]), self.b
        if None in kind.shape or not self._has_sizes(op.operation):
            return None
        if is_elementwise(op):
            return lambda: b.create(type(op), [self._broadcast(v, kind.rank) for v in op.operation.operands], attributes).operation.results[0]
        if name == "graph.matmul" and list(parts) == [op.lhs] and type_of(op.rhs).rank == 2 and None not in type_of(op.lhs).shape:
            return lambda: product(b, self.stacked(op.lhs), self.lifted(op.rhs))
        if states(op.operation, SumsProducts) and list(parts) == [op.operation.operands[0]] and has_row_dimension(op):
            return lambda: self._product_of_rows(op)
        if moves_by_place(op.operation) or (states(op.operation, JoinsData) and len(parts) == len(op.operation.operands)):
            return None if self._batched(op) is None else lambda: self._moved(op)
        return None

    def _batched(self, op: Any) -> dict[str, Any] | None:
        """The attributes with which an op moves the data of all iterations; for an expansion, of data of its rank."""
        return None if self.count is None else op.batched_attributes(self.count)

    def _broadcast(self, value: ir.Value, rank: int) -> ir.Value:
        """An operand of an element-wise op of a rank, for all iterations at once."""
        if self.is_invariant(value):
            return self.lifted(value)
        rows = self.stacked(value)
        sizes = type_of(rows).shape
        short = rank + 1 - len(sizes)
        return self.b.reshape(rows, shape=(sizes[0], *(1,) * short, *sizes[1:])) if short else rows

    def _moved(self, op: Any) -> ir.Value:
        """An op that moves or joins data, applied to all iterations at once."""
        attributes = self._batched(op)
        assert attributes is not None
        rows = iter([self._aligned(op, v) for v in op.operation.operands])
        groups = map_groups(lambda _: next(rows), op.operand_groups())
        return self.b.create(type(op), groups, attributes).operation.results[0]

    def _aligned(self, op: Any, value: ir.Value) -> ir.Value:
        """An operand in all iterations; for an expansion, whose operand may have fewer dimensions, padded to its rank."""
        return self._broadcast(value, type_of(op.operation.results[0]).rank) if isinstance(op, ExpandOp) else self.stacked(value)

    def _product_of_rows(self, op: Any) -> ir.Value:
        """One product with the rows of all iterations."""
        rows, kind = self.stacked(op.operation.operands[0]), type_of(op.operation.results[0])
        count, first, *inner = type_of(rows).shape
        flat = self.b.reshape(rows, shape=(sizes_product([count, first]), *inner))
        made = self.b.create(type(op), [flat, self.lifted(op.operation.operands[1])], op.attribute_values()).operation.results[0]
        return self.b.reshape(made, shape=(count, *kind.shape))

    def row_read(self, op: Any) -> tuple[int | Size, int] | None:
        """The rows that a `gather` or an `at_round` reads in successive iterations, as `start` and `step` (1 or -1), if they certainly exist."""
        have = type_of(op.x).shape[op.attribute_values()["axis"]]
        if self.count is None or have is None or not self.is_invariant(op.x):
            return None
        if op.operation.name == "graph.at_round":
            back = op.attribute_values()["backwards"]
            found = None if op.round != self.body.arguments[0] else (have - 1, -1) if back else (0, 1)
        else:
            found = self.counter(op.indices) if type_of(op.indices).rank < 2 else None
        if found is None or found[1] not in (1, -1) or not self._has_sizes(op.operation):
            return None
        start, step = found
        least, most = (start, start + self.count) if step == 1 else (start - self.count + 1, start + 1)
        return found if always(least, ">=", 0) and always(most, "<=", have) else None

    def _of_rows(self, op: Any, attributes: dict[str, Any]) -> Callable[[], ir.Value] | None:
        """The rows that the iterations read in turn."""
        axis, read, count = attributes["axis"], self.row_read(op), self.count
        if read is None or count is None:
            return None
        start, step = read

        def rows() -> ir.Value:
            x, b = self.lifted(op.x), self.b
            rank = type_of(x).rank
            if (start, step, count) != (0, 1, type_of(x).shape[axis]):
                starts, sizes, steps = ([some if i == axis else all_ for i in range(rank)] for some, all_ in ((start, 0), (count, -1), (step, 1)))
                x = b.slice(x, starts=starts, sizes=sizes, steps=steps)
            if axis:
                x = b.transpose(x, perm=(axis, *(i for i in range(rank) if i != axis)))
            shape = (count, *type_of(op.operation.results[0]).shape)
            return x if type_of(x).shape == shape else b.reshape(x, shape=shape)

        return rows


def is_movable(op: ir.Operation) -> bool:
    """Whether an op may be computed in front of the loop even if no iteration runs: it cannot fail, and asks nothing of the run time."""
    return (states(op, Speculatable) or is_elementwise(op.opview)) and all(None not in type_of(v).shape for v in op.results)


def _row_rule(op: ir.Operation) -> bool:
    """Whether an op may have a rule that needs its operands' rows."""
    return moves_by_place(op) or states(op, JoinsData) or states(op, SumsProducts) or is_elementwise(op.opview)


def has_row_dimension(op: Any) -> bool:
    """Whether the first dimension of a product's first operand is a row dimension, which becomes the first of its result: there may be more rows."""
    found, shape = op.sum_of_products(), type_of(op.operation.operands[0]).shape
    rows = found.rows(shape)
    return rows is not None and found.lhs[0] == 0 and 0 not in found.rhs and None not in shape


def joined(b: GraphBuilder, values: Sequence[ir.Value], axis: int) -> ir.Value:
    """The concatenation of values; a single value itself."""
    return values[0] if len(values) == 1 else b.concat(list(values), axis=axis)


def product(b: GraphBuilder, rows: ir.Value, weights: ir.Value, bias: ir.Value | None = None) -> ir.Value:
    """The product of rows of any number of dimensions with a matrix, as a product of two matrices, plus a number for each column."""
    *outer, depth = type_of(rows).shape
    flat = b.reshape(rows, shape=(sizes_product(outer), depth)) if len(outer) > 1 else rows
    made = b.matmul(flat, weights)
    if bias is not None:
        made = b.add(made, bias)
    return b.reshape(made, shape=(*outer, type_of(weights).shape[1])) if len(outer) > 1 else made
