"""Values known at compile time: constants, weights, shapes, and small ops on these, evaluated by their references."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stepwell.dialects.core.attributes import to_python
from stepwell.dialects.core.dtypes import to_numpy
from stepwell.dialects.core.mlir import defining_op, ir
from stepwell.dialects.core.sizes import is_static
from stepwell.dialects.core.types import TensorType, type_of
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.graph.base import GraphOp, map_groups
from stepwell.dialects.support.errors import StepwellError
from stepwell.dialects.support.limits import Budget

FOLD_ELEMENTS = 1 << 16  # elements; ops with a larger result are not evaluated here, because this is for shapes, axes and scalars


class KnownValues:
    """Finds and caches the arrays of values that are known at compile time; the cache stays valid while the visited ops do not change.

    `limit` bounds the number of elements of an evaluated result. Evaluated arrays count towards `budget` until `release`. Nothing is evaluated beyond
    the budget, and `objection` then gives the reason why a value is unknown.
    """

    def __init__(self, weights: WeightTable, limit: int = FOLD_ELEMENTS, budget: Budget | None = None) -> None:
        self.weights = weights
        self.limit = limit
        self.budget = budget
        self._found: dict[ir.Value, np.ndarray | None] = {}
        self._refused: dict[ir.Value, str] = {}
        self._held = 0

    def value(self, value: ir.Value) -> np.ndarray | None:
        """The array of `value` if it is known, or None. Uses an explicit stack, because chains of ops may be long."""
        waiting: list[tuple[ir.Value, Sequence[ir.Value] | None, int]] = [(value, None, 0)]
        while waiting:
            current, operands, done = waiting.pop()
            if current in self._found:
                continue
            if operands is None:
                leaf, array = self._leaf(current)
                if leaf:
                    self._found[current] = array
                    continue
                op = defining_op(current)
                assert op is not None
                operands = list(op.operands)
            while done < len(operands):
                operand = operands[done]
                if operand not in self._found:
                    waiting += [(current, operands, done), (operand, None, 0)]  # continue here when the operand is done
                    break
                if self._found[operand] is None:
                    self._found[current] = None
                    if operand in self._refused:
                        self._refused[current] = self._refused[operand]
                    break
                done += 1
            else:
                self._evaluate(current)
        return self._found[value]

    def objection(self, value: ir.Value) -> str | None:
        """The reason why a value that could be evaluated is not: its cost. None if there is none."""
        return self._refused.get(value)

    def release(self) -> None:
        """Forget all values, and return their share of the budget."""
        self._found.clear()
        self._refused.clear()
        if self.budget is not None:
            self.budget.held_bytes -= self._held
        self._held = 0

    def _leaf(self, value: ir.Value) -> tuple[bool, np.ndarray | None]:
        """Whether the type or op of a value decides alone if it is known, and the value's array if it is."""
        tensor = type_of(value)
        if tensor.is_static and not tensor.elements:
            return True, np.empty(tensor.static_shape, to_numpy(tensor.dtype))  # there is only one possible value
        op = defining_op(value)
        view = None if op is None else op.opview
        if op is None or not isinstance(view, GraphOp):
            return True, None
        if op.name == "graph.constant":
            return True, to_python(op.attributes["value"])
        if op.name == "graph.sizes":
            sizes = view.attribute_values()["values"]
            return True, np.array(sizes, dtype=np.int64) if is_static(sizes) else None
        if op.name == "graph.parameter":
            return True, self.weights.get(op.attributes["id"].value)
        if op.name == "graph.shape_of" and type_of(op.operands[0]).is_static:
            return True, np.array(type_of(op.operands[0]).shape, dtype=np.int64)
        unknown = type(view).reference is None or any(not t.is_static or t.elements > self.limit for t in view.result_types())
        return unknown, None

    def _evaluate(self, value: ir.Value) -> None:
        """Evaluate the results of an op whose operands are known."""
        op = defining_op(value)
        assert op is not None
        view: Any = op.opview
        self._found[value] = None
        if self.budget is not None:
            made, work = sum(t.bytes for t in view.result_types()), operations(view)
            problem = self.budget.objection(made, work)
            if problem is not None:
                self._refused[value] = problem
                return
            self.budget.spend(made, work)
            self._held += made
        try:
            arrays = view.evaluate(map_groups(self._found.__getitem__, view.operand_groups()))
        except (StepwellError, ArithmeticError, IndexError, TypeError, ValueError):  # the reference is undefined for these data
            return
        self._found.update(zip(op.results, arrays, strict=True))


def constant_value(value: ir.Value, weights: WeightTable, limit: int = FOLD_ELEMENTS) -> np.ndarray | None:
    """Like GraphBuilder.constant_value, for any weight table; `limit` bounds the number of elements of an evaluated result."""
    return KnownValues(weights, limit).value(value)


def operations(view: GraphOp) -> int:
    """The cost of evaluating an op with static types: its arithmetic, and at least one operation for each element of its results."""
    types: tuple[TensorType, ...] = view.result_types()
    count: Any = type(view).flops(*view.operand_types(), result=types[0], **view.attribute_values())
    return max(int(count), sum(t.elements for t in types))
