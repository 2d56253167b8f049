"""The `flow` dialect: the ops of a program between kernel launches, from the level `graph-opt` to `scheduled`."""

from stepwell.dialects.core.attributes import Sizes, sizes_value
from stepwell.dialects.core.mlir import Dialect, Operand, Operation, Pure, Result, VariadicResult, ir, register_dialect, report
from stepwell.dialects.support.errors import InferenceError


@register_dialect
class Flow(Dialect, name="flow"):
    """Sizes that become known while a program runs, conditionals and loops."""


class BindSizesOp(Operation, dialect=Flow, name="bind_sizes"):
    """Like `graph.bind_sizes`; its results are the numbers, as values of type index."""

    values: Operand
    numbers: VariadicResult
    sizes: Sizes

    def verify_invariants(self) -> bool:
        """Whether `values` is a vector of i64 with one element per size, and there are as many sizes as results."""
        operands, results = list(self.operation.operands), list(self.operation.results)
        kind = operands[0].type if operands else None
        try:
            count = len(sizes_value(self.operation.attributes["sizes"]))
        except (KeyError, InferenceError) as error:
            return report(self, f"attribute 'sizes' must list sizes: {error}")
        vector = isinstance(kind, ir.RankedTensorType) and list(kind.shape) == [count] and str(kind.element_type) == "i64"
        if len(operands) != 1 or not vector:
            return report(self, f"takes a tensor<{count}xi64>, as attribute 'sizes' says, got {kind}")
        if [str(result.type) for result in results] != ["index"] * count:
            return report(self, f"must have {count} results of type index, as attribute 'sizes' says")
        return True


class SizeOp(Operation, dialect=Flow, name="size", traits=[Pure]):
    """A size that is known when a region's function begins, as a value of type index."""

    number: Result
    size: ir.StringAttr

    def verify_invariants(self) -> bool:
        """Whether the result is an index."""
        is_index = [str(result.type) for result in self.operation.results] == ["index"]
        return report(self, None if is_index else "must have one result of type index")
