"""Operations with regions (fused groups, conditionals and loops), their terminator, and a placeholder for a branch that cannot be valid."""

from stepwell.dialects.core.attribute_kinds import TEXT
from stepwell.dialects.core.carried import Carried, Carrier
from stepwell.dialects.core.mlir import ir, report
from stepwell.dialects.core.types import BOOL, TensorType, type_of
from stepwell.dialects.graph.base import (
    Fusion,
    GraphOp,
    InferredTypes,
    Operand,
    Pure,
    Region,
    VariadicOperand,
    VariadicResult,
    compatible,
)
from stepwell.dialects.graph.flops import no_arithmetic
from stepwell.dialects.support.errors import InferenceError


class ControlInfo(Carrier):
    """The attributes of a conditional or a loop."""

    on, what = ("graph.if", "graph.loop"), "a graph.if or a graph.loop"

    reason: Carried[str | None] = Carried("stepwell.reason", TEXT, None)
    """The reason why the importer could not resolve the op, for the error message if it cannot be lowered."""


class YieldOp(GraphOp, name="yield", fusion=Fusion.FREE, traits=[ir.IsTerminatorTrait]):
    """Ends the region of a graph op and yields its results."""

    values: VariadicOperand


class FusedOp(GraphOp, name="fused", fusion=Fusion.FREE, traits=[Pure, ir.IsIsolatedFromAboveTrait]):
    """A group of ops that becomes one kernel: its body sees only the inputs, as block arguments, and yields the result(s)."""

    inputs: VariadicOperand
    results_: VariadicResult
    body: Region

    def verify_region_invariants(self) -> bool:
        """Verify that the body is one block whose arguments are the inputs and whose yield gives the results."""
        return report(self, region_problem(self.operation, 0, [type_of(v) for v in self.inputs], list(self.result_types())))


class IfOp(GraphOp, name="if", fusion=Fusion.FREE, traits=[Pure]):
    """Runs `then` or `else_` depending on a boolean scalar; both regions capture the values that they use and yield the results."""

    condition: Operand
    results_: VariadicResult
    then: Region
    else_: Region

    def verify_region_invariants(self) -> bool:
        """Verify that the condition is a boolean scalar and that both regions yield the results."""
        condition = type_of(self.condition)
        if condition != TensorType(BOOL, ()):
            return report(self, f"operand 'condition' must be tensor<i1>, got {condition}")
        results = list(self.result_types())
        return report(self, region_problem(self.operation, 0, [], results) or region_problem(self.operation, 1, [], results))


class LoopOp(GraphOp, name="loop", fusion=Fusion.FREE, traits=[Pure]):
    """ONNX's Loop: at most `trip_count` iterations while the condition holds.

    The body's block arguments are the iteration number (tensor<i64>), the condition (tensor<i1>) and the carried values; it yields the next
    condition, the next carried values and the collected values. The results are the carried values after the last iteration, and the collected values
    of all iterations along a new first dimension. If a size of a carried value changes between iterations, the body has its own symbol for it, and
    the result another one.
    """

    trip_count: Operand
    condition: Operand
    carried: VariadicOperand
    results_: VariadicResult
    body: Region

    def verify_region_invariants(self) -> bool:
        """Verify that the body's arguments, the yielded values and the results fit the carried values."""
        count, condition = TensorType("i64", ()), TensorType(BOOL, ())
        for name, value, expected in (("trip_count", self.trip_count, count), ("condition", self.condition, condition)):
            if type_of(value) != expected:
                return report(self, f"operand '{name}' must be {expected}, got {type_of(value)}")
        carried, results = [unnamed(type_of(v)) for v in self.carried], [unnamed(t) for t in self.result_types()]
        if not fit(carried, results[: len(carried)]) or not all(kind.rank for kind in results[len(carried) :]):
            return report(self, f"carries {spell(carried)}, but its results are {spell(results)}")
        parts = [kind.with_shape(kind.shape[1:]) for kind in results[len(carried) :]]
        inside = [condition, *results[: len(carried)], *parts]
        problem = region_problem(self.operation, 0, [count, condition, *results[: len(carried)]], inside)
        if problem is None:
            own = [unnamed(type_of(a)) for a in self.body.blocks[0].arguments][2:]
            if own != results[: len(carried)]:  # a size that is known in only one of the types may change between iterations
                problem = f"carries {spell(own)} through its body, but its results are {spell(results)}"
        return report(self, problem)


class RequireOp(GraphOp, name="require", fusion=Fusion.FREE, flops=no_arithmetic):
    """Ends the run with an error that contains `problem`, unless the boolean scalar `condition` equals `value`.

    It replaces a branch of a conditional that cannot be valid; the other branch is computed instead. `check-indices` turns it into a check.
    """

    condition: Operand
    value: ir.BoolAttr
    problem: ir.StringAttr

    @staticmethod
    def infer(condition: TensorType, *, value: bool, problem: str) -> InferredTypes:
        if condition != TensorType(BOOL, ()):
            raise InferenceError(f"operand 'condition' must be tensor<i1>, got {condition}")
        return ()


def region_problem(op: ir.Operation, index: int, arguments: list[TensorType], results: list[TensorType]) -> str | None:
    """The problem with a one-block region that takes `arguments` and yields `results`; None if there is none."""
    blocks = list(op.regions[index].blocks)
    if len(blocks) != 1 or len(blocks[0].operations) == 0:
        return f"region {index} must be one block that ends in graph.yield"
    last = blocks[0].operations[len(blocks[0].operations) - 1]
    if last.operation.name != "graph.yield":
        return f"region {index} must end in graph.yield, it ends in {last.operation.name}"
    try:
        taken, yielded = [type_of(a) for a in blocks[0].arguments], [type_of(v) for v in last.operands]
    except InferenceError as error:
        return f"region {index}: {error.args[0]}"
    if not fit(taken, arguments):
        return f"region {index} must take {spell(arguments)}, it takes {spell(taken)}"
    if not fit(yielded, [unnamed(t) for t in results]):  # sizes known only at run time may differ in the next iteration
        return f"region {index} must yield {spell(results)}, it yields {spell(yielded)}"
    return None


def fit(types: list[TensorType], expected: list[TensorType]) -> bool:
    """Whether two lists of types agree wherever both are static."""
    return len(types) == len(expected) and all(map(compatible, types, expected))


def unnamed(tensor: TensorType) -> TensorType:
    """A type without the names of sizes that are known only at run time."""
    return tensor.with_shape([size if isinstance(size, int) else None for size in tensor.shape])


def spell(types: list[TensorType]) -> str:
    """A list of types for a message."""
    return "(" + ", ".join(map(str, types)) + ")"
