"""The pass that splits concatenations of very many operands."""


from stepwell.dialects.core.mlir import ir, ops_below
from stepwell.dialects.graph import ConcatOp, GraphBuilder
from stepwell.dialects.support.errors import PipelineError
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import replace_results


@register_pass("limit-concats", level="graph")
class LimitConcats(Pass):
    """Split concatenations that a kernel copies if they have more than `max-operands`.

    rewrite: concat(x1, …, xn)  ->  concat(concat(x1, …, xk), …, concat(…, xn))     with k the limit, again until none is above it

    Bufferisation of a kernel takes time that grows with the third power of the number of slices in it. Each level of nesting copies the data once
    more. A concatenation whose operands are contiguous in memory is not a kernel, and stays unchanged.
    """

    max_operands: int = 64

    def __post_init__(self) -> None:
        if self.max_operands < 2:
            raise PipelineError(f"pass 'limit-concats': max-operands must be 2 or more, got {self.max_operands}")

    def run(self, op: ir.Operation, state: PassState) -> None:
        for inner in ops_below(op, "graph.concat"):
            view = inner.opview
            if not isinstance(view, ConcatOp) or view.is_contiguous or len(inner.operands) <= self.max_operands:
                continue
            values, axis, total = list(inner.operands), view.attribute_values()["axis"], len(inner.operands)
            with ir.InsertionPoint(inner), inner.location:
                b = GraphBuilder(state.weights)
                while len(values) > 1:
                    parts = [values[i : i + self.max_operands] for i in range(0, len(values), self.max_operands)]
                    values = [part[0] if len(part) == 1 else b.concat(part, axis=axis) for part in parts]
            replace_results(inner, values, b)
            inner.erase()
            state.count(self.name)
            state.did(self.name, values[0].owner, f"its {total} operands are joined in groups of {self.max_operands}")
