"""The pass that keeps narrow floats in their compute type between ops that gain by it: convolutions, large products, sums."""

from dataclasses import dataclass, field
from typing import Any

from stepwell.dialects.core.dtypes import HALVES, compute_dtype
from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.mlir import defining_op, ir, ops_below, users
from stepwell.dialects.core.sizes import product
from stepwell.dialects.core.types import type_of
from stepwell.dialects.graph import BatchNormOp, CastOp, GraphBuilder, GraphOp
from stepwell.dialects.graph.base import map_groups
from stepwell.dialects.graph.logic import rounds_result
from stepwell.dialects.graph.traits import Convolves, Fusion, JoinsData, MovesData, SumsProducts
from stepwell.dialects.support.errors import StepwellError
from stepwell.dialects.target.costs import Costs
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import functions
from stepwell.passes.graph.integer_products import sum_of_products
from stepwell.passes.graph.matching import erase_unused, is_elementwise, is_stored

COMPUTING = (Fusion.REDUCTION, Fusion.COMPLEX)


@register_pass("widen-halves", level="graph", optional=True)
class WidenHalves(Pass):
    """Compute f16 and bf16 convolutions and products of many rows, and ops that depend only on them, in f32 from end to end.

    rewrite: conv(x, w) in f16  ->  cast(conv(cast(x), cast(w)) in f32), and f(cast(y), …)  ->  cast(f(y, …) in f32)
    rewrite: cast(f(x, …)), for a node that computes in f32  ->  f(cast(x), …) in f32

    Every op on 16-bit floats computes in f32 anyway, but rounds its result. Convolutions and products read their operands often: widening both, and
    rounding between the ops of a kernel, takes a good part of the time. So numbers stay f32 from the first such op on, and weights become f32 once.
    The same holds for the results of nodes that the importer computes in f32, such as means, and for element-wise ops whose results only such nodes
    read: the squares that a norm sums do not overflow. A cast that is a node of the model rounds. Ops that only move elements follow if all operands
    are f32. Products with few rows, or a dynamic number of rows, are bound by reading their weights, which stay in 16 bits; so do those of all
    products that together have more than `max_bytes`.
    """

    max_bytes: int = 1 << 28  # of the weights of products, whose size doubles

    def run(self, op: ir.Operation, state: PassState) -> None:
        costs = state.machine.costs
        for function in functions(op):
            if not KernelInfo(function).is_kernel:
                inside = ops_below(function)
                products = [o for o in inside if is_large_product(o, costs)]
                widening = _Widening(GraphBuilder(state.weights), costs, sum(type_of(o.operands[1]).bytes for o in products) <= self.max_bytes)
                graph_ops = [o for o in inside if isinstance(o.opview, GraphOp) and not o.regions]
                for inner in reversed(graph_ops):
                    widening.note_operand_of_sums(inner)
                for inner in graph_ops:
                    state.count(self.name, int(widening.rewrite(inner)))
                erase_unused(widening.replaced)


