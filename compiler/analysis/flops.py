"""The arithmetic of graph ops and of kernels as the network defines it, whatever the algorithm."""

from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.mlir import ir, make_context, ops_below, parse_module
from stepwell.dialects.graph import GraphOp
from stepwell.dialects.support.errors import InferenceError
from stepwell.passes.framework.rewriting import functions


def flops_of(op: GraphOp) -> int | None:
    """The arithmetic operations of one op; None if they depend on unknown sizes. For ops with regions, the region's ops count separately."""
    types = op.result_types()
    if len(op.operation.regions) or not types:
        return 0
    try:
        return int(type(op).flops(*op.operand_types(), result=types[0], **op.attribute_values()))
    except InferenceError:
        return None


def kernel_flops(module: ir.Operation) -> dict[str, int | None]:
    """The arithmetic operations of each kernel of a module at level graph-opt; None if unknown."""
    found: dict[str, int | None] = {}
    for function in functions(module):
        if KernelInfo(function).is_kernel:
            views = [op.opview for op in ops_below(function.operation)]
            amounts = [flops_of(view) for view in views if isinstance(view, GraphOp) and len(view.operation.operands)]
            found[function.sym_name.value] = None if None in amounts else sum(amount or 0 for amount in amounts)
    return found


def kernel_flops_of_text(text: str) -> dict[str, int | None]:
    """Like `kernel_flops`, from the text of a model at that level."""
    context = make_context()
    with context:
        return kernel_flops(parse_module(text, context, "graph-opt").operation)
