"""The pass from graph ops to linalg, tensor, arith and math."""


from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.mlir import defining_op, ir, registered_dialects
from stepwell.dialects.graph.base import graph_ops
from stepwell.passes.framework.registry import Pass, PassState, converting_pass, register_pass
from stepwell.passes.framework.rewriting import convert, functions
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder
from stepwell.passes.graph_to_linalg.lowerings import conversions
from stepwell.passes.graph_to_linalg.plain_types import make_plain
from stepwell.passes.linalg.views import TENSOR_VIEWS, origin

UPSTREAM = ("builtin", "func", "linalg", "tensor", "arith", "math", "scf", "memref", "bufferization")


@register_pass("convert-graph-to-linalg", level="graph-opt")
class ConvertGraphToLinalg(Pass):
    """Lower every graph op to linalg.generic, linalg.fill, tensor, arith and math, so that no graph op remains.

    The ops that compute a kernel's results start from a tensor.empty, which a later pass replaces by the kernel's destination. Unsigned element types
    become signless. Lowerings are registered by op (`lowering`), including those of plugins. Ops without one are left alone if a pass declares to
    convert them (`register_pass(…, converts=…)`), and so are ops of plugins' dialects that are not graph ops.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        known = conversions()
        lowered = {c.root for c in known}
        names = {cls.OPERATION_NAME for cls in graph_ops()}
        illegal = {name for name in names if name in lowered or converting_pass(name) is None}
        legal = [*UPSTREAM, *(dialect.DIALECT_NAMESPACE for dialect in registered_dialects())]
        convert(op, known, state, legal=legal, illegal=illegal)
        make_plain(op)
        for function in functions(op):
            if KernelInfo(function).is_kernel:
                copy_borrowed_result(function, state)


def copy_borrowed_result(function: ir.OpView, state: PassState) -> None:
    """rewrite: return (view of an argument or constant) -> return (copy of it)"""
    block = function.regions[0].blocks[0]
    last = block.operations[len(block.operations) - 1].operation
    for number, value in enumerate(last.operands):
        made = defining_op(origin(value, TENSOR_VIEWS))
        if made is None or made.name == "arith.constant":
            with ir.InsertionPoint(last), last.location:
                last.operands[number] = LinalgBuilder(state).copy(value)