@dataclass
class _Widening:
    """One run on a function."""

    b: GraphBuilder
    costs: Costs
    products: bool
    """Whether products of many rows are widened."""
    wide: dict[ir.Value, ir.Value] = field(default_factory=dict)
    """Maps 16-bit values to their values in f32."""
    summed: set[ir.Operation] = field(default_factory=set)
    """Element-wise ops whose results are read only in f32, by the nodes that read them."""
    replaced: list[ir.Operation] = field(default_factory=list)

    def note_operand_of_sums(self, op: ir.Operation) -> None:
        """Add an element-wise op to `summed` if it belongs there. Its users come first."""
        if not is_elementwise(op.opview) or len(op.results) != 1 or type_of(op.results[0]).dtype not in HALVES:
            return
        readers = users(op.results[0])
        if readers and all(reader in self.summed or (widens_operand(reader) and reader.location != op.location) for reader in readers):
            self.summed.add(op)

    def rewrite(self, op: ir.Operation) -> bool:
        """Compute an op in f32 if it should be; returns whether it was."""
        view: Any = op.opview
        halves = [v for v in op.operands if type_of(v).dtype in HALVES]
        if isinstance(view, CastOp):
            if rounds_result(op):
                self.wide[view.result] = view.x
                return False
            if view.x in self.wide and type_of(view.result) == type_of(self.wide[view.x]):  # of what it would be rounded to in between, all is known
                view.result.replace_all_uses_with(self.wide[view.x])
                self.replaced.append(op)
                return True
            return False
        if not halves or not any(type_of(r).dtype in HALVES for r in op.results) or not self.follows(view, halves):
            return False
        try:
            with ir.InsertionPoint(op), op.location:
                made = self.b.create(type(view), map_groups(self.widened, view.operand_groups()), view.attribute_values()).operation
        except StepwellError:
            return False
        if any(type_of(new) != self._expected(old) for new, old in zip(made.results, op.results, strict=True)):
            made.erase()
            return False
        for new, old in zip(made.results, op.results, strict=True):
            kind = type_of(old).dtype
            with ir.InsertionPoint.after(made), op.location:
                again = new if kind not in HALVES else self.b.cast(new, to=kind, saturate=True)
            old.replace_all_uses_with(again)
            if kind in HALVES:
                self.wide[again] = new
        self.replaced.append(op)
        return True

    def follows(self, view: ir.OpView, halves: list[ir.Value]) -> bool:
        """Whether an op computes in f32: a convolution, a product of many rows, or an op whose 16-bit operands are all available in f32, or known."""
        if view.has_trait(Convolves) or view.operation in self.summed:
            return True
        if self.products and is_large_product(view.operation, self.costs):
            return True
        together = is_elementwise(view) or view.fusion in COMPUTING or isinstance(view, BatchNormOp)  # which is yet to be decomposed
        if not (together or view.has_trait(MovesData) or view.has_trait(JoinsData)):
            return False
        waits = view.has_trait(SumsProducts)  # bound by reading its weights
        return any(v in self.wide for v in halves) and all(v in self.wide or (is_known(v) and not waits) for v in halves)

    def widened(self, value: ir.Value) -> ir.Value:
        """An operand in f32, if it has 16 bits."""
        if type_of(value).dtype not in HALVES:
            return value
        if value not in self.wide:
            return self.b.cast(value, to=compute_dtype(type_of(value).dtype), saturate=True)
        return self.wide[value]

    @staticmethod
    def _expected(old: ir.Value) -> Any:
        kind = type_of(old)
        return kind.with_dtype(compute_dtype(kind.dtype))


def widens_operand(op: ir.Operation) -> bool:
    """Whether an op is a cast to the compute type of a half that belongs to the node that reads it."""
    if not isinstance(op.opview, CastOp) or type_of(op.results[0]).dtype != compute_dtype(type_of(op.operands[0]).dtype):
        return False
    readers = users(op.results[0])
    return bool(readers) and all(reader.location == op.location for reader in readers)


def is_large_product(op: ir.Operation, costs: Costs) -> bool:
    """Whether an op is the product of many rows of 16-bit floats with known weights."""
    products = sum_of_products(op.opview)
    sizes = None if products is None else products.rows(type_of(op.operands[0]).shape)
    if sizes is None or type_of(op.operands[1]).dtype not in HALVES or not is_known(op.operands[1]):
        return False
    rows = product(sizes)
    return isinstance(rows, int) and rows > costs.conversion_rows


def is_known(value: ir.Value) -> bool:
    """Whether a value is a constant or a parameter, perhaps moved or cast."""
    while (op := defining_op(value)) is not None and isinstance(op.opview, GraphOp):
        if not (op.opview.has_trait(MovesData) or isinstance(op.opview, CastOp)):
            break
        value = op.operands[0]
    return is_stored(value)
