"""The pass that gives arithmetic to element types which no level below the graph level computes with: floats of 8 bits."""


from stepwell.dialects.core.mlir import ir, ops_below, replace_op
from stepwell.dialects.core.types import TensorType, type_of
from stepwell.dialects.graph import GraphBuilder, GraphOp
from stepwell.dialects.graph.base import map_groups
from stepwell.dialects.graph.emulation import emulated_in, needs_emulation
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import functions


@register_pass("emulate-floats", level="graph")
class EmulateFloats(Pass):
    """Compute ops on emulated element types, such as 8-bit floats, in their compute type, and round each result once.

    rewrite: f(x, …) in f8E4M3FN  ->  cast(f(cast(x), …) in f32, to f8E4M3FN)

    The casts convert as `ml_dtypes` does: to the nearest number, of two the even one; beyond the greatest number to infinity, or to NaN in a type
    without one. They are fused like other element-wise ops, so that between kernels memory holds the narrow type; operands of large products become
    f32 once. Ops that only move elements stay as they are. No pass behind this one, and no level below, computes with elements of such a type.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        b = GraphBuilder(state.weights)
        for inner in [o for function in functions(op) for o in ops_below(function)]:
            if isinstance(inner.opview, GraphOp) and needs_emulation(inner.opview):
                emulate(inner.opview, b)
                state.count(self.name, 1)


def emulate(view: GraphOp, b: GraphBuilder) -> None:
    """Replace an op by the same op on compute types, between casts."""
    op = view.operation
    with ir.InsertionPoint(op), op.location:
        operands = map_groups(lambda value: cast(b, value, emulated_in(type_of(value))), view.operand_groups())
        made = b.create(type(view), operands, view.attribute_values(), [emulated_in(kind) for kind in view.result_types()]).operation
        values = [cast(b, new, type_of(old)) for old, new in zip(op.results, made.results, strict=True)]
    replace_op(op, values)


def cast(b: GraphBuilder, value: ir.Value, kind: TensorType) -> ir.Value:
    """A value in the element type of `kind`, beyond the greatest number of which is infinity or NaN."""
    if type_of(value).dtype == kind.dtype:
        return value
    return b.cast(value, to=kind.dtype, saturate=False)
