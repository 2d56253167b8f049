"""Values known at compile time: constants, weights, shapes, and small ops on these, evaluated by their references."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stepwell.dialects.core.attributes import to_python
from stepwell.dialects.core.dtypes import to_numpy
from stepwell.dialects.core.mlir import defining_op, ir
from stepwell.dialects.core.sizes import known
from stepwell.dialects.core.types import TensorType, type_of
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.graph.base import GraphOp, map_groups
from stepwell.dialects.support.errors import StepwellError
from stepwell.dialects.support.limits import Budget

FOLD_ELEMENTS = 1 << 16  # no op with a larger result is evaluated here: this is for shapes, axes and scalars


class KnownValues:
    """Finds the arrays of values that are known at compile time, and keeps each, as long as the ops that it saw do not change.

    `limit` bounds the elements of an evaluated result. Evaluated arrays count in `budget` until `release`; beyond it
    nothing is evaluated, and `objection` says why a value is unknown.
    """

    def __init__(self, weights: WeightTable, limit: int = FOLD_ELEMENTS, budget: Budget | None = None) -> None:
        self.weights = weights
        self.limit = limit
        self.budget = budget
        self._found: dict[ir.Value, np.ndarray | None] = {}
        self._refused: dict[ir.Value, str] = {}
        self._held = 0

    def value(self, value: ir.Value) -> np.ndarray | None:
        """The array of `value` if it is known, or None. Walks with its own stack, since sequences of ops may be long."""
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
                    waiting += [(current, operands, done), (operand, None, 0)]  # come back when it is done
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
        """Why a value that could be known is not: what it would cost."""
        return self._refused.get(value)

    def release(self) -> None:
        """Forget everything, and return its part of the budget."""
        self._found.clear()
        self._refused.clear()
        if self.budget is not None:
            self.budget.held_bytes -= self._held
        self._held = 0

    def _leaf(self, value: ir.Value) -> tuple[bool, np.ndarray | None]:
        """Whether a value is known, or not, by its type or its op alone; what it holds."""
        tensor = type_of(value)
        if tensor.is_static and not tensor.elements:
            return True, np.empty(tensor.static_shape, to_numpy(tensor.dtype))  # there is only one
        op = defining_op(value)
        view = None if op is None else op.opview
        if op is None or not isinstance(view, GraphOp):
            return True, None
        if op.name == "graph.constant":
            return True, to_python(op.attributes["value"])
        if op.name == "graph.sizes":
            sizes = view.attribute_values()["values"]
            return True, np.array(sizes, dtype=np.int64) if known(sizes) else None
        if op.name == "graph.parameter":
            return True, self.weights.get(op.attributes["id"].value)
        if op.name == "graph.shape_of" and type_of(op.operands[0]).is_static:
            return True, np.array(type_of(op.operands[0]).shape, dtype=np.int64)
        unknown = type(view).reference is None or any(not t.is_static or t.elements > self.limit for t in view.result_types())
        return unknown, None

    def _evaluate(self, value: ir.Value) -> None:
        """Find the results of an op whose operands are known."""
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
        except (StepwellError, ArithmeticError, IndexError, TypeError, ValueError):  # a reference on data that it has no meaning for
            return
        self._found.update(zip(op.results, arrays, strict=True))


def constant_value(value: ir.Value, weights: WeightTable, limit: int = FOLD_ELEMENTS) -> np.ndarray | None:
    """As GraphBuilder.constant_value, for any table; `limit` bounds the elements of an evaluated result."""
    return KnownValues(weights, limit).value(value)


def operations(view: GraphOp) -> int:
    """What evaluating an op of static types costs: its arithmetic, and at least an operation for each element of its results."""
    types: tuple[TensorType, ...] = view.result_types()
    count: Any = type(view).flops(*view.operand_types(), result=types[0], **view.attribute_values())
    return max(int(count), sum(t.elements for t in types))
