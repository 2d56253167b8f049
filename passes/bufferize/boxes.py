"""Boxes on memory: vectors with the distance of a tensor from the workspace of @main in bytes, and its sizes."""

from stepwell.dialects.core.mlir import arith, ir, memref
from stepwell.dialects.core.segments import BOX_ELEMENTS
from stepwell.dialects.core.symbolic_shapes import constant
from stepwell.dialects.flow.boxes import BOX_OP, UNBOX_OP
from stepwell.passes.bufferize.program import ProgramBuilder, emits
from stepwell.passes.bufferize.size_arithmetic import as_i64


@emits(BOX_OP)
def box(b: ProgramBuilder, op: ir.Operation) -> None:
    """Write the tensor's distance, and its sizes."""
    target, shape = b.operand(op.operands[1]), b.shapes.shape(op.operands[0])
    root, _ = b.plan.boxed[op].root()
    numbers = [b.lies(root), *map(b.size, shape), *[constant(0)] * (BOX_ELEMENTS - 1 - len(shape))]
    for place, number in enumerate(numbers):
        memref.StoreOp(as_i64(number), target, [constant(place)])


@emits(UNBOX_OP)
def unbox(b: ProgramBuilder, op: ir.Operation) -> None:
    """Read the tensor's distance."""
    lies = memref.LoadOp(b.operand(op.operands[0]), [constant(0)]).result
    b.opened[b.plan.opened.index(op)] = arith.IndexCastOp(ir.IndexType.get(), lies).result
