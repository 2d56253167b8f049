"""Operations with regions: fused groups, conditionals and loops, and the terminator they share."""

from stepwell.dialects.graph.base import GraphOp, Pure, Region, VariadicOperand, VariadicResult
from stepwell.dialects.mlir import Operand, ir
from stepwell.dialects.types import BOOL, TensorType


class YieldOp(GraphOp, name="yield", traits=[ir.IsTerminatorTrait]):
    """Ends the region of a graph op and hands over its results."""

    values: VariadicOperand


class FusedOp(GraphOp, name="fused", traits=[Pure, ir.IsIsolatedFromAboveTrait]):
    """A group of ops that becomes one kernel: its body sees the inputs only, as block arguments, and yields the result."""

    inputs: VariadicOperand
    results_: VariadicResult
    body: Region

    def verify_region_invariants(self) -> bool:
        """The body is one block whose arguments are the inputs and whose yield gives the results."""
        problem = region_problem(self.operation, 0, [v.type for v in self.inputs])
        return report(self, problem)


class IfOp(GraphOp, name="if", traits=[Pure]):
    """`then` or `else_` by a boolean scalar; both regions capture what they use and yield the results."""

    condition: Operand
    results_: VariadicResult
    then: Region
    else_: Region

    def verify_region_invariants(self) -> bool:
        """The condition is a boolean scalar; both regions yield the results."""
        condition = TensorType.from_mlir(self.condition.type)
        if condition != TensorType(BOOL, ()):
            return report(self, f"operand 'condition' must be tensor<i1>, got {condition}")
        return report(self, region_problem(self.operation, 0, []) or region_problem(self.operation, 1, []))


class LoopOp(GraphOp, name="loop", traits=[Pure]):
    """ONNX's Loop without scan outputs: at most `trip_count` rounds while the condition holds.

    The body's block arguments are the round (tensor<i64>), the condition (tensor<i1>) and the carried values; it yields the next
    condition and the next carried values.
    """

    trip_count: Operand
    condition: Operand
    carried: VariadicOperand
    results_: VariadicResult
    body: Region

    def verify_region_invariants(self) -> bool:
        """The body's arguments and yield fit the carried values."""
        carried = [v.type for v in self.carried]
        arguments = [TensorType("i64", ()).to_mlir(), TensorType(BOOL, ()).to_mlir(), *carried]
        block = self.operation.regions[0].blocks[0]
        if [a.type for a in block.arguments] != arguments:
            return report(self, f"its body must take ({', '.join(map(str, arguments))})")
        yielded = [v.type for v in block.operations[len(block.operations) - 1].operands]
        if yielded != arguments[1:]:
            return report(self, f"its body must yield ({', '.join(map(str, arguments[1:]))}), got ({', '.join(map(str, yielded))})")
        return True


def report(op: GraphOp, problem: str | None) -> bool:
    """Emit `problem` at the op, if there is one; the verifier's verdict."""
    if problem is not None:
        op.location.emit_error(f"'{op.OPERATION_NAME}' {problem}")
    return problem is None


def region_problem(op: ir.Operation, index: int, arguments: list[ir.Type]) -> str | None:
    """What is wrong with a one-block region that takes `arguments` and yields the op's results."""
    blocks = list(op.regions[index].blocks)
    if len(blocks) != 1 or len(blocks[0].operations) == 0:
        return f"region {index} must be one block that ends in graph.yield"
    got = [a.type for a in blocks[0].arguments]
    if got != arguments:
        return f"region {index} must take ({', '.join(map(str, arguments))}), it takes ({', '.join(map(str, got))})"
    last = blocks[0].operations[len(blocks[0].operations) - 1]
    if last.operation.name != "graph.yield":
        return f"region {index} must end in graph.yield, it ends in {last.operation.name}"
    yielded, results = [v.type for v in last.operands], [r.type for r in op.results]
    if yielded != results:
        return f"region {index} yields ({', '.join(map(str, yielded))}), the op's results are ({', '.join(map(str, results))})"
    return None
