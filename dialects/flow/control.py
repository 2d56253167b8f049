"""Control flow between kernel launches: conditionals and loops whose regions are functions of the module."""

from collections.abc import Sequence
from typing import Any

from stepwell.dialects.core.mlir import ir, report
from stepwell.dialects.core.types import BOOL, TensorType, type_of
from stepwell.dialects.flow.dialect import Flow
from stepwell.dialects.graph.base import Fusion, GraphOp, Operand, VariadicOperand, VariadicResult, compatible, make_op
from stepwell.dialects.graph.control import spell

CONTROL = ("flow.if", "flow.loop")


class IfOp(GraphOp, dialect=Flow, name="if", fusion=Fusion.FREE):
    """The results of the function `then` on the inputs if the condition holds, else those of the function `otherwise`.

    The last `destinations` inputs are not passed on: they are the buffers for the results, one for each from the level `graph-opt` on.
    """

    condition: Operand
    inputs: VariadicOperand
    results_: VariadicResult
    then: ir.StringAttr
    otherwise: ir.StringAttr
    destinations: ir.IntegerAttr

    def verify_region_invariants(self) -> bool:
        """Whether the condition is a boolean scalar, and whether there is a destination of its type for each result, or none at all."""
        condition = type_of(self.condition)
        if condition != TensorType(BOOL, ()):
            return report(self, f"operand 'condition' must be tensor<i1>, got {condition}")
        return report(self, destination_problem(self))


class LoopOp(GraphOp, dialect=Flow, name="loop", fusion=Fusion.FREE):
    """Iterations of the function `body`: at most `trip_count`, while the condition holds.

    The body takes the iteration number (tensor<i64>), the condition (tensor<i1>) and the inputs, the first `carried` of which are those of the
    previous iteration. It returns the next condition, the next carried values, and the collected parts: one for each of the other results but the
    last.

    The results are the carried values; the collected parts along a new first dimension, which is as long as the largest possible trip count (the
    parts of iterations that did not run are undefined); and the trip count (tensor<1xi64>). `destinations` as in `flow.if`.
    """

    trip_count: Operand
    condition: Operand
    inputs: VariadicOperand
    results_: VariadicResult
    body: ir.StringAttr
    carried: ir.IntegerAttr
    destinations: ir.IntegerAttr

    def verify_region_invariants(self) -> bool:
        """Whether trip count and condition are scalars, and the carried values have the types of the first results."""
        count, condition = TensorType("i64", ()), TensorType(BOOL, ())
        for name, value, expected in (("trip_count", self.trip_count, count), ("condition", self.condition, condition)):
            if type_of(value) != expected:
                return report(self, f"operand '{name}' must be {expected}, got {type_of(value)}")
        number = self.attribute_values()["carried"]
        if not 0 <= number <= len(self.inputs):
            return report(self, f"attribute 'carried' must be from 0 to the number of inputs, {len(self.inputs)}, got {number}")
        carried, results = [type_of(v) for v in self.inputs[:number]], list(self.result_types())
        if len(results) <= number or not all(map(compatible, carried, results)):
            return report(self, f"carries {spell(carried)}, but its results are {spell(results)}")
        if results[-1] != TensorType("i64", (1,)):
            return report(self, f"must have the number of rounds, tensor<1xi64>, as its last result, got {results[-1]}")
        return report(self, destination_problem(self))


def destination_problem(op: "IfOp | LoopOp") -> str | None:
    """A problem with the destinations of an op's results; None if there is none."""
    count = op.attribute_values()["destinations"]
    if not 0 <= count <= len(op.inputs):
        return f"attribute 'destinations' must be from 0 to the number of inputs, {len(op.inputs)}, got {count}"
    types = [type_of(v) for v in list(op.inputs)[len(op.inputs) - count :]] if count else []
    results = list(op.result_types())
    if count and (len(types) != len(results) or not all(map(compatible, types, results))):
        return f"has the results {spell(results)}, but destinations {spell(types)}"
    return None


def passed_on(op: "IfOp | LoopOp") -> list[ir.Value]:
    """The inputs that are passed to the functions."""
    return list(op.inputs)[: len(op.inputs) - op.attribute_values()["destinations"]]


def destinations_of(op: "IfOp | LoopOp") -> list[ir.Value]:
    """The destinations of the results."""
    return list(op.inputs)[len(op.inputs) - op.attribute_values()["destinations"] :]


def with_inputs(op: "IfOp | LoopOp", inputs: Sequence[ir.Value], attributes: dict[str, Any], types: Sequence[TensorType]) -> ir.Operation:
    """A copy of this op in front of it and at its location, with the same scalars, but with other inputs, attributes and results."""
    old = op.operation
    scalars = list(old.operands)[: len(old.operands) - len(op.inputs)]
    with ir.InsertionPoint(old), old.location:
        return make_op(type(op), [*scalars, list(inputs)], attributes, types).operation


def called_by(op: ir.Operation) -> list[str]:
    """The names of the functions that a conditional or a loop calls."""
    return [ir.StringAttr(op.attributes[name]).value for name in (("then", "otherwise") if op.name == "flow.if" else ("body",))]
